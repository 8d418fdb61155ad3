"""The operator's rules for manifests: CEL expressions that must be true for every object they match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.kube import cel
from gitsync.objects.manifest import Manifest
from gitsync.objects.patterns import matches
from gitsync.objects.ref import ref_of


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """
    One rule: its name, the kinds it judges (``Kind`` or ``Kind.group``, ``*``), a CEL expression over ``object``.

    An object passes only where the expression is true; an evaluation error counts as false.
    """

    name: str
    expression: str
    message: str
    kinds: tuple[str, ...] = ("*",)


def parse_rules(document: Mapping[str, Any], location: str) -> tuple[ManifestRule, ...]:
    """
    Return the rules of one policy document; none where it only has limits.

    Raise InvalidInput with the location of a document or an expression that is not valid.
    """
    spec = document.get("spec")
    name = str((document.get("metadata") or {}).get("name") or "")
    if document.get("kind") != "Policy" or not isinstance(spec, dict) or not isinstance(spec.get("rules", []), list):
        raise InvalidInput("kind must be Policy and spec.rules a list", location=location)
    kinds = tuple(str(kind) for kind in (spec.get("match") or {}).get("kinds") or ("*",))
    rules = []
    for index, rule in enumerate(spec.get("rules", [])):
        if not isinstance(rule, dict) or not isinstance(rule.get("expression"), str):
            raise InvalidInput(f"spec.rules[{index}].expression must be a string", location=location)
        title = f"{name}/{rule.get('name') or index}"
        # Compiled here for the location in the message: at evaluation it would reject every object.
        _check(rule["expression"], f"{location}: spec.rules[{index}]")
        rules.append(ManifestRule(title, rule["expression"], str(rule.get("message") or rule["expression"]), kinds))
    return tuple(rules)


def check_rules(rules: Iterable[ManifestRule], manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Return a line for every object that breaks a rule: object, rule, and the rule's message."""
    rules = tuple(rules)
    return tuple(
        f"{ref_of(manifest)}: {rule.message} (rule {rule.name})"
        for manifest in manifests
        for rule in rules
        if _matches(rule, manifest) and not cel.holds(rule.expression, manifest)
    )


def _matches(rule: ManifestRule, manifest: Manifest) -> bool:
    of = ref_of(manifest).of
    # ``Kind`` alone matches the kind in every group: a rule is rather applied too often than evaded by another group.
    return any(matches(of.kind, kind) or matches(str(of), kind) for kind in rule.kinds)


def _check(expression: str, location: str) -> None:
    try:
        cel.compiled(expression)
    except ValueError as error:
        raise InvalidInput(f"expression: {error}", location=location) from error
