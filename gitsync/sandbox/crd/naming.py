"""The names of a definition: whether other definitions hold them, and the status that reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of

_LISTED = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


def status_of(crd: Manifest, others: Iterable[Manifest], now: str) -> dict[str, Any]:
    """
    Return the status of a definition among the others of the cluster, with the time of each change.

    Names that another definition of the group holds are not accepted; once all are, it is established.
    """
    names = crd["spec"]["names"]
    old_status = crd.get("status") or {}
    taken = _taken(crd, others)
    accepted, reason, message = _accept(names, old_status.get("acceptedNames") or {}, taken)
    old = {condition["type"]: condition for condition in old_status.get("conditions") or ()}
    conditions = dict(old)
    fine = not reason
    _set(conditions, "NamesAccepted", fine, (reason or "NoConflicts", message or "no conflicts found"), now)
    if fine:
        text = "the initial names have been accepted"
        # Once established, a definition stays it: its objects are stored.
        if (old.get("Established") or {}).get("status") != "True":
            _set(conditions, "Established", True, ("InitialNamesAccepted", text), now)
    elif (old.get("Established") or {}).get("status") != "True":
        _set(conditions, "Established", False, ("NotAccepted", "not all names are accepted"), now)
    stored = old_status.get("storedVersions") or [v["name"] for v in crd["spec"]["versions"] if v.get("storage")]
    return {"conditions": list(conditions.values()), "acceptedNames": accepted, "storedVersions": stored}


def is_established(crd: Manifest) -> bool:
    """Return whether the definition's condition Established is true."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _taken(crd: Manifest, others: Iterable[Manifest]) -> dict[str, set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        # Names are unique in a group; kubectl tells equal names of several groups apart by the group.
        if other["spec"]["group"] != crd["spec"]["group"]:
            continue
        if metadata_of(other).get("name") == metadata_of(crd).get("name"):
            continue
        held = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {held.get("plural", ""), held.get("singular", ""), *(held.get("shortNames") or ())}
        kinds |= {held.get("kind", ""), held.get("listKind", "")}
    return {"resources": resources - {""}, "kinds": kinds - {""}}


def _accept(
    names: Mapping[str, Any], held: Mapping[str, Any], taken: Mapping[str, set[str]]
) -> tuple[dict[str, Any], str, str]:
    """Return the names accepted now, and the last conflict with its message."""
    accepted: dict[str, Any] = {"plural": held.get("plural", ""), "kind": held.get("kind", "")}
    accepted.update({name: held[name] for name in ("singular", "shortNames", "listKind") if held.get(name)})
    reason = message = ""
    for member, pool, conflict in (
        ("plural", "resources", "PluralConflict"),
        ("singular", "resources", "SingularConflict"),
        ("shortNames", "resources", "ShortNamesConflict"),
        ("kind", "kinds", "KindConflict"),
        ("listKind", "kinds", "ListKindConflict"),
    ):
        wanted = names.get(member)
        clashes = [name for name in _as_list(wanted) if name in taken[pool]]
        if clashes:
            reason = conflict
            message = ", ".join(f'"{name}" is already in use' for name in clashes)
        elif wanted:
            accepted[member] = wanted
        elif member not in ("plural", "kind"):
            accepted.pop(member, None)
    if names.get("categories"):
        accepted["categories"] = names["categories"]
    return {name: accepted[name] for name in _LISTED if name in accepted}, reason, message


def _as_list(value: Any) -> list[str]:
    if isinstance(value, list):
        return value
    return [value] if value else []


def _set(conditions: dict[str, dict[str, Any]], kind: str, holds: bool, because: tuple[str, str], now: str) -> None:
    status = "True" if holds else "False"
    old = conditions.get(kind)
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
    conditions[kind] = {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": because[0],
        "message": because[1],
    }
