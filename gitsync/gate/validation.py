"""Validation of manifests before anything is written: by the schema of the kind, without one, and by rules in CEL."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.kube import cel
from gitsync.kube.messages import readable
from gitsync.merge.schema import Schema
from gitsync.merge.typed import misfits
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.patterns import matches
from gitsync.objects.ref import ref_of

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_ANNOTATIONS_LIMIT = 262_144
"""Bytes of all annotations of an object together; the API server rejects more."""
_PROBLEM = re.compile(r"(?P<path>(?:\.[^:\[]*|\[[^\]]*\])+): (?P<what>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """One mismatch with the schema: the path of the field (``.spec.foo``), and what, in the API server's words."""

    path: str
    what: str


def validate(manifest: Manifest, schema: Schema) -> list[SchemaViolation]:
    """
    Return what does not fit the schema: unknown fields, wrong types, duplicate items; empty when all fits.

    A problem never contains a value of a Secret.
    """
    return [_parse_problem(text, manifest) for text in misfits(schema, manifest)]


def _parse_problem(text: str, manifest: Manifest) -> SchemaViolation:
    match = _PROBLEM.fullmatch(text)
    path, what = (match["path"], match["what"]) if match else ("", text)
    # The message quotes the value after this word. By kind in any group: masking too much does no harm.
    if manifest.get("kind") == "Secret":
        what = what.partition(", got")[0]
    return SchemaViolation(path, readable(what))


def check_manifests(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the problems of manifests, one line each: object, rule and fix; empty when there are none."""
    return tuple(f"{ref_of(manifest)}: {problem}" for manifest in manifests for problem in _problems(manifest))


def _problems(manifest: Manifest) -> Iterator[str]:
    metadata = metadata_of(manifest)
    name = metadata.get("name")
    namespace = metadata.get("namespace")
    # The name becomes a part of the URL that is written to.
    if not isinstance(name, str) or name in ("", ".", "..") or any(char in name for char in "/%\\"):
        yield "metadata.name is invalid; write a name without / and %"
    if namespace is not None and not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):
        yield "metadata.namespace is invalid; write small letters, digits and -"
    for field in ("labels", "annotations"):
        yield from _texts(metadata.get(field), f"metadata.{field}")
    annotations = metadata.get("annotations")
    if (
        isinstance(annotations, dict)
        and sum(len(f"{key}{value}".encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT
    ):
        yield f"metadata.annotations are larger than {_ANNOTATIONS_LIMIT} bytes together; move them into a ConfigMap"
    if manifest.get("kind") == "Secret" and manifest.get("apiVersion") == "v1":
        yield from _secret(manifest)


def _texts(values: Any, field: str) -> Iterator[str]:
    if values is None:
        return
    if not isinstance(values, dict):
        yield f"{field} must be a mapping of strings"
        return
    for key, value in values.items():
        if not isinstance(value, str):
            yield f"{field}[{key}] must be a string; put the value in quotes"


def _secret(secret: Manifest) -> Iterator[str]:
    """Check what the API server would reject with an error that quotes the values."""
    data = secret.get("data")
    if data is None:
        return
    if not isinstance(data, dict):
        yield "data must be a mapping of strings"
        return
    for key, value in data.items():
        if not _is_base64(value):
            yield f"data.{key} is not base64; encode it, or write it under stringData"


def _is_base64(value: Any) -> bool:
    # null is decoded as an empty value
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        # Go's decoder skips line breaks, which block texts of YAML have, and no other blanks (encoding/base64).
        base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


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
    Return the rules of one policy document; none where it only has limits, or is a tenant.

    Raise InvalidInput with the location of a document or an expression that is not valid.
    """
    if document.get("kind") == "Tenant":
        return ()
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
