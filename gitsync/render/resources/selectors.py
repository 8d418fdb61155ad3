"""Selectors: which resources a patch, a replacement or a transformer is meant for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.render.resources.resource import Gvk, Id, Resource
from gitsync.render.resources.scopes import Scopes

Match: TypeAlias = Callable[[str], bool]

_LITERAL: Final = r"[A-Za-z0-9_/-]*"
_REQUIREMENT: Final = (
    r"\s*(?:(?P<absent>!)\s*(?P<not_key>[^\s,!=<>()]+)"
    r"|(?P<key>[^\s,!=<>()]+)\s*(?:(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,!=<>()]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)
_LONGEST_PATTERN: Final = 4096
"""Longer ones take seconds on long texts, though their time is linear."""


@lru_cache(maxsize=4096)
def pattern(text: str) -> Match:
    """Return whether a whole text matches a regular expression, in linear time; empty matches everything."""
    if not text:
        return lambda _: True
    if is_literal(text):
        return lambda value: value == text
    expression = compile_pattern(f"^(?:{text})$")
    return lambda value: expression.search(value) is not None


def is_literal(text: str) -> bool:
    """Return whether a regular expression matches its own text and nothing else."""
    return re.fullmatch(_LITERAL, text) is not None


def compile_pattern(text: str) -> Any:
    """Return the compiled regular expression; raise InvalidInput where it is not one."""
    if len(text) > _LONGEST_PATTERN:
        raise InvalidInput(f"a regular expression has {len(text)} characters", hint=f"use at most {_LONGEST_PATTERN}")
    import re2  # only where a selector is a regular expression

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise InvalidInput(f"{text} is not a regular expression ({error})", hint="correct the selector") from None


@lru_cache(maxsize=1024)
def requirements(text: str) -> tuple[Callable[[Mapping[str, str]], bool], ...]:
    """Return the requirements of a label selector such as ``app=web,tier in (a, b),!old``."""
    conditions: list[Callable[[Mapping[str, str]], bool]] = []
    position = 0
    while position < len(text):
        match = re.compile(_REQUIREMENT).match(text, position)
        if match is None or match.end() == position:
            raise InvalidInput(
                f"{text!r} is not a label selector", hint="write requirements such as app=web,tier in (a, b)"
            )
        conditions.append(_requirement(match))
        position = match.end()
    return tuple(conditions)


def _requirement(match: re.Match[str]) -> Callable[[Mapping[str, str]], bool]:
    key = match["key"]
    operator = match["op"]
    if match["absent"]:
        absent = match["not_key"]
        return lambda labels: absent not in labels
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        if match["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    value = match["value"]
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    if operator in (">", "<"):
        return lambda labels: _compares(labels.get(key), operator, value)
    return lambda labels: key in labels


def _compares(first: str | None, operator: str, second: str) -> bool:
    try:
        number = int(first or "")
        limit = int(second)
    except ValueError:
        return False
    return number > limit if operator == ">" else number < limit


def check_labels(selector: Mapping[str, Any]) -> None:
    """Raise InvalidInput where a selector asks for labels or annotations in a way that cannot be read."""
    for name in ("labelSelector", "annotationSelector"):
        requirements(selector.get(name) or "")


def has_labels(resource: Resource, selector: Mapping[str, Any]) -> bool:
    """Return whether labels and annotations meet the selector's requirements; empty ones are met."""
    for member, name in (("labels", "labelSelector"), ("annotations", "annotationSelector")):
        text = selector.get(name)
        if text:
            values = resource.labels(member)
            if not all(is_met(values) for is_met in requirements(text)):
                return False
    return True


def select(resources: Iterable[Resource], selector: Mapping[str, Any], scopes: Scopes) -> list[Resource]:
    """Return the resources whose present or original id matches the selector's regular expressions."""
    names = pattern(selector.get("name") or "")
    namespaces = pattern(selector.get("namespace") or "")
    groups, versions, kinds = (pattern(selector.get(part) or "") for part in ("group", "version", "kind"))
    selected = []
    for resource in resources:
        gvk = resource.gvk
        if not (kinds(gvk.kind) and groups(gvk.group) and versions(gvk.version)):
            continue
        now = scopes.id_of(resource)
        original = scopes.original_id(resource)
        # Either counts, so that a patch fits before and after a prefix.
        if not (names(original.name) or names(now.name)):
            continue
        if not (namespaces(original.namespace) or namespaces(now.namespace)):
            continue
        if has_labels(resource, selector):
            selected.append(resource)
    return selected


def is_selected(id_: Id, selector: Mapping[str, Any]) -> bool:
    """Return whether an id has exactly the members that a selector sets."""
    name = selector.get("name")
    if name and name != id_.name:
        return False
    namespace = selector.get("namespace")
    if namespace and namespace != id_.namespace:
        return False
    return Gvk(selector.get("group") or "", selector.get("version") or "", selector.get("kind") or "").selects(id_.gvk)


def matches_id(id_: Id, selector: Mapping[str, Any]) -> bool:
    """Return whether every member that a selector sets, as a regular expression, matches the whole of an id's."""
    members = {"name": id_.name, "namespace": id_.namespace, **id_.gvk._asdict()}
    return all(pattern(selector.get(name) or "")(value) for name, value in members.items())


class NameIndex:
    """Find resources by name; indexed once, until a step may rename one."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._found: dict[str, list[Resource]] | None = None

    def forget(self) -> None:
        """Drop the index, since names may have changed."""
        self._found = None

    def among(self, resources: Sequence[Resource], selector: Mapping[str, Any]) -> Sequence[Resource]:
        """Return the resources, in order, that have or had the name of a selector; all where it has none."""
        name = selector.get("name")
        if not name:
            return resources
        if self._found is None:
            self._found = {}
            for resource in resources:
                for known in {self._scopes.id_of(resource).name, *(previous.name for previous in resource.previous)}:
                    self._found.setdefault(known, []).append(resource)
        return self._found.get(name, ())
