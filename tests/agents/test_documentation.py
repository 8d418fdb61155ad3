"""The pages on agents have every field of both kinds and every child, and commands and objects that are valid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.agents.evaluation.cases import parse_cases
from gitsync.agents.expansion.expand import Layout, expand
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import revision_of
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.rollout.state import Placement, Track
from gitsync.agents.systems.members import check_object
from gitsync.cli.main import load_command
from gitsync.crds import definitions
from gitsync.objects.manifest import Manifest, at
from gitsync.operator.kinds import CHILD_KINDS
from gitsync.render.yaml.reader import read_all
from tests.agents.factories import agent, example

DOCS = Path(__file__).parents[2] / "docs"
CASES = Path(__file__).parent / "expansion" / "cases"
KINDS = sorted({kind for _, _, kind in CHILD_KINDS})
SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
COLOURS = agent(update={"type": "BlueGreen"}, autoscaling={"provider": "KEDA", "maxReplicas": 3})
ROUTED = agent(update={"type": "Canary", "canary": {"steps": [{"weight": 10}], "traffic": "GatewayAPI"}})


def rows(kind: str) -> list[tuple[str, str]]:
    """Return the rows of the table of a kind: its fields, and the children."""
    page = {"Agent": "agents.md", "MultiAgentSystem": "agents-systems.md"}[kind]
    part = (DOCS / page).read_text(encoding="utf-8").partition("## What each field becomes")[2].partition("\n## ")[0]
    _, text = re.split(r"^\| field of .*\n\|---.*\n", part, flags=re.MULTILINE)
    cells = [line.strip("|").split(" | ", 1) for line in text.splitlines() if line.startswith("|")]
    return [(fields, children) for fields, children in cells]


def schema(kind: str) -> Any:
    (found,) = [one for one in definitions() if at(one, "spec", "names", "kind") == kind]
    return at(found, "spec", "versions")[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def fields(kind: str) -> list[str]:
    return [name.partition(":")[0] for cell, _ in rows(kind) for name in re.findall(r"`([^`]+)`", cell)]


def below(found: Any, path: str) -> Any:
    """Return the schema of a field, None where there is none."""
    for name in path.replace("[]", "").split("."):
        found = ((found or {}).get("items") or found or {}).get("properties", {}).get(name)
    return found


@pytest.mark.parametrize("kind", ["Agent", "MultiAgentSystem"])
def test_every_field_has_a_row_and_every_row_a_field(kind: str) -> None:
    documented = {name.replace("[]", "").partition(".")[0] for name in fields(kind)}
    assert documented == schema(kind)["properties"].keys()
    assert [name for name in fields(kind) if below(schema(kind), name) is None] == []


def documented_children() -> Iterator[tuple[str, str]]:
    """Yield kind and name of each child in the table of the Agent; a name stands after its kinds."""
    for _, cell in rows("Agent"):
        kinds: list[str] = []
        is_named = False
        for kind, name in re.findall(rf"\b({'|'.join(KINDS)})s?\b|`(<[^`]+)`", cell):
            if kind:
                kinds, is_named = ([kind] if is_named else [*kinds, kind]), False
            else:
                is_named = True
                yield from ((one, name) for one in kinds)


def expanded(manifest: Manifest, track: Track, beside: Track) -> tuple[Manifest, ...]:
    """Return the children of an Agent while a revision is checked beside the one that serves."""
    found = parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "0001"}})
    made = revision_of(found, Facts())
    placements = (Placement(track, made.name, 1), Placement(beside, made.name, 1))
    return expand(Sharing.of(found), Facts(), Layout(placements, None, beside, made.name, track), {made.name: made})


def children() -> Iterator[Manifest]:
    for case in CASES.iterdir():
        yield from read_all(case.read_text(encoding="utf-8"), case.name)
    yield from expanded(example(), Track.STABLE, Track.PREVIEW)
    yield from expanded(COLOURS, Track.BLUE, Track.GREEN)
    yield from expanded(ROUTED, Track.STABLE, Track.CANARY)


def test_every_child_is_documented_with_its_name() -> None:
    known = sorted(set(documented_children()))
    patterns = {kind: [re.compile(_pattern(name)) for of, name in known if of == kind] for kind in KINDS}
    names = {(one["kind"], one["metadata"]["name"]) for one in children()}
    assert len(names) > 30
    assert [one for one in sorted(names) if not any(each.fullmatch(one[1]) for each in patterns[one[0]])] == []
    assert {kind for kind, _ in known} == set(KINDS)


def test_the_examples_of_scaling_are_valid_and_become_autoscalers() -> None:
    page = (DOCS / "agents-operate.md").read_text(encoding="utf-8")
    part = page.partition("## Telemetry and scaling")[2].partition("\n## ")[0]
    found = [read_all(text, "agents.md")[0] for text in re.findall(r"```yaml\n(.*?)```", part, flags=re.DOTALL)]
    made = [expanded(agent(**one), Track.STABLE, Track.PREVIEW) for one in found]
    (scaled,), (hpa,) = ([one for one in each if one["kind"] in SCALERS] for each in made)
    assert (scaled["kind"], scaled["spec"]["triggers"]) == ("ScaledObject", found[0]["autoscaling"]["metrics"])
    assert (hpa["kind"], hpa["spec"]["metrics"]) == ("HorizontalPodAutoscaler", found[1]["autoscaling"]["metrics"])


def _pattern(name: str) -> str:
    return re.sub(r"<\w+>", "[a-z0-9-]+", name.replace("<a>", "(triage|helper)"))


PAGES = [*sorted(DOCS.glob("agents*.md")), DOCS / "contracts.md"]


def parse(command: str) -> None:
    """Parse the arguments of a ``gitsync`` command without running it; raise where one does not exist."""
    words = shlex.split(command, comments=True)
    node: Any = load_command(words.pop(0))
    # by their members: Typer has its own copy of click
    while hasattr(node, "commands"):
        node = node.commands[words.pop(0)]
    node.make_context(node.name, words)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_command_of_a_page_has_arguments_that_exist(page: Path) -> None:
    blocks = "\n".join(re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    for command in re.findall(r"^\$ gitsync (.*)$", blocks, flags=re.MULTILINE):
        parse(command)


@pytest.mark.parametrize("wrong", ["agent promote", "agent promote a --nope", "agent nope a"])
def test_a_command_that_does_not_exist_is_found(wrong: str) -> None:
    with pytest.raises(Exception, match=r"Missing|No such option|nope"):
        parse(wrong)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_object_of_a_page_is_valid(page: Path) -> None:
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for manifest in read_all(text, page.name):
            if "kind" in manifest:
                check_object(manifest)
            elif "configMapGenerator" not in manifest:
                # Some members of an Agent, with or without the spec around them.
                check_object(agent(**manifest.get("spec", manifest)))


def test_the_cases_of_the_page_are_valid() -> None:
    text = (DOCS / "agents-evaluate.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    assert len(parse_cases(block, "agents-evaluate.md")) == 2
