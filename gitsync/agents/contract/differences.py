"""Contract drift: how what an agent depends on differs from its lock, and the class of each difference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from gitsync.agents.contract.canonical import canonical
from gitsync.agents.contract.dependencies import Dependencies, ServerDependency
from gitsync.agents.contract.lock import AgentContract, ModelContract, PeerContract, ServerContract, ToolContract
from gitsync.agents.contract.schemas import changes, shape, texts_of
from gitsync.agents.contract.wording import Wording, additions, same_words
from gitsync.objects.change import Risk


class DriftKind(Enum):
    """What differs; the value is what people read."""

    WORDING = "only the wording changed"
    DESTINATION = Wording.DESTINATION.value
    INSTRUCTION = Wording.INSTRUCTION.value
    CONCEALMENT = Wording.CONCEALMENT.value
    SECRETS = Wording.SECRETS.value
    HIDDEN = Wording.HIDDEN.value
    OTHER_TOOL = Wording.OTHER_TOOL.value
    WIDER_INPUT = "the input accepts more"
    NARROWER_INPUT = "the input accepts less"
    WIDER_OUTPUT = "the output may have more"
    NARROWER_OUTPUT = "the output has less"
    DESTRUCTIVE_HINT = "destructiveHint changed"
    READ_ONLY_HINT = "readOnlyHint changed"
    OPEN_WORLD_HINT = "openWorldHint changed"
    OTHER_HINT = "another annotation changed"
    TOOL_ADDED = "a tool that the agent may call is new"
    TOOL_OUTSIDE = "a tool that the agent may not call is new"
    TOOL_REMOVED = "the tool is gone"
    TOOL_ABSENT = "the agent may call a tool that the server does not have"
    TOOL_RENAMED = "the tool has another name, and the agent may call it"
    TOOL_LOST = "the tool has another name, which the agent may not call"
    MOVED = "the address is another one"
    SERVER_NAME = "the server has another name"
    NOT_LOCKED = "is not in the lock"
    INTERFACE_MOVED = "the card names another address"
    SECURITY = "the card requires another sign-in"
    OPERATOR = "the card names another provider"
    SKILL_ADDED = "a skill is new"
    SKILL_REMOVED = "a skill is gone"
    CARD = "the card changed"
    OTHER_MODEL = "another model is behind the name"
    MODEL_GONE = "the server does not list the model any more"
    FINGERPRINT = "the model runs with another configuration"
    REPLY_REMOVED = "replies lack a member"
    REPLY_ADDED = "replies have a new member"


CLASSES: Final[Mapping[DriftKind, Risk]] = {
    # The model does not see it.
    DriftKind.TOOL_OUTSIDE: Risk.SAFE,
    # A name in `allow` that leads nowhere: such as one with a typing error.
    DriftKind.TOOL_ABSENT: Risk.SAFE,
    # The agent works otherwise, within what was reviewed.
    DriftKind.WORDING: Risk.MODERATE,
    DriftKind.NARROWER_INPUT: Risk.MODERATE,
    DriftKind.NARROWER_OUTPUT: Risk.MODERATE,
    DriftKind.OTHER_HINT: Risk.MODERATE,
    DriftKind.TOOL_REMOVED: Risk.MODERATE,
    DriftKind.TOOL_LOST: Risk.MODERATE,
    DriftKind.SERVER_NAME: Risk.MODERATE,
    DriftKind.NOT_LOCKED: Risk.MODERATE,
    DriftKind.SKILL_REMOVED: Risk.MODERATE,
    DriftKind.CARD: Risk.MODERATE,
    DriftKind.FINGERPRINT: Risk.MODERATE,
    DriftKind.REPLY_ADDED: Risk.MODERATE,
    # Data may go elsewhere, a protection ends, or another party decides what the agent does.
    DriftKind.DESTINATION: Risk.DANGEROUS,
    DriftKind.INSTRUCTION: Risk.DANGEROUS,
    DriftKind.CONCEALMENT: Risk.DANGEROUS,
    DriftKind.SECRETS: Risk.DANGEROUS,
    DriftKind.HIDDEN: Risk.DANGEROUS,
    DriftKind.OTHER_TOOL: Risk.DANGEROUS,
    DriftKind.WIDER_INPUT: Risk.DANGEROUS,
    DriftKind.WIDER_OUTPUT: Risk.DANGEROUS,
    DriftKind.DESTRUCTIVE_HINT: Risk.DANGEROUS,
    DriftKind.READ_ONLY_HINT: Risk.DANGEROUS,
    DriftKind.OPEN_WORLD_HINT: Risk.DANGEROUS,
    DriftKind.TOOL_ADDED: Risk.DANGEROUS,
    DriftKind.TOOL_RENAMED: Risk.DANGEROUS,
    DriftKind.MOVED: Risk.DANGEROUS,
    DriftKind.INTERFACE_MOVED: Risk.DANGEROUS,
    DriftKind.SECURITY: Risk.DANGEROUS,
    DriftKind.OPERATOR: Risk.DANGEROUS,
    DriftKind.SKILL_ADDED: Risk.DANGEROUS,
    DriftKind.OTHER_MODEL: Risk.DANGEROUS,
    DriftKind.MODEL_GONE: Risk.DANGEROUS,
    DriftKind.REPLY_REMOVED: Risk.DANGEROUS,
}
"""The class of each kind of difference; docs/contracts.md is the table for users."""

_LONGEST: Final = 200
_SHOWN: Final = 5
"""Servers without an answer that a report names; one is enough to know that it is not complete."""
_HINTS: Final = {
    "destructiveHint": DriftKind.DESTRUCTIVE_HINT,
    "readOnlyHint": DriftKind.READ_ONLY_HINT,
    "openWorldHint": DriftKind.OPEN_WORLD_HINT,
}
_INTERFACES: Final = ("url", "supportedInterfaces", "additionalInterfaces", "preferredTransport")
_SECURITY: Final = ("securitySchemes", "security", "securityRequirements")
_KNOWN_CARD: Final = frozenset({*_INTERFACES, *_SECURITY, "provider", "skills", "description", "name"})


@dataclass(frozen=True, slots=True)
class ContractDifference:
    """One difference from the lock: where, what, and the details of it."""

    place: str
    kind: DriftKind
    details: str = ""

    @property
    def risk(self) -> Risk:
        """The class."""
        return CLASSES[self.kind]

    def to_row(self) -> dict[str, str]:
        """Return the members of a report."""
        row = {"place": self.place, "class": self.risk.value, "difference": self.kind.value, "details": self.details}
        return {name: value for name, value in row.items() if value}

    def __str__(self) -> str:
        return f"{self.place}: {self.kind.value}" + (f": {self.details}" if self.details else "")


def differences(locked: AgentContract, observed: AgentContract, needed: Dependencies) -> tuple[ContractDifference, ...]:
    """
    Return how what was observed differs from the lock, the most dangerous first.

    Only what was observed is compared: a server that did not answer has not changed. What the agent does not need any
    more is left out.
    """
    names = _tool_names(locked, observed)
    everything = (
        *_of_servers(locked, observed, needed, names),
        *_of_peers(locked, observed),
        *_of_models(locked, observed),
    )
    unique = dict.fromkeys(everything)
    return tuple(sorted(unique, key=lambda difference: (-difference.risk.level, difference.place)))


def worst(found: Iterable[ContractDifference]) -> Risk | None:
    """Return the highest class, None without a difference."""
    return max((difference.risk for difference in found), key=lambda risk: risk.level, default=None)


def drift_report(drift: Sequence[ContractDifference], unreachable: Mapping[str, str], limit: int) -> dict[str, Any]:
    """Return a report of at most ``limit`` bytes of JSON: the most dangerous differences come first."""
    risk = worst(drift)
    report: dict[str, Any] = {
        "class": risk.value if risk else "",
        "count": len(drift),
        "unreachable": [f"{place}: {message}"[:_LONGEST] for place, message in sorted(unreachable.items())][:_SHOWN],
        "differences": [],
    }
    for difference in drift:
        added = [*report["differences"], difference.to_row()]
        # Bytes and not characters: Kubernetes cuts the termination message at 4,096 bytes.
        if len(json.dumps({**report, "differences": added}).encode()) > limit:
            break
        report["differences"] = added
    return report


def _tool_names(*contracts: AgentContract) -> frozenset[str]:
    return frozenset(name for contract in contracts for server in contract.servers.values() for name in server.tools)


def _of_servers(
    locked: AgentContract, observed: AgentContract, needed: Dependencies, names: frozenset[str]
) -> Iterator[ContractDifference]:
    for server in needed.servers:
        place = f"tools.{server.name}"
        now = observed.servers.get(server.name)
        if now is None:
            continue
        before = locked.servers.get(server.name)
        # One that the lock has is reported as gone, or by its other name.
        known_tools = now.tools.keys() | (before.tools.keys() if before else frozenset())
        for name in sorted((server.allow or frozenset()) - known_tools):
            yield ContractDifference(f"{place}.{name}", DriftKind.TOOL_ABSENT)
        if before is None:
            yield ContractDifference(place, DriftKind.NOT_LOCKED)
            continue
        if now.url != before.url:
            yield ContractDifference(place, DriftKind.MOVED, f"{before.url} is now {now.url}")
        if now.name != before.name:
            yield ContractDifference(place, DriftKind.SERVER_NAME, f"{before.name} is now {now.name}")
        yield from _of_text(f"{place}.instructions", before.instructions, now.instructions, names)
        yield from _of_tools(server, before, now, names)


def _of_tools(
    server: ServerDependency, before: ServerContract, now: ServerContract, names: frozenset[str]
) -> Iterator[ContractDifference]:
    place = f"tools.{server.name}"
    renamed = _renamed(before, now)
    for old, new in renamed.items():
        if not server.allows(old) and not server.allows(new):
            continue
        kind = DriftKind.TOOL_RENAMED if server.allows(new) else DriftKind.TOOL_LOST
        yield ContractDifference(f"{place}.{old}", kind, new)
    for name in sorted(now.tools.keys() - before.tools.keys() - set(renamed.values())):
        kind = DriftKind.TOOL_ADDED if server.allows(name) else DriftKind.TOOL_OUTSIDE
        yield ContractDifference(f"{place}.{name}", kind)
    for name, tool in sorted(before.tools.items()):
        current_name = renamed.get(name, name)
        current = now.tools.get(current_name)
        # The model does not see what it may not call.
        if not server.allows(name) and not server.allows(current_name):
            continue
        if current is None:
            yield ContractDifference(f"{place}.{name}", DriftKind.TOOL_REMOVED)
        # The digest of a renamed tool differs by its name alone.
        elif current.digest != tool.digest:
            yield from _of_tool(f"{place}.{name}", tool, current, names - {name, current_name})


def _renamed(before: ServerContract, now: ServerContract) -> dict[str, str]:
    """Return new names by old ones: a tool that is gone and a new one with the same schema are one tool."""
    gone = sorted(before.tools.keys() - now.tools.keys())
    new = sorted(now.tools.keys() - before.tools.keys())
    pairs = {}
    for old in gone:
        # By all of the definition first: several tools may have one schema, such as a single text.
        ranked = sorted(new, key=lambda name: (-_likeness(before.tools[old], now.tools[name]), name))
        if ranked and _likeness(before.tools[old], now.tools[ranked[0]]):
            pairs[old] = ranked[0]
            new.remove(ranked[0])
    return pairs


def _likeness(old: ToolContract, new: ToolContract) -> int:
    """Return how sure it is that a new tool is an old one: 0 where it is not, as their schemas differ."""
    if old.description and same_words(old.description, new.description):
        return 3
    if shape(old.input_schema) != shape(new.input_schema):
        return 0
    return 2 if shape(old.output_schema or {}) == shape(new.output_schema or {}) else 1


def _of_tool(
    place: str, old: ToolContract, new: ToolContract, other_tools: frozenset[str]
) -> Iterator[ContractDifference]:
    yield from _of_text(f"{place}.description", old.description, new.description, other_tools)
    yield from _of_text(f"{place}.title", old.title, new.title, other_tools)
    yield from _of_schema(
        f"{place}.inputSchema", (old.input_schema, new.input_schema), (DriftKind.WIDER_INPUT, DriftKind.NARROWER_INPUT)
    )
    outputs = (old.output_schema or {}, new.output_schema or {})
    yield from _of_schema(f"{place}.outputSchema", outputs, (DriftKind.WIDER_OUTPUT, DriftKind.NARROWER_OUTPUT))
    yield from _of_texts(f"{place}.inputSchema", (old.input_schema, new.input_schema), other_tools)
    yield from _of_texts(f"{place}.outputSchema", outputs, other_tools)
    yield from _of_annotations(place, old.annotations, new.annotations, other_tools)


def _of_texts(place: str, schemas: tuple[Any, Any], other_tools: frozenset[str]) -> Iterator[ContractDifference]:
    before, now = (dict(texts_of(schema)) for schema in schemas)
    for path in sorted(before.keys() | now.keys()):
        yield from _of_text(f"{place}.{path}", before.get(path, ""), now.get(path, ""), other_tools)


def _of_text(place: str, old: str, new: str, other_tools: frozenset[str]) -> Iterator[ContractDifference]:
    if same_words(old, new):
        return
    kinds = [DriftKind(wording.value) for wording in additions(old, new, other_tools)] or [DriftKind.WORDING]
    for kind in kinds:
        yield ContractDifference(place, kind, new.strip()[:_LONGEST])


def _of_schema(
    place: str, schemas: tuple[Any, Any], kinds: tuple[DriftKind, DriftKind]
) -> Iterator[ContractDifference]:
    wider, narrower = kinds
    for change in changes(*schemas):
        details = f"{change.path}: {change.message}" if change.path else change.message
        yield ContractDifference(place, wider if change.is_wider else narrower, details)


def _of_annotations(
    place: str, old: Mapping[str, Any], new: Mapping[str, Any], other_tools: frozenset[str]
) -> Iterator[ContractDifference]:
    for name in sorted(old.keys() | new.keys()):
        # An absent hint and its default differ: a client that trusts what is declared acts otherwise.
        if old.get(name) == new.get(name):
            continue
        if isinstance(new.get(name), str) and name not in _HINTS:
            yield from _of_text(f"{place}.annotations.{name}", str(old.get(name) or ""), new[name], other_tools)
            continue
        details = f"{name}: {_shown(old.get(name))} is now {_shown(new.get(name))}"
        yield ContractDifference(f"{place}.annotations", _HINTS.get(name, DriftKind.OTHER_HINT), details)


def _of_peers(locked: AgentContract, observed: AgentContract) -> Iterator[ContractDifference]:
    for name, now in sorted(observed.peers.items()):
        place = f"tools.{name}"
        before = locked.peers.get(name)
        if before is None:
            yield ContractDifference(place, DriftKind.NOT_LOCKED)
            continue
        if now.url != before.url:
            yield ContractDifference(place, DriftKind.MOVED, f"{before.url} is now {now.url}")
        if now.digest != before.digest:
            yield from _of_card(place, before, now)


def _of_card(place: str, before: PeerContract, now: PeerContract) -> Iterator[ContractDifference]:
    old, new = before.card, now.card
    for names, kind in ((_INTERFACES, DriftKind.INTERFACE_MOVED), (_SECURITY, DriftKind.SECURITY)):
        changed = [name for name in names if _unordered(old.get(name)) != _unordered(new.get(name))]
        if changed:
            yield ContractDifference(f"{place}.card", kind, _shown(new.get(changed[0])))
    if canonical(old.get("provider")) != canonical(new.get("provider")):
        yield ContractDifference(f"{place}.card", DriftKind.OPERATOR, _shown(new.get("provider")))
    for name in ("description", "name"):
        yield from _of_text(f"{place}.card.{name}", str(old.get(name) or ""), str(new.get(name) or ""), frozenset())
    yield from _of_skills(place, _by_id(old), _by_id(new))
    for name in sorted((old.keys() | new.keys()) - _KNOWN_CARD):
        if _unordered(old.get(name)) != _unordered(new.get(name)):
            yield ContractDifference(f"{place}.card.{name}", DriftKind.CARD, _shown(new.get(name)))


def _of_skills(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ContractDifference]:
    for id in sorted(new.keys() - old.keys()):
        yield ContractDifference(f"{place}.card.skills.{id}", DriftKind.SKILL_ADDED, _shown(new[id].get("description")))
    for id in sorted(old.keys() - new.keys()):
        yield ContractDifference(f"{place}.card.skills.{id}", DriftKind.SKILL_REMOVED)
    for id in sorted(old.keys() & new.keys()):
        text = _skill_text(new[id])
        if not same_words(_skill_text(old[id]), text):
            yield from _of_text(f"{place}.card.skills.{id}", _skill_text(old[id]), text, frozenset())
        elif _unordered(_of_no_text(old[id])) != _unordered(_of_no_text(new[id])):
            yield ContractDifference(f"{place}.card.skills.{id}", DriftKind.CARD)


_SKILL_TEXTS: Final = ("name", "description", "examples", "tags")


def _skill_text(skill: Mapping[str, Any]) -> str:
    """Return what a caller reads of a skill as one text; tags and examples have no order."""
    lists = [sorted(map(str, skill.get(name) or ())) for name in ("examples", "tags")]
    return "\n".join([str(skill.get("name") or ""), str(skill.get("description") or ""), *lists[0], *lists[1]])


def _of_no_text(skill: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in skill.items() if name not in _SKILL_TEXTS}


def _by_id(card: Mapping[str, Any]) -> dict[str, Any]:
    skills = card.get("skills") if isinstance(card.get("skills"), list) else []
    return {str(skill.get("id")): skill for skill in skills or () if isinstance(skill, dict)}


def _unordered(value: Any) -> str:
    """Return a member of a card as text; its lists are sets."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return canonical(sorted(map(canonical, value)))
    return canonical(value)


