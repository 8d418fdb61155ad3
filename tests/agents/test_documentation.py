"""The pages on agents have every field of both kinds and every child, and commands and objects that are valid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from gitsync.agents.budget import BudgetReading, TokenCount, budget_conditions, judge_budget
from gitsync.agents.evaluation.assertions import Assertion
from gitsync.agents.evaluation.cases import parse_cases
from gitsync.agents.evaluation.verdict import EvaluationResult
from gitsync.agents.expansion.expand import Layout, expand
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import revision_of
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.model.evaluation import ContractPolicy, Evaluation, EvaluationLimits
from gitsync.agents.model.scaling import Analysis, LeaderElection, Update
from gitsync.agents.rollout import context
from gitsync.agents.rollout.state import Placement, Track
from gitsync.agents.systems.members import check_object
from gitsync.agents.waves import DEFAULT_LIMIT
from gitsync.cli.main import load_command
from gitsync.crds import definitions
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, at
from gitsync.operator.kinds import CHILD_KINDS
from gitsync.render.yaml.reader import read_all
from gitsync.settings import Settings
from gitsync.sync import evaluations
from gitsync.sync.evaluation_copies import CopyTarget
from tests.agents.factories import DOCS, agent, example, table

ROOT = DOCS.parent
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


def members(kind: str) -> dict[str, Any]:
    """Return the schema of an object, with spec and status."""
    (found,) = [one for one in definitions() if at(one, "spec", "names", "kind") == kind]
    return dict(at(found, "spec", "versions")[0]["schema"]["openAPIV3Schema"])


def schema(kind: str) -> Any:
    return members(kind)["properties"]["spec"]


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


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def choices(model: type[BaseModel], field: str) -> set[str]:
    """Return the values of a closed choice."""
    found: set[str] = set()
    for part in (model.model_fields[field].annotation, *get_args(model.model_fields[field].annotation)):
        found |= {value for value in get_args(part) if isinstance(value, str)}
    return found


CHOICES = [
    ("agents-change.md", "`update.type`", Update, "type"),
    ("agents-change.md", "`onNoData`", Analysis, "on_no_data"),
    ("contracts.md", "`onContractDrift`", ContractPolicy, "on_contract_drift"),
]


@pytest.mark.parametrize(("page", "heading", "model", "field"), CHOICES, ids=[field for *_, field in CHOICES])
def test_a_table_has_every_choice_of_its_field(page: str, heading: str, model: type[BaseModel], field: str) -> None:
    documented = [name for first, *_ in table(page, heading) for name in names(first)]
    assert sorted(documented) == sorted(choices(model, field))
    default = model.model_fields[field].default
    for first, *_ in table(page, heading):
        assert ("(default)" not in first) or names(first) == [default]


def test_the_assertions_are_those_of_cases() -> None:
    documented = {name for first, _ in table("agents-evaluate.md", "assertion") for name in names(first)}
    assert documented == {to_camel(name) for name in Assertion.model_fields}


def test_the_verdicts_are_those_of_evaluations() -> None:
    documented = {first for first, _ in table("agents-platforms.md", "verdict")}
    assert documented == {result.value.lower() for result in EvaluationResult}


@pytest.mark.parametrize(
    ("action", "used", "row"),
    [
        *((action, used, row) for action in ("Notify", "Throttle", "Suspend") for used, row in ((79, 0), (80, 1))),
        ("Notify", 100, 2),
        ("Throttle", 100, 3),
        ("Suspend", 100, 4),
        ("Notify", None, 5),
    ],
)
def test_a_row_of_budgets_has_the_condition(action: str, used: int | None, row: int) -> None:
    spec = parse_agent(agent(budget={"agent": {"tokensPerDay": 100}, "onExceeded": action})).spec
    count = TokenCount("helper", "small", False, used or 0)
    reading = BudgetReading((count,)) if used is not None else BudgetReading(problem="down")
    assert spec.budget is not None
    now = datetime(2026, 1, 1, tzinfo=UTC)
    (condition,) = budget_conditions(spec.budget, judge_budget(spec.budget, "helper", reading, {}, now))
    documented = table("agents-operate.md", "used")[row]
    assert names(documented[1]) == [condition.status, condition.reason]
    assert row < 2 or row == 5 or action in documented[0]


MOUNT = {"name": "v", "mountPath": "/data", "size": "1Gi"}
REPLICA = {"volumes": [{**MOUNT, "scope": "PerReplica"}]}
IMAGE = {"image": "registry.internal/agents/helper:1.0"}
TOOL = {"name": "t", "type": "MCP", "mcp": {"url": "http://t/mcp"}}
REFUSED: list[list[dict[str, Any]]] = [
    [{"replicas": 2, "autoscaling": {"maxReplicas": 3}}],
    [{"autoscaling": {"minReplicas": 0, "maxReplicas": 3}}],
    [{"tools": [{**TOOL, "allow": ["a"], "requireApproval": ["b"]}]}],
    [{"runtime": {**IMAGE, "env": [{"name": "API_TOKEN", "value": "x"}]}}],
    [{"runtime": {"image": "registry.internal/agents/helper"}}],
    [],  # of two states: tests/agents/model/test_schema.py has the changes of a volume
    [
        {"state": {"volumes": [{**MOUNT, "name": "agent-config"}]}},
        {"state": {"volumes": [{**MOUNT, "mountPath": "/etc/agent/x"}]}},
        {"state": {"volumes": [MOUNT, {**MOUNT, "name": "w"}]}, "update": {"type": "Recreate"}},
        {"runtime": {**IMAGE, "sidecars": [{"name": "agent", "image": "a:1"}]}},
        {
            "runtime": {**IMAGE, "sidecars": [{"name": "a", "image": "a:1"}]},
            "lifecycle": {"init": [{"name": "a", "exec": {"command": ["true"]}}]},
        },
    ],
    [
        {"state": REPLICA, "update": {"type": "BlueGreen"}},
        {
            "state": REPLICA,
            "update": {"type": "Canary", "canary": {"steps": [{"weight": 10}], "traffic": "GatewayAPI"}},
        },
    ],
    [
        {"state": {"volumes": [{**MOUNT, "accessModes": [mode]}]}, **other}
        for mode in ("ReadWriteOnce", "ReadWriteOncePod")
        for other in ({"replicas": 2, "update": {"type": "Recreate"}}, {"update": {"type": "RollingUpdate"}})
    ],
]
"""Specs that each row of the rules refuses, in the order of the page."""


def is_refused(manifest: Manifest) -> bool:
    try:
        check_object(manifest)
    except InvalidInput:
        return True
    return False


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_each_rule_of_the_page_refuses(row: int) -> None:
    rule, _ = table("agents.md", "rule")[row]
    assert len(table("agents.md", "rule")) == len(REFUSED)
    for spec in REFUSED[row]:
        assert is_refused(agent(**spec)), f"{rule}: {spec} is accepted"


def constructed(*folders: str) -> set[str]:
    """Return the types of conditions that modules construct: texts, and constants of modules."""
    types = set()
    for file in (one for folder in folders for one in ROOT.glob(folder)):
        text = file.read_text(encoding="utf-8")
        types |= set(re.findall(r"[Cc]ondition\(\s*\"(\w+)\"", text))
        module = import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        types |= {str(getattr(module, name)) for name in re.findall(r"[Cc]ondition\(\s*([A-Z_]+)\b", text)}
    return types


def test_the_conditions_are_those_of_the_code() -> None:
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^absent: (.*)\.$", text, flags=re.MULTILINE)
    assert set(names(listed)) == constructed("gitsync/agents/*.py", "gitsync/agents/rollout/*.py")


def test_every_page_is_in_the_list_of_pages() -> None:
    rows = [re.findall(r"\]\(([^)]+)\)", first)[0] for first, _ in table("agents.md", "page")]
    assert sorted(rows) == sorted(page.name for page in PAGES if page.name != "agents.md")


FIELD = re.compile(r"`((?:spec|status)\.[\w.\[\]]+)`")
KIND_OF = {"agents-systems.md": "MultiAgentSystem"}


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_field_that_a_page_names_is_defined(page: Path) -> None:
    # Pages on agents speak of Applications too.
    schemas = [members(KIND_OF.get(page.name, "Agent")), members("Application")]
    named = FIELD.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if all(below(one, name) is None for one in schemas)] == []


REASON = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`")
"""A word of a status, a kind or a choice: in the form of those that Kubernetes has."""


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_word_of_a_status_is_in_the_code(page: Path) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("gitsync/**/*.py"))
    words = set(REASON.findall(page.read_text(encoding="utf-8")))
    assert sorted(word for word in words if not re.search(rf"\b{word}\b", code)) == []


SETTING = re.compile(r"\bGITSYNC_[A-Z_]+\b|\bagents\.gitsync\.dev/[a-z-]+\b|`(gitsync\.dev/[a-z-]+)")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_setting_label_and_annotation_is_in_the_code(page: Path) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("gitsync/**/*.py"))
    settings = {match.group(1) or match.group(0) for match in SETTING.finditer(page.read_text(encoding="utf-8"))}
    known = {f"GITSYNC_{name.upper()}" for name in Settings.model_fields}
    # The group of a label is a constant of its own.
    unknown = {name for name in settings - known if name not in code and f"/{name.partition('/')[2]}" not in code}
    # The version of the kinds, and the annotation without a group.
    assert unknown - {"agents.gitsync.dev/v"} == set()


LEASE = LeaderElection.model_construct()
NUMBERS = [
    ("agents-evaluate.md", f"# {Evaluation.model_fields['pass_percent'].default} where absent"),
    ("agents-evaluate.md", f"`seconds` ({EvaluationLimits().seconds} where absent)"),
    ("agents-evaluate.md", "after 30, 60, 120 and 240 seconds"),
    ("agents-platforms.md", "after 30, 60, 120 and 240 seconds"),
    (
        "agents-operate.md",
        f"leaseDurationSeconds {LEASE.lease_duration_seconds}, renewDeadlineSeconds {LEASE.renew_deadline_seconds},"
        f" retryPeriodSeconds {LEASE.retry_period_seconds}",
    ),
    ("agents-change.md", f"`{DEFAULT_LIMIT}` by default"),
    ("agents-platforms.md", f"`startSeconds` ({CopyTarget.model_fields['start_seconds'].default})"),
    ("agents-platforms.md", f"`port` ({CopyTarget.model_fields['port'].default})"),
]
"""What pages say of defaults and times, with the values of the code."""


@pytest.mark.parametrize(("page", "text"), NUMBERS)
def test_a_page_says_the_numbers_of_the_code(page: str, text: str) -> None:
    assert text in (DOCS / page).read_text(encoding="utf-8")


def test_inconclusive_checks_are_repeated_as_the_pages_say() -> None:
    of_agents = [context._FIRST_DELAY * 2**attempt for attempt in range(context.MOST_ATTEMPTS)]
    of_copies = [evaluations._FIRST_DELAY * 2**attempt for attempt in range(evaluations.MOST_ATTEMPTS - 1)]
    assert of_agents == of_copies == [30, 60, 120, 240]
