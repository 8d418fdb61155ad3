"""Every list has the same output formats, and a watched one prints the rows that change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.cli.commands import SUMMARIES
from gitsync.cli.main import load_command
from gitsync.cli.output import Format, show
from gitsync.objects.keys import APPLICATION_LABEL, TRACKING_ID
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.render.yaml.reader import read_all
from tests.applicationsets.factories import TEMPLATE, listed, manifest
from tests.asgi_server import serve
from tests.cli.conftest import Done, Shop, running
from tests.flow.factories import config_map, deployment
from tests.waiting import until

SHOP = ("shop",)
LISTS: dict[str, tuple[str, ...]] = {
    "status": (),
    "plan": SHOP,
    "diff": SHOP,
    "drift": (),
    "history": SHOP,
    "audit": (),
    "orphans": (),
    "agents": (),
    "changes": (),
    "objects": (),
    "prs": (),
    "tree": SHOP,
    "events": ("shop", "Deployment/triage"),
    "doctor": (),
    "policy explain": SHOP,
    "policy list": (),
    "top": (),
    "appset list": (),
    "appset preview": ("{set}",),
    "uninstall": (),
    "upgrade": ("--check",),
    "verify-install": (),
}
OTHERS = {
    "explain",
    "agent budget",
    "agent contract",
    "agent history",
    "agent lock",
    "agent prompts",
    "build",
    "eval",
    "preview",
}
OTHERS |= {"agent bom", "agent quality", "agent upgrade", "images", "rehearse", "report"}
"""
Four readers of folders, one of registries, five lists of one object, commands whose output is a document, and one
that has rows only after an upgrade of the controller.
"""


def options_of(command: Any) -> set[str]:
    return {name for option in command.params for name in option.opts}


def with_formats() -> set[str]:
    """Return the commands, such as ``policy explain``, that have ``--output``."""
    outer = {name: load_command(name) for name in SUMMARIES}
    every = {
        f"{name} {inner}".strip(): command
        for name, group in outer.items()
        for inner, command in getattr(group, "commands", {"": group}).items()
    }
    return {name for name, command in every.items() if "--output" in options_of(command)}


def config(name: str, **members: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, **members}


@pytest.fixture
def differing(shop: Shop) -> Shop:
    """A suspended application with an agent, drift, a commit that waits, and an orphan."""
    world = shop.world
    agent = deployment("triage").replace("name: web\n", "name: agent\n")
    world.synced(world.repo.commit("Add an agent", {"shop/agent.yaml": agent}))
    assert shop("suspend", "shop", "--reason", "incident").code == 0
    until(lambda: world.condition("Ready")["reason"] == "Suspended", 10, world.status)
    world.repo.commit("A note", {"shop/note.yaml": config_map("note", text="new")})
    world.apply(config("prompt", data={"text": "edited"}), "kubectl-edit")
    left = config("left")
    marks = {APPLICATION_LABEL: "shop"}, {TRACKING_ID: f"gitsync/shop:{ref_of(left).path}"}
    left["metadata"] |= dict(zip(("labels", "annotations"), marks, strict=True))
    world.apply(left)
    world.apply(yaml.safe_load(set_of(shop).read_text(encoding="utf-8")))
    world.repo.git("switch", "--quiet", "--create", "change/one")
    (world.repo.clone / "shop/note.yaml").write_text(config_map("note", text="newer"), encoding="utf-8")
    world.repo.git("commit", "--quiet", "--all", "--message", "Another note")
    world.repo.git("push", "--quiet", "origin", "change/one")
    world.apply(
        {
            "apiVersion": "gitsync.dev/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "shop", "namespace": "gitsync"},
            "spec": {"proposals": ["change/*"]},
        },
        "proposer",
    )
    until(lambda: world.controller.pull_requests.proposals())
    until(lambda: shop("appset", "list", "-o", "json").json[0]["reason"] == "Current")
    return shop


def set_of(shop: Shop) -> Path:
    """Write an ApplicationSet of one suspended application, and return its file."""
    suspended = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "suspend": True}}
    given = manifest(listed({"name": "mall"}), template=suspended)
    del given["metadata"]["uid"]
    file = shop.world.folder / "set.yaml"
    file.write_text(yaml.safe_dump(given), encoding="utf-8")
    return file


@pytest.mark.timeout(900)  # ninety commands
def test_every_list_has_every_format(differing: Shop) -> None:
    assert set(LISTS) == with_formats() - OTHERS
    with serve(differing.world.dashboard()) as web:
        for command, given in LISTS.items():
            name, arguments = command.split(), [argument.format(set=set_of(differing)) for argument in given]
            server = ("--server", web.url) if "--server" in options_of(load_command(name[0])) else ()

            def run(output: Format, *rest: str, words: list[str] = name) -> Done:
                done = differing(*words, *rest, "-o", output.value)
                assert (done.code in (0, 1), done.err) == (True, ""), (words, output, done)
                return done

            check_formats(command, {output: run(output, *arguments, *server).out for output in Format})


def check_formats(command: str, printed: dict[Format, str]) -> None:
    """Compare what a command printed in each format: the same members, names that are unique, more columns."""
    found = json.loads(printed[Format.JSON])
    documents = read_all(printed[Format.YAML])
    assert documents, command
    assert (found if isinstance(found, list) else [found])[0].keys() == documents[0].keys(), command
    names = printed[Format.NAME].splitlines()
    assert names, command
    assert all(name.strip("/ ") for name in names), (command, names)
    assert len(set(names)) == len(names), (command, names)
    header, *rows = printed[Format.WIDE].splitlines()
    assert header.isupper(), (command, header)
    assert rows, command
    table = printed[Format.TABLE].splitlines()[0]
    if table.isupper():
        assert set(table.split()) <= set(header.split()), command


def test_a_watched_status_prints_what_changes(shop: Shop, tmp_path: Path) -> None:
    world = shop.world
    data = ("--data", world.folder / "data")
    with (
        running("status", "--watch", *data, cwd=tmp_path) as (_, log),
        running("status", "--watch", "-o", "name", *data, cwd=tmp_path) as (_, names),
    ):
        until(lambda: shop.second[:12] in log.read_text(), 40, log.read_text)
        until(lambda: names.read_text(), 40)
        third = world.repo.commit("a third prompt", {"shop/prompt.yaml": config_map("prompt", text="c")})
        world.synced(third)
        until(lambda: third[:12] in log.read_text(), 40, log.read_text)
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines].count("NAMESPACE") == 1
    assert set(names.read_text().split()) == {"gitsync/shop"}


def test_tables_have_the_words_of_the_pages_and_documents_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "Held", "sync": "OutOfSync", "health": "Missing", "phase": "AwaitingApproval"}
    show([row], tuple(row), Format.TABLE, key="name", header=False)
    assert capsys.readouterr().out == "Held  Out of sync  Missing  Needs approval\n"
    show([row], tuple(row), Format.JSON, key="name")
    assert json.loads(capsys.readouterr().out) == [row]