def _of_models(locked: AgentContract, observed: AgentContract) -> Iterator[ContractDifference]:
    for name, now in sorted(observed.models.items()):
        before = locked.models.get(name)
        if before is None:
            yield ContractDifference(name, DriftKind.NOT_LOCKED)
            continue
        if (before.endpoint, before.id) != (now.endpoint, now.id):
            yield ContractDifference(name, DriftKind.MOVED, f"{now.id} at {now.endpoint}")
        yield from _of_model(name, before, now)


def _of_model(place: str, before: ModelContract, now: ModelContract) -> Iterator[ContractDifference]:
    if before.entry and not now.entry:
        yield ContractDifference(place, DriftKind.MODEL_GONE)
    elif before.entry and canonical(before.entry) != canonical(now.entry):
        changed = sorted(
            name for name in before.entry.keys() | now.entry.keys() if before.entry.get(name) != now.entry.get(name)
        )
        details = ", ".join(f"{name} is now {_shown(now.entry.get(name))}" for name in changed)
        yield ContractDifference(place, DriftKind.OTHER_MODEL, details)
    if before.served and now.served and before.served != now.served:
        yield ContractDifference(place, DriftKind.OTHER_MODEL, f"{before.served} is now {now.served}")
    if before.fingerprint and before.fingerprint != now.fingerprint:
        yield ContractDifference(place, DriftKind.FINGERPRINT, f"{before.fingerprint} is now {_shown(now.fingerprint)}")
    if before.reply and now.reply:
        for member in sorted(set(before.reply) - set(now.reply)):
            yield ContractDifference(f"{place}.reply", DriftKind.REPLY_REMOVED, member)
        for member in sorted(set(now.reply) - set(before.reply)):
            yield ContractDifference(f"{place}.reply", DriftKind.REPLY_ADDED, member)


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    return (value if isinstance(value, str) else canonical(value))[:_LONGEST]
