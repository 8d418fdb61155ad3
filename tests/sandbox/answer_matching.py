"""Compare an answer with a recorded one whose varying values are markers such as ``<uid:1>``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_MARKER = re.compile(
    r"<(ns|time|age|rand|number|hash|port|rv|(?:uid|name|hash|rv|ip|port|node|continue):\d+|(\d+) times (.))>"
)
_PATTERNS = {
    "uid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "name": r"[a-z0-9][-a-z0-9.]*",
    "hash": r"[-A-Za-z0-9+/=]+",
    "rv": r"\d+",
    "ip": r"[0-9a-f.:]+",
    "port": r"\d+",
    "node": r"[-a-z0-9.]+",
    "continue": r"\S+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "age": r"(?:\d+[smhdy])+|<unknown>|<none>|",
    "rand": r"[a-z0-9]+",
    "number": r"\d+",
}
_SCHEDULED = 'k:{"type":"PodScheduled"}'
_DESCRIBED = re.compile(r"(\d+) times (.)")
"""The notation of a long value of one repeated letter in an answer."""
_AGO = re.compile(r"\([0-9smhdy]+ ago\)")
"""How long ago a container restarted, in a cell."""
_BRACKETS = re.compile(r"\[(.*)\]", re.DOTALL)


@dataclass
class Bindings:
    """The values of the numbered markers of a scenario."""

    namespace: str
    values: dict[str, Any] = field(default_factory=dict)
    busy: bool = False
    """Controllers are at work, so which of several objects was written last is a matter of timing."""

    def copy(self) -> Bindings:
        return Bindings(self.namespace, dict(self.values), self.busy)

    def resolve(self, value: Any) -> Any:
        """Return a request's value with the markers replaced by what was seen."""
        if isinstance(value, dict):
            return {self.resolve(key): self.resolve(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, str):
            return value
        whole = _MARKER.fullmatch(value)
        if whole and whole.group(1) in self.values:
            return self.values[whole.group(1)]
        return _MARKER.sub(self._text, value)

    def _text(self, found: re.Match[str]) -> str:
        marker = found.group(1)
        if marker == "ns":
            return self.namespace
        if found.group(2):
            return found.group(3) * int(found.group(2))
        return str(self.values.get(marker, found.group(0)))

    def bind(self, marker: str, value: Any) -> bool:
        """Bind a value to a numbered marker; return False when either is bound to another."""
        if marker in self.values:
            return bool(self.values[marker] == value)
        kind = marker.partition(":")[0] + ":"
        if any(bound == value for other, bound in self.values.items() if other.startswith(kind)):
            return False
        self.values[marker] = value
        return True


def text_differs(expected: str, actual: Any, bindings: Bindings) -> bool:
    """Tell whether a text does not fit; the bindings grow when it does."""
    described = _DESCRIBED.fullmatch(expected)
    if described:
        return bool(actual != described.group(2) * int(described.group(1)))
    whole = _MARKER.fullmatch(expected)
    if whole and not isinstance(actual, str) and isinstance(actual, int):
        return ":" in whole.group(1) and not bindings.bind(whole.group(1), actual)
    if not isinstance(actual, str):
        return True
    expected, actual = _AGO.sub("ago)", expected), _AGO.sub("ago)", actual)
    if "<" not in expected:
        return expected != actual
    markers: list[str] = []
    pattern, at = "", 0
    for found in _MARKER.finditer(expected):
        pattern += re.escape(expected[at : found.start()])
        at = found.end()
        marker = found.group(1)
        if marker == "ns" or found.group(2):
            pattern += re.escape(bindings.resolve(found.group(0)))
        elif ":" in marker:
            markers.append(marker)
            pattern += f"({_PATTERNS[marker.partition(':')[0]]})"
        else:
            pattern += f"(?:{_PATTERNS[marker]})"
    fits = re.fullmatch(pattern + re.escape(expected[at:]), actual, re.DOTALL)
    if fits is None:
        return True
    trial = bindings.copy()
    if not all(trial.bind(marker, value) for marker, value in zip(markers, fits.groups(), strict=True)):
        return True
    bindings.values = trial.values
    return False


def differences(expected: Any, actual: Any, bindings: Bindings, *, partial: bool, path: str = "") -> Iterator[str]:
    """Yield what does not fit, one line each; ``partial`` compares only the members that are expected."""
    if isinstance(expected, dict) and expected.get("type") == "BOOKMARK":
        # its revision is that of the whole cluster, which may or may not have been written to meanwhile
        apart = Bindings(bindings.namespace)
        yield from _dict_differences(expected, actual, apart, partial, path)
    elif isinstance(expected, dict):
        yield from _dict_differences(expected, actual, bindings, partial, path)
    elif isinstance(expected, list):
        yield from _list_differences(expected, actual, bindings, partial, path)
    elif isinstance(expected, str):
        if text_differs(expected, actual, bindings):
            yield f"{path}: expected {_short(bindings.resolve(expected))}, got {_short(actual)}"
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{path}: expected {_short(expected)}, got {_short(actual)}"


def _dict_differences(expected: Any, actual: Any, bindings: Bindings, partial: bool, path: str) -> Iterator[str]:
    if not isinstance(actual, dict):
        yield f"{path}: expected an object, got {_short(actual)}"
        return
    wanted = {bindings.resolve(key): value for key, value in expected.items()}
    if bindings.busy and path.endswith(".f:conditions"):
        # the kubelet owns the time of this one when it reported in another second than the scheduler
        wanted.pop(_SCHEDULED, None)
        actual = {key: value for key, value in actual.items() if key != _SCHEDULED}
    unresolved = {key for key in wanted if "<" in key}
    for key, value in wanted.items():
        if key in unresolved:
            continue
        if key in actual:
            of_list = key == "metadata" and bindings.busy and wanted.keys() & {"items", "rows"}
            used = Bindings(bindings.namespace) if of_list else bindings
            yield from differences(value, actual[key], used, partial=partial, path=f"{path}.{key}")
        else:
            yield f"{path}.{key}: missing, expected {_short(value)}"
    extra = [key for key in actual if key not in wanted]
    for key in unresolved:
        fitting = next((name for name in extra if not text_differs(key, name, bindings)), None)
        if fitting is None:
            yield f"{path}.{key}: missing"
        else:
            extra.remove(fitting)
            yield from differences(wanted[key], actual[fitting], bindings, partial=partial, path=f"{path}.{key}")
    if not partial:
        yield from (f"{path}.{key}: not expected, got {_short(actual[key])}" for key in extra)


def _list_differences(expected: list[Any], actual: Any, bindings: Bindings, partial: bool, path: str) -> Iterator[str]:
    if not isinstance(actual, list):
        yield f"{path}: expected a list, got {_short(actual)}"
        return
    if len(expected) != len(actual):
        yield f"{path}: expected {len(expected)} items, got {len(actual)}: {_short(actual)}"
        return
    if _unordered(expected, path):
        trial = _assign(expected, actual, bindings, partial)
        if trial is not None:
            bindings.values = trial.values
            return
    for index, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
        yield from differences(wanted, found, bindings, partial=partial, path=f"{path}[{index}]")


def _unordered(expected: list[Any], path: str) -> bool:
    if path.endswith((".managedFields", ".causes")):
        return True
    names = [_name_of(item) for item in expected if isinstance(item, dict)]
    return any(isinstance(name, str) and re.search("<(name|rand|hash)", name) for name in names)


def _name_of(item: dict[str, Any]) -> Any:
    """Return the name of an item of a list or of a row of a Table."""
    return item["cells"][0] if "cells" in item else item.get("metadata", {}).get("name", "")


def _assign(expected: list[Any], actual: list[Any], bindings: Bindings, partial: bool) -> Bindings | None:
    if not expected:
        return bindings
    for index, candidate in enumerate(actual):
        trial = bindings.copy()
        if next(differences(expected[0], candidate, trial, partial=partial), None) is None:
            rest = _assign(expected[1:], actual[:index] + actual[index + 1 :], trial, partial)
            if rest is not None:
                return rest
    return None


def same_message(expected: str, actual: str, bindings: Bindings) -> bool:
    """Tell whether two messages agree, the parts in brackets in any order."""
    if not text_differs(expected, actual, bindings):
        return True
    resolved = bindings.resolve(expected)
    return _parts(resolved) == _parts(actual)


def _parts(text: str) -> tuple[str, list[str]]:
    found = _BRACKETS.search(text)
    if found is None:
        return text, []
    return text[: found.start()] + text[found.end() :], sorted(found.group(1).split(", "))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}…"
