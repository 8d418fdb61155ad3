"""The forms of a case that the runner executes: a case with any other one fails instead of passing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_WORDS = {"name", "area", "setup", "expect", "outcome", "error_mentions", "must_not", "seen_in"}
_CONTENT = {"files", "files_base64", "symlinks", "gitlinks"}
_CASE = (_WORDS | _CONTENT | {"outside", "app", "live", "annotation", "request", "steps", "variants", "values"}) | {
    "expected_data"
}
_VARIANT = _CONTENT | {"app", "annotation"}
_STEP = _CONTENT | {"commit", "commit_variants", "variants", "delete", "expect"}
_REQUEST = {"method", "path", "header_variants", "body_variants", "providers", "body"}
_FILES = ({"prefix", "repeat", "times", "suffix"}, {"count", "content"})
_APP = {"repoURL", "targetRevision", "path", "interval", "serviceAccountName", "namespace", "prune"}
_OUTCOMES = {"reject", "accept", "hold", "either"}
PLACES = ("commit message", "author", "branch name", "annotation", "object name", "error text")
"""The fields that the words of a setup name for ``values``."""


def unsupported(case: Mapping[str, Any]) -> Iterator[str]:
    """Yield the forms of a case that the runner cannot execute, one line each."""
    yield from _unknown("a case", case, _CASE)
    for variant in case.get("variants") or ():
        yield from _unknown("a variant", variant, _VARIANT)
    for step in case.get("steps") or ():
        yield from _unknown("a step", step, _STEP)
        for variant in step.get("variants") or ():
            yield from _unknown("a variant of a step", variant, _CONTENT | {"delete"})
    if "request" in case:
        yield from _unknown("a request", case["request"], _REQUEST)
    for part in _parts(case):
        yield from _unknown("an application", part.get("app") or {}, _APP)
        for path, content in (part.get("files") or {}).items():
            if not isinstance(content, str) and not any(content.keys() <= form for form in _FILES):
                yield f"the content of {path} has an unknown form: {sorted(content)}"
    if case["outcome"] not in _OUTCOMES:
        yield f"the outcome {case['outcome']} is unknown"
    if "values" in case and not places(case):
        yield f"the setup names no field for the values: {case['setup']}"
    if not case.keys() & (_CASE - _WORDS):
        yield "the case has nothing to execute"


def places(case: Mapping[str, Any]) -> list[str]:
    """Return the fields in which a setup wants each of the values."""
    return [place for place in PLACES if place in case["setup"].lower()]


def _parts(case: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield case
    yield from case.get("variants") or ()
    for step in case.get("steps") or ():
        yield step
        yield from step.get("variants") or ()


def _unknown(what: str, members: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    yield from (f"{what} has the unknown member {name}" for name in sorted(members.keys() - known))
