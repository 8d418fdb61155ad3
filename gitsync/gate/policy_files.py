"""Policy documents: what the operator allows which Applications, read from files of kind ``Policy``."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.manifest import at

_LISTS = {
    "repositories": "repositories",
    "namespaces": "namespaces",
    "kinds": "kinds",
    "deniedKinds": "denied_kinds",
    "clusterKinds": "cluster_kinds",
}
_DENY_ALL = Policy(name="none (no policy names this application)", namespaces=("-",))
"""Allows nothing: no namespace is called ``-``."""


def parse_policy(document: Mapping[str, Any], where: str) -> Policy | None:
    """
    Return what a policy document allows, None for one that only has rules.

    Raise InvalidInput with the location of a member that is unknown or of the wrong type: a misspelt limit must not
    silently allow everything.
    """
    spec, name = document.get("spec"), at(document, "metadata", "name")
    if document.get("kind") != "Policy" or not isinstance(spec, dict) or not isinstance(name, str):
        raise InvalidInput("kind must be Policy, with metadata.name and spec", location=where)
    unknown = spec.keys() - {"applications", "allow", "limits", "match", "rules"}
    if unknown:
        raise InvalidInput(f"spec.{min(unknown)} is unknown", location=where)
    if not spec.keys() & {"applications", "allow", "limits"}:
        return None
    allow = _mapping(spec, "allow", _LISTS, where)
    limits = _mapping(spec, "limits", ("pruneShare", "maxObjects"), where)
    given: dict[str, Any] = {_LISTS[key]: _strings(value, f"spec.allow.{key}", where) for key, value in allow.items()}
    if "pruneShare" in limits:
        given["max_prune_share"] = float(_number(limits["pruneShare"], "spec.limits.pruneShare", 1, where))
    if "maxObjects" in limits:
        given["max_objects"] = int(_number(limits["maxObjects"], "spec.limits.maxObjects", 10**9, where))
    applications = _strings(spec.get("applications", ["*"]), "spec.applications", where)
    return Policy(name=name, applications=applications, **given)


def policy_for(policies: Sequence[Policy], app: Application) -> Policy:
    """
    Return the first policy that names an Application.

    Without any policy everything namespaced is allowed; with at least one, an Application that no policy names is
    allowed nothing.
    """
    if not policies:
        return Policy()
    named = (policy for policy in policies if any(fnmatch.fnmatchcase(app.key, name) for name in policy.applications))
    return next(named, _DENY_ALL)


def _mapping(spec: Mapping[str, Any], name: str, known: Iterable[str], where: str) -> Mapping[str, Any]:
    value = spec.get(name, {})
    if not isinstance(value, dict):
        raise InvalidInput(f"spec.{name} must be a mapping", location=where)
    unknown = value.keys() - set(known)
    if unknown:
        raise InvalidInput(f"spec.{name}.{min(unknown)} is unknown", location=where, hint=f"write {', '.join(known)}")
    return value


def _strings(value: Any, field: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidInput(f"{field} must be a list of strings", location=where)
    return tuple(value)


def _number(value: Any, field: str, most: float, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise InvalidInput(f"{field} must be a number between 0 and {most}", location=where)
    return value
