"""Changes, objects, tree, Events and logs come from the dashboard, in the words and filters of its pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from gitsync.cli.commands.logs import new_lines
from gitsync.cli.output import Format, say, show
from gitsync.server.api import lists
from tests.cli.conftest import Commands, Shop, process, running
from tests.flow.factories import config_map, deployment
from tests.waiting import until


def test_changes_are_filtered_as_on_the_page(asked: Commands) -> None:
    done = asked("changes", "--since", "1h")
    assert done.code == 0
    assert done.out.startswith("TIME ")
    assert "the shop opens" in done.out
    assert asked("changes", "kind:revert").out == "no changes match\n"
    (first, *_) = asked("changes", "app:shop", "-o", "json", "--limit", "1").json
    assert first["kind"] == "sync"
    assert first["results"][0]["application"] == "gitsync/shop"
    assert (first["applications"], first["people"]) == (["gitsync/shop"], ["Ada"])
    assert datetime.fromisoformat(first["time"]).tzinfo
    wrong = asked("changes", "health:Degraded")
    assert (wrong.code, "health: is not a filter of this list" in wrong.err) == (2, True)


def test_objects_are_listed_by_name_wide_and_as_json(asked: Commands) -> None:
    assert "Deployment/web\n" in asked("objects", "-o", "name").out
    assert [item["name"] for item in asked("objects", "kind:Deployment", "-o", "json").json] == ["web"]
    assert "RISK" in asked("objects", "-o", "wide").out.splitlines()[0]
    assert "RISK" not in asked("objects").out.splitlines()[0]
    assert asked("objects", "no-such-thing").out == "no objects match\n"


def test_a_tree_reaches_the_pods_and_their_events_and_logs(asked: Commands) -> None:
    until(lambda: "Pod web-" in asked("tree", "shop").out)
    tree = asked("tree", "shop").out
    assert "Deployment web" in tree
    pod = next(line for line in asked("tree", "shop", "-o", "name").out.splitlines() if "/Pod/" in line)
    events = asked("events", "shop", pod)
    assert (events.code, "Scheduled" in events.out) == (0, True)
    assert asked("events", "shop", f"Pod/{pod.rpartition('/')[2]}").out == events.out
    assert "ScalingReplicaSet" in asked("events", "shop", "Deployment/web").out
    until(lambda: asked("logs", "shop", "Deployment/web").code == 0)
    missing = asked("logs", "shop", "StatefulSet/web")
    assert (missing.code, "not part of" in missing.err, "gitsync tree" in missing.err) == (2, True, True)
    assert asked("logs", "shop", "Deployment/web", "--pod", "other").code == 2


def test_agents_are_compared_between_environments(asked: Commands) -> None:
    source = "          envFrom: [{configMapRef: {name: model}}]\n"
    files = {
        "shop/agent.yaml": deployment("triage").replace("name: web\n", "name: agent\n") + source,
        "shop/model.yaml": config_map("model", MODEL_ID="qwen3"),
    }
    world = asked.shop.world
    world.synced(world.repo.commit("Add an agent", files))
    (found,) = asked("agents", "--environments", "-o", "json").json
    assert (found["environment"], found["agent"], found["model"]) == ("shop", "triage", "qwen3")
    assert asked("agents", "--environments").out.split()[:3] == ["AGENT", "ENVIRONMENT", "MODEL"]


def test_an_object_that_is_not_there_is_an_error_with_a_hint(asked: Commands) -> None:
    for text, problem in (
        ("web", "'web' is not an object"),
        ("Pod/none", "is not part of"),
        ("Job/x", "is not part of"),
    ):
        done = asked("events", "shop", text)
        assert (done.code, problem in done.err) == (2, True)


def test_without_a_dashboard_they_say_how_to_name_one(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # without a kubeconfig
    done = shop("changes")
    assert (done.code, "name one with --server URL" in done.err) == (2, True)


def test_watched_lists_print_new_rows_into_a_file(asked: Commands, tmp_path: Path) -> None:
    world = asked.shop.world
    source = deployment("triage").replace("name: web\n", "name: agent\n")
    lists = {"objects": "triage", "changes": "Watch this", "agents": "triage"}
    with ExitStack() as stack:
        logs = {
            name: stack.enter_context(running(name, "--watch", "--server", asked.url, cwd=tmp_path))[1]
            for name in lists
        }
        until(lambda: "web" in logs["objects"].read_text() and "the shop opens" in logs["changes"].read_text())
        world.synced(world.repo.commit("Watch this", {"shop/agent.yaml": source}))
        until(lambda: all(text in logs[name].read_text() for name, text in lists.items()))
    for log in logs.values():
        text = log.read_text()
        assert len(re.findall(r"^(?:TIME|APPLICATION|NAMESPACE|KIND) ", text, re.MULTILINE)) <= 1, text
        assert "Traceback" not in text


def test_followed_logs_print_only_what_is_new() -> None:
    assert new_lines(["a", "b"], ["a", "b", "c"]) == ["c"]
    assert new_lines(["a", "b"], ["b", "c", "d"]) == ["c", "d"]
    assert new_lines(["a", "b"], ["a", "b"]) == []
    assert new_lines(["x", "y"], ["a", "b"]) == ["a", "b"]
    assert new_lines([], ["a"]) == ["a"]


def test_shells_complete_commands_and_options() -> None:
    script = process("completion", "bash")
    assert (script.code, "_GITSYNC_COMPLETE" in script.out) == (0, True)
    words = {"COMP_WORDS": "gitsync chan", "COMP_CWORD": "1", "_GITSYNC_COMPLETE": "complete_bash"}
    assert process(env={**os.environ, **words}).out.split() == ["changes"]


def test_lists_are_one_cell_and_warnings_are_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    say("careful", is_warning=True)
    show([{"people": ["Ada", "Bob"]}], ["people"], Format.TABLE, key="people")
    assert capsys.readouterr() == ("PEOPLE\nAda, Bob\n", "careful\n")


def test_colour_is_off_on_request() -> None:
    code = (
        "import sys; sys.stdout.isatty = lambda: True;"
        "from gitsync.cli.output import say, show, Format;"
        "say('x', 'red'); show([{'name': 'Degraded'}], ['name'], Format.TABLE, key='name')"
    )
    shown = process_of(code, {"NO_COLOR": "1"})
    assert "\x1b[31m" not in shown
    assert "\x1b[31m" in process_of(code, {"FORCE_COLOR": "1"})


def process_of(code: str, environment: dict[str, str]) -> str:
    kept = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**kept, "TERM": "xterm", **environment},
    )
    return done.stdout


def test_top_shows_what_applications_cost(asked: Commands) -> None:
    # of two replicas only the one that works on it knows
    row = until(lambda: next((row for row in asked("top", "-o", "json").json if not row["elsewhere"]), None))
    assert (row["namespace"], row["name"], row["objects"]) == ("gitsync", "shop", 2)
    assert row["reconciles"] >= 2
    assert row["apiRequests"] >= 3, "two objects and a status"
    assert {"read", "source", "render", "observe", "plan", "apply", "record"} <= row["stages"].keys()
    table = until(lambda: "ELSEWHERE" not in (printed := asked("top").out) and printed)
    assert table.splitlines()[0].split()[-4:] == ["REQUESTS", "CPU", "SECONDS", "SLOWEST"]
    until(lambda: "RENDER" in asked("top", "-o", "wide").out.splitlines()[0].split())
    assert asked("top", "-o", "name").out == "gitsync/shop\n"


def test_top_marks_what_another_replica_works_on(asked: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    row_of = lists._cost_row
    monkeypatch.setattr(lists, "_cost_row", lambda view, cost, **_: row_of(view, cost, elsewhere=True))
    done = asked("top")
    header, row = done.out.splitlines()
    assert (header.split()[-1], row.split()[-1], done.err) == ("ELSEWHERE", "yes", "")
    assert "ELSEWHERE" in asked("top", "-o", "wide").out.splitlines()[0].split()
    assert [item["elsewhere"] for item in asked("top", "-o", "json").json] == [True]
