"""The commands of the pages on agents, each on an Agent in the state that the command is for."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.agents.expansion import revisions
from gitsync.objects.manifest import Manifest, at
from gitsync.operator import waves
from gitsync.render.yaml.reader import read_all
from gitsync.sandbox.server import Sandbox
from gitsync.server.app import create_app
from tests.asgi_server import serve
from tests.cli.conftest import Done, Gitsync
from tests.flow.environment import World
from tests.operator.agent_world import condition, running, status_of
from tests.waiting import until

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted(DOCS.glob("agents*.md")), DOCS / "contracts.md"]
NAMESPACE = "support"
DEMO = ("kubectl --kubeconfig .gitsync/kubeconfig", "curl --proxy")
"""Beginnings of commands for `make run`, whose agents answer in tests/operator/test_running_agents.py."""
CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 3600}, {"weight": 100}]}}
VOLUME = {
    "name": "notes",
    "mountPath": "/notes",
    "size": "1Gi",
    "onDelete": "Delete",
    "accessModes": ["ReadWriteMany"],
}
BACKUP = {"command": ["copy"], "beforeDangerous": False}
DRAIN = {"drain": {"exec": {"command": ["true"]}, "timeoutSeconds": 1}}


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def commands() -> list[str]:
    """Return the commands of all pages, without their comments."""
    blocks = [block for page in PAGES for block in re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.S)]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s{2,}# .*", "", line).strip() for line in lines]


def priced() -> tuple[dict[str, Any], Manifest]:
    """Return the budget that a page declares, and the ConfigMap with its prices."""
    budget, prices = re.findall(
        r"```yaml\n(budget:\n.*?|[^`]*?kind: ConfigMap\n.*?)```", text_of("agents-operate.md"), re.S
    )
    return yaml.safe_load(budget)["budget"], yaml.safe_load(prices)


def declared(page: str) -> Manifest:
    """Return the first object that a page declares."""
    (block,) = re.findall(r"```yaml\n(apiVersion: .*?)```", text_of(page), re.S)
    return dict(read_all(block, page)[0])


class Reader:
    """A reader of the pages: an Application in Git with the Agent of the pages, and a shell."""

    def __init__(self, world: World, gitsync: Gitsync, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.tried: set[str] = set()
        self._gitsync = gitsync
        self._declared = declared("agents.md")

    def commit(self, **spec: Any) -> None:
        """Declare the Agent of the page with further members, and wait until that is applied."""
        manifest: Manifest = {**self._declared, "spec": {**self._declared["spec"], **spec}}
        prompt = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "triage-prompt"}}
        files = {
            "support/agent.yaml": yaml.safe_dump(manifest),
            "support/prompt.yaml": yaml.safe_dump({**prompt, "data": {"system.md": "Sort tickets."}}),
            "support/prices.yaml": yaml.safe_dump(priced()[1]),
        }
        commit = self.world.repo.commit("Change triage", dict(files))
        self.world.synced(commit, NAMESPACE, 60)

    def follows(self, beginning: str, *more: str) -> Done:
        """Run the command of the pages with this beginning."""
        named = {command for command in commands() if command.startswith(beginning)}
        # One command may be the beginning of another one.
        (command,) = named & {beginning} or named
        self.tried.add(command)
        program, *words = shlex.split(command)
        if program == "kubectl":
            return self._kubectl(*words)
        arguments = [str(self.folder) if word == "agents/" else word for word in words]
        if str(self.folder) not in arguments:
            # A command that asks the dashboard needs no cluster.
            arguments += [] if "--server" in more else ["--kubeconfig", str(self.world.kubeconfig)]
            arguments += ["--data", str(self.world.folder / "data")]
            arguments += [] if {"-A", "-n"} & set(words) else ["-n", NAMESPACE]
        return self._gitsync(*arguments, *more)

    def does(self, beginning: str, *more: str) -> str:
        """Run a command that has to succeed, and return its output."""
        done = self.follows(beginning, *more)
        assert done.code == 0, (beginning, done)
        return done.out

    def _kubectl(self, *words: str) -> Done:
        program = shutil.which("kubectl")
        if program is None:
            return Done(0, "", "")
        place = () if "-A" in words else ("-n", NAMESPACE)
        environment = {**os.environ, "KUBECONFIG": str(self.world.kubeconfig)}
        done = subprocess.run(
            [program, *words, *place], capture_output=True, text=True, env=environment, timeout=120, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def status(self, name: str = "triage", kind: str = "Agent") -> dict[str, Any]:
        return status_of(self.world, name, kind, NAMESPACE)

    def runs(self, **spec: Any) -> str:
        """Commit the Agent with these members and wait until it runs; return its revision."""
        self.commit(**spec)
        live = self.world.get("Agent", "triage", NAMESPACE, "agents.gitsync.dev/v1alpha1") or {}
        return str(running(self.world, "triage", live["metadata"]["generation"], NAMESPACE, 60)["currentRevision"])

    def waits(self, **spec: Any) -> None:
        """Commit a change whose canary waits for a user."""
        self.commit(**spec)
        until(lambda: at(self.status(), "rollout", "stage", default="") == "Update", 60, self.status)


@pytest.fixture
def reader(tmp_path: Path, gitsync: Gitsync) -> Iterator[Reader]:
    with Sandbox() as sandbox:
        world = World(tmp_path, sandbox)
        world.namespace(NAMESPACE)
        world.application(NAMESPACE, risk={"approval": "Never"})
        folder = world.repo.clone / NAMESPACE
        yield Reader(world, gitsync, folder)
        world.close()


@pytest.mark.timeout(900)
def test_each_command_of_the_pages_does_what_they_say(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    world = reader.world
    world.start()
    base: dict[str, Any] = {"update": CANARY, "backup": BACKUP, "lifecycle": DRAIN, "budget": priced()[0]}
    first = reader.runs(**base, state={"volumes": [VOLUME]})
    listed = reader.does("kubectl get agents.agents.gitsync.dev")
    assert not listed or re.search(r"triage +Running +2/2 +qwen3-32b-instruct", listed), listed

    follow_a_rollout(reader, {**base, "state": {"volumes": [VOLUME]}}, first)
    follow_what_runs(reader)
    reader.runs(**{**base, "update": {"type": "RollingUpdate"}}, version="3.0.0")
    # Meanwhile the old Pods, which have the volume, take their time to end.
    follow_a_system(reader)
    read_what_is_kept(reader)
    until(lambda: reader.status().get("plan"), 60, reader.status)
    reader.does("gitsync agent approve triage")
    until(lambda: world.get("PersistentVolumeClaim", "triage-notes", NAMESPACE) is None, 60, reader.status)
    follow_an_upgrade(reader, monkeypatch)
    assert {command for command in commands() if not command.startswith(DEMO)} - reader.tried == set()


def follow_a_rollout(reader: Reader, base: dict[str, Any], first: str) -> None:
    reader.waits(**base, version="2.0.0")
    reader.does("gitsync agent abort triage")
    until(lambda: reader.status().get("failedRevision"), 60, reader.status)
    assert reader.status()["currentRevision"] == first
    reader.does("gitsync agent retry triage")
    until(lambda: at(reader.status(), "rollout", "stage", default="") == "Update", 60, reader.status)
    reader.does("gitsync agent promote triage")
    until(lambda: reader.status().get("lastGoodRevision") not in (None, first), 60, reader.status)


def follow_what_runs(reader: Reader) -> None:
    world = reader.world
    reader.does("gitsync agent stop triage", "--by", "grace")
    until(lambda: reader.status().get("phase") == "Suspended", 60, reader.status)
    assert "stopped by grace: leaks data" in condition(world, "Ready", "triage", namespace=NAMESPACE)["message"]
    reader.does("gitsync agent start triage")
    until(lambda: reader.status().get("ready") == "2/2", 60, reader.status)
    serving = reader.status()["currentRevision"]
    reader.does("gitsync agent restart triage")
    until(lambda: at(reader.status(), "rollout", "stage", default="") == "Update", 60, reader.status)
    reader.does("gitsync agent promote triage")
    until(lambda: reader.status().get("lastGoodRevision") not in (None, serving), 60, reader.status)
    reader.does("gitsync agent backup triage")
    until(lambda: at(reader.status(), "backup", "lastGood"), 60, reader.status)


def follow_a_system(reader: Reader) -> None:
    world, desk = reader.world, declared("agents-systems.md")
    world.apply(desk)
    kind = "MultiAgentSystem"
    until(lambda: reader.status("desk", kind).get("phase") == "Running", 60, lambda: reader.status("desk", kind))
    listed = reader.does("kubectl get multiagentsystems")
    assert not listed or re.search(r"desk +Running +2/2", listed), listed
    (back, front) = desk["spec"]["agents"]
    alone = {name: value for name, value in front.items() if name != "dependsOn"}
    world.apply({**desk, "spec": {**desk["spec"], "agents": [alone]}})
    until(lambda: reader.status("desk", kind).get("plan"), 60, lambda: reader.status("desk", kind))
    reader.does("gitsync agent approve desk --system")
    name = f"desk-{back['name']}"
    until(lambda: world.get("Agent", name, NAMESPACE, "agents.gitsync.dev/v1alpha1") is None, 60)


def read_what_is_kept(reader: Reader) -> None:
    world = reader.world
    assert reader.does("gitsync agent history triage").count("triage-") >= 3
    with serve(create_app(world.controller)) as web:
        # The dashboard reads its own copy, which follows the cluster.
        until(
            lambda: "support/triage/system.md" in reader.does("gitsync agent prompts triage", "--server", web.url), 60
        )
    assert "triage-" in reader.does("gitsync agent quality triage")
    # Without a Prometheus it is reported that the budget cannot be checked.
    assert "GITSYNC_PROMETHEUS" in reader.follows("gitsync agent budget triage").err
    assert "qwen3-32b-instruct" in reader.does("gitsync agent bom agents/")
    # The model of the page is in no cluster of this test: exit code 3, as the page on contracts has it.
    reach = "gitsync agent lock agents/ triage --reach"
    for command in ("gitsync agent lock agents/", "gitsync agent lock agents/ --check", reach):
        unreachable = reader.follows(command)
        assert (unreachable.code, "did not answer" in unreachable.err) == (3, True), unreachable
    unlocked = reader.follows("gitsync agent contract triage")
    assert (unlocked.code, "has not been compared with a lock" in unlocked.err) == (2, True)


def follow_an_upgrade(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    world = reader.world
    world.stop()
    older = revisions.pod_template

    def newer(*arguments: Any) -> Manifest:
        made = older(*arguments)
        return {**made, "spec": {**made["spec"], "terminationGracePeriodSeconds": 77}}

    monkeypatch.setattr(revisions, "pod_template", newer)
    for module in (revisions, waves):
        monkeypatch.setattr(module, "EXPANSION_VERSION", revisions.EXPANSION_VERSION + 1)
    world.start()
    until(lambda: at(reader.status(), "expansion", "changes", default=()), 60, reader.status)
    assert "terminationGracePeriodSeconds" in reader.does("gitsync agent upgrade --plan -A")
    reader.does("gitsync agent upgrade triage -n support")
    reader.does("kubectl get agents.agents.gitsync.dev -A -o custom-columns")
    reader.does("gitsync agent upgrade -A --max-unavailable 5")
    reader.does("gitsync agent upgrade -A --cancel")
    assert "Agent" in reader.does("gitsync agent upgrade triage")
