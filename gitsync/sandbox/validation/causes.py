"""Causes as the API server words them: one constructor per reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from gitsync.merge.values import same
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.names import dns_subdomain, http_path

_DRIVER_LENGTH = 63
OMITTED = object()
"""Given as value: the message does not show one."""


def show(value: Any) -> str:
    """Return a value as messages print it: JSON, strings quoted."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a number of more than 64 bits
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def invalid(field: str, value: Any, detail: str) -> StatusCause:
    """Return FieldValueInvalid."""
    shown = "" if value is OMITTED else f"{show(value)}: "
    return StatusCause("FieldValueInvalid", f"Invalid value: {shown}{detail}", field)


def type_invalid(field: str, value: Any, detail: str) -> StatusCause:
    """Return FieldValueTypeInvalid."""
    return StatusCause("FieldValueTypeInvalid", f"Invalid value: {show(value)}: {detail}", field)


def malformed(field: str, value: str, check: Callable[[str], list[str]]) -> list[StatusCause]:
    """Return the causes of a text that a check of its syntax rejects."""
    return [invalid(field, value, text) for text in check(value)]


def domain_prefixed_path(field: str, value: str) -> list[StatusCause]:
    """Check a text such as ``acme.io/foo`` (apimachinery/pkg/util/validation: IsDomainPrefixedPath)."""
    host, _, path = value.partition("/")
    if not value:
        return [required(field)]
    if not host or not path:
        return [invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return malformed(field, host, dns_subdomain) + malformed(field, path, http_path)


def driver_name(field: str, value: str) -> list[StatusCause]:
    """Check the name of a storage or device driver (pkg/apis/core/validation: ValidateCSIDriverName)."""
    if not value:
        return [required(field)]
    causes = [too_long(field, _DRIVER_LENGTH)] if len(value) > _DRIVER_LENGTH else []
    return causes + [invalid(field, value, text) for text in dns_subdomain(value.lower())]


def service_path(field: str, text: str) -> list[StatusCause]:
    """Check the path of a webhook's Service (apiserver/pkg/util/webhook: ValidateWebhookService)."""
    if text == "/":  # the common case, and the default
        return []
    if text == "//":
        return [invalid(field, text, "segment[0] may not be empty")]
    causes = [] if text.startswith("/") else [invalid(field, text, "must start with a '/'")]
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        problems = dns_subdomain(segment) if segment else ["may not be empty"]
        causes += [invalid(field, text, f"segment[{index}]{':' if segment else ''} {problem}") for problem in problems]
    return causes


def required(field: str, detail: str = "") -> StatusCause:
    """Return FieldValueRequired."""
    return StatusCause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def duplicate(field: str, value: Any) -> StatusCause:
    """Return FieldValueDuplicate."""
    return StatusCause("FieldValueDuplicate", f"Duplicate value: {show(value)}", field)


def not_found(field: str, value: Any) -> StatusCause:
    """Return FieldValueNotFound."""
    return StatusCause("FieldValueNotFound", f"Not found: {show(value)}", field)


def forbidden(field: str, detail: str) -> StatusCause:
    """Return FieldValueForbidden."""
    return StatusCause("FieldValueForbidden", f"Forbidden: {detail}", field)


def not_supported(field: str, value: Any, choices: Iterable[str]) -> StatusCause:
    """Return FieldValueNotSupported with the choices in order."""
    listed = ", ".join(show(choice) for choice in sorted(choices))
    return StatusCause("FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {listed}", field)


def too_long(field: str, limit: int, unit: str = "bytes") -> StatusCause:
    """Return FieldValueTooLong."""
    return StatusCause("FieldValueTooLong", f"Too long: may not be more than {limit} {unit}", field)


def too_many(field: str, count: int, limit: int) -> StatusCause:
    """Return FieldValueTooMany."""
    return StatusCause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items", field)


def immutable(field: str, new: Any, old: Any) -> list[StatusCause]:
    """Return the cause of a changed member that may not change; true is not 1."""
    return [] if same(new, old) else [invalid(field, new, "field is immutable")]


def minimum(field: str, value: Any, least: int = 0) -> list[StatusCause]:
    """Return the cause of a number below the least; an absent one is fine."""
    if value is None or value >= least:
        return []
    return [invalid(field, value, f"must be greater than or equal to {least}")]


def between(field: str, value: Any, least: int, most: int) -> list[StatusCause]:
    """Return the cause of a number outside a range."""
    if value is None or least <= value <= most:
        return []
    return [invalid(field, value, f"must be between {least} and {most}, inclusive")]


def one_of(field: str, value: Any, choices: Iterable[str]) -> list[StatusCause]:
    """Return the cause of a value that is not among the choices; an absent one is fine."""
    return [] if value is None or value in choices else [not_supported(field, value, choices)]
