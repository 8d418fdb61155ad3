"""Comparison of two answers: what both clusters must agree on, without what is random."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.sandbox.differential.requests import Request

_RANDOM = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "selfLink"})
_ADDRESSES = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
_OPENSHIFT = {
    "configMap": {"name": "openshift-service-ca.crt", "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}]}
}
"""A source that OpenShift's build of the API server adds to the volume with the token."""
_ALLOCATED = re.compile(r"\d+(s|m|h|d|m\d+s)|(\d+\.){3}\d+")
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|[0-9a-f]{8}-[0-9a-f-]{27}|(?<=kube-api-access-)\w{5}")


@dataclass(frozen=True, slots=True)
class Answer:
    """A status code and the decoded body: an object, the events of a watch, or a text."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()


def differences(request: Request, ours: Answer, real: Answer) -> Iterator[str]:
    """Yield what the two clusters disagree on, the most telling first."""
    if ours.status != real.status:
        yield f"status {ours.status}, real {real.status}: {_message(real)}; ours: {_message(ours)}"
        return
    if ours.status >= 400:
        yield from _refusals(ours.body, real.body)
        return
    if ours.warnings != real.warnings:
        yield f"warnings {list(ours.warnings)}, real {list(real.warnings)}"
    if request.about != "list-params":
        yield from _values(normal(ours.body), normal(real.body), "")


def _message(answer: Answer) -> str:
    return str(answer.body.get("message", ""))[:300] if isinstance(answer.body, dict) else str(answer.body)[:200]


def _refusals(ours: Any, real: Any) -> Iterator[str]:
    if not isinstance(ours, dict) or not isinstance(real, dict):
        if type(ours) is not type(real):
            yield f"body {str(ours)[:200]}, real {str(real)[:200]}"
        return
    if ours.get("reason") != real.get("reason"):
        yield f"reason {ours.get('reason')}, real {real.get('reason')}: {real.get('message')}"
    mine, theirs = causes(ours), causes(real)
    if mine != theirs:
        yield (
            f"causes: missing {_beyond(theirs, mine)}, additional {_beyond(mine, theirs)}, real {real.get('message')}"
        )
    if set(ours.get("details") or {"-": 1}) != set(real.get("details") or {"-": 1}):
        yield f"details {sorted(ours.get('details') or {})}, real {sorted(real.get('details') or {})}"


def _beyond(some: list[tuple[str, str]], others: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return list((Counter(some) - Counter(others)).elements())


def causes(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return field and type of each cause, sorted."""
    listed = (status.get("details") or {}).get("causes") or []
    return sorted((cause.get("field", ""), cause.get("reason", "")) for cause in listed)


def normal(value: Any) -> Any:
    """Return a value without what differs between clusters for other reasons than behaviour."""
    if isinstance(value, list):
        return [normal(item) for item in value if item != _OPENSHIFT]
    if isinstance(value, str):
        return _TIMES.sub("*", value)
    if not isinstance(value, dict):
        return value
    out = {key: normal(member) for key, member in value.items() if key not in _RANDOM}
    for key in _ADDRESSES & out.keys():
        if out[key] not in ("None", ["None"]):
            out[key] = "*"
    if isinstance(out.get("managedFields"), list):
        entries = [entry for entry in out["managedFields"] if str(entry.get("manager", "")).startswith("diff-")]
        out["managedFields"] = sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
    if isinstance(out.get("cells"), list):  # ages and allocated addresses
        out["cells"] = ["*" if _ALLOCATED.fullmatch(str(cell)) else cell for cell in out["cells"]]
    return out


def _values(ours: Any, real: Any, path: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(real, dict):
        for key in sorted(ours.keys() | real.keys()):
            at = f"{path}.{key}"
            if key not in ours:
                yield f"{at} missing, real {_short(real[key])}"
            elif key not in real:
                yield f"{at} additional: {_short(ours[key])}"
            else:
                yield from _values(ours[key], real[key], at)
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for index, (mine, theirs) in enumerate(zip(ours, real, strict=True)):
            yield from _values(mine, theirs, f"{path}[{index}]")
    elif isinstance(ours, list) and isinstance(real, list):
        yield f"{path} has {_others(ours, real)}, real {_others(real, ours)}"
    elif ours != real or type(ours) is not type(real):
        yield f"{path} is {_short(ours)}, real {_short(real)}"


def _others(some: list[Any], others: list[Any]) -> str:
    return json.dumps([item for item in some if item not in others])[:300]


def _short(value: Any) -> str:
    return json.dumps(value)[:160]
