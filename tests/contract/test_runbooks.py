"""Each command of docs/operations.md works as printed, on an installation that runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import dashboard_url
from tests.contract.container_kubectl import VARIABLE, Container
from tests.contract.installed import DEPLOYER, install, kubeconfig_of, pod
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import Stage, eventually

ROOT = Path(__file__).resolve().parents[2]
_PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
_CODE = re.compile(r"^```\n(.*?)^```|`((?:gitsync|kubectl|curl) [^`]*)`", re.MULTILINE | re.DOTALL)
_EXEC = "kubectl -n gitsync exec deploy/gitsync -- "
_TOKEN = "m" * 32
NOT_RUN = {
    "gitsync install --component": "is run by tests/contract/test_installation.py",
    "gitsync run --processes": "is run by tests/cli/test_further_processes.py",
    "gitsync logs NAME": "needs a kubelet; tests/cli/test_dashboard_queries.py runs it",
    "gitsync rollback NAME": "pushes to Git; tests/contract/test_rollback.py runs it",
    "gitsync restore": "is run at the end, as the page has it, with no controller",
    "gitsync audit": "is run at the end, as the page has it, with no controller",
    "gitsync backup": "names the command of the block below it",
    "gitsync approve": "names a command; tests/cli/test_requests.py runs it",
}
"""The commands that are not run in the order of the page, by their beginning, and why."""
_NOT_SERVED = {"kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels"}
"""What only a real API server answers."""
_DIFFERENT = 1
"""The exit code of a command that found what is not as it should be."""


def documented() -> list[str]:
    """Return the commands of the page in its order: lines of blocks, and those in sentences."""
    commands: list[str] = []
    for block, span in _CODE.findall(_PAGE):
        commands += [" ".join(span.split())] if span else block.splitlines()
    return [command for command in commands if not command.startswith(tuple(NOT_RUN))]


def test_each_command_that_is_not_run_is_on_the_page() -> None:
    assert [beginning for beginning in NOT_RUN if f"`{beginning}" not in _PAGE and f"\n{beginning}" not in _PAGE] == []


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where an operator types the commands of the page; those that serve until they are stopped end with the test."""

    stage: Stage
    container: Container
    stack: ExitStack
    answers: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> str:
        """Run a command with the names of the installation in the places of those of the page."""
        stage = self.stage
        pods = stage.client.get(f"/api/v1/namespaces/{stage.system}/pods")["items"]
        names = {
            r"-n gitsync\b": f"-n {stage.system}",
            r"\bgitsync/POD": f"{stage.system}/{pods[0]['metadata']['name']}",
            r"serviceaccount:gitsync:": f"serviceaccount:{stage.system}:",
            r"\bNAMESPACE\b": stage.system,
            r"\bapplications.gitsync.dev shop\b": "applications.gitsync.dev app",
            r"localhost:8080": f"localhost:{self.container.port}",
        }
        line = command
        for pattern, name in names.items():
            line = re.sub(pattern, name, line)
        if command.startswith("gitsync "):
            line = line.replace("/data", self.container.data)
        if "port-forward" in command:
            return self._serve(line)
        done = subprocess.run(["bash", "-c", line], cwd=stage.folder, env=self._env(), capture_output=True, text=True)
        assert done.returncode in (0, _DIFFERENT), (line, done.stderr)
        # a page of help instead of an answer, or a command that the shell does not know
        assert "Usage:" not in done.stderr, (line, done.stderr)
        # of kubectl and curl, 1 is an error too
        is_found = line.startswith(("gitsync ", _EXEC.replace("gitsync exec", f"{stage.system} exec")))
        is_absent = not stage.is_real and command in _NOT_SERVED
        assert is_found or is_absent or done.returncode == 0, (line, done.stderr)
        self.answers[command] = done.stdout
        return done.stdout

    def _serve(self, line: str) -> str:
        serving = subprocess.Popen(["bash", "-c", f"exec {line}"], env=self._env(), stdout=subprocess.PIPE, text=True)
        self.stack.callback(serving.wait)
        self.stack.callback(serving.kill)
        assert serving.stdout is not None
        self.stack.callback(serving.stdout.close)
        return serving.stdout.readline()

    def _env(self) -> dict[str, str]:
        return {
            **self.container.environment,
            "KUBECONFIG": str(self.stage.kubeconfig),
            "PATH": f"{self.stage.folder / 'bin'}:{self.container.environment['PATH']}",
            VARIABLE: self.container.text(),
            "PASSWORD": "a password",
            "TOKEN": _TOKEN,
        }


@contextmanager
def terminal(stage: Stage) -> Iterator[Terminal]:
    """Run the controller, and yield the terminal of its operator."""
    data = stage.folder / "data"
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    program = stage.folder / "bin" / "kubectl"
    program.parent.mkdir()
    script = ROOT / "tests" / "contract" / "container_kubectl.py"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    account = kubeconfig_of(stage, "gitsync")
    inside = {
        **os.environ,
        "KUBECONFIG": str(account),
        "PATH": tools,
        "GITSYNC_DATA": str(data),
        "GITSYNC_NAMESPACE": stage.system,
        "GITSYNC_ALLOW_FILE_URLS": "true",
    }
    with ExitStack() as stack, pod(stage, account, GITSYNC_METRICS_TOKEN=_TOKEN) as (child, log):
        port = urlsplit(dashboard_url(log)).port
        kubectl = shutil.which("kubectl")
        assert kubectl is not None
        assert port is not None
        yield Terminal(stage, Container(kubectl, child.pid, port, str(data), str(log), inside), stack)


@pytest.mark.own_rights
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="the page has kubectl commands, and kubectl is not on PATH")
def test_every_command_of_the_page_works_as_printed(stage: Stage) -> None:
    install(stage, "read-secrets")
    with terminal(stage) as operator:
        stage.commit({"web.yaml": deployment(replicas=1), "settings.yaml": config_map("settings", a="1")})
        stage.application(**DEPLOYER)
        eventually(stage, lambda: stage.status().get("sync") == "Synced")
        eventually(stage, lambda: stage.client.get(f"/api/v1/namespaces/{stage.system}/pods")["items"])
        for command in documented():
            operator.run(command)
        log = Path(operator.container.log)
        eventually(stage, lambda: '"to":"debug"' in log.read_text().replace('": ', '":'))
    answers = operator.answers
    assert len(answers) > 20
    (may,) = (out for command, out in answers.items() if "can-i" in command)
    assert may.strip() == "yes", "it answers no once the right is missing"
    (metrics,) = (out for command, out in answers.items() if command.startswith("curl"))
    assert "gitsync_build_info{" in metrics
    secret = stage.live("Secret", "gitsync-database", namespace=stage.system)
    assert set(secret["data"]) == {"url"}
    assert set(stage.live("Secret", "gitsync-dashboard", namespace=stage.system)["data"]) == {"token", "session-key"}
    stage.engine = None
    data = Path(operator.container.data)
    # the copy that left the container, and not the file that is lost with the volume
    copied = stage.folder / "gitsync.backup.gz"
    assert copied.read_bytes() == (data / copied.name).read_bytes()
    shutil.rmtree(data)
    data.mkdir()
    operator.run("gitsync restore gitsync.backup.gz --data /data")
    # what was written after the backup is named, since the status of the Application has its hash
    assert "audit" in operator.run("gitsync audit verify --data /data")
    operator.run("gitsync audit accept --reason TEXT")
    assert "intact" in operator.run("gitsync audit verify --data /data")
