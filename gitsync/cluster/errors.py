"""Turn what an API server answers, or fails to, into the errors of gitsync."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from gitsync.errors import (
    AlreadyExists,
    Cause,
    ClusterUnavailable,
    Conflict,
    GitsyncError,
    GroupUnavailable,
    Rejected,
    WebhookUnavailable,
    one_line,
)
from gitsync.kube.messages import readable
from gitsync.runtime.reflector import Expired

_RETRY_LIMIT = 300.0
_FAILED_WEBHOOK = re.compile(r'(?:Internal error occurred: )?failed calling webhook "([^"]+)"')
_AGGREGATION = ("service unavailable", "error trying to reach service")
"""How kube-aggregator answers for a server that is not available, and for one that it cannot connect to."""
_SERVER_DOWN = "an aggregated API server is down, see kubectl get apiservices"
_USER_ERRORS = (
    "failed to create typed patch object",
    "failed to convert new object",
    "failed to create manager for existing fields",
)


def failure(code: int, body: bytes, headers: Mapping[str, str], request: str) -> GitsyncError:
    """Return the error for an answer of 400 or more; ``request`` is ``VERB path``."""
    status = _status(body)
    message = (
        readable(str(status.get("message") or "")) or one_line(body[:200].decode(errors="replace")) or f"HTTP {code}"
    )
    reason = str(status.get("reason") or "")
    if code == 409:
        return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message)
    if code == 410:
        return Expired(message)
    if code == 500 and (webhook := _FAILED_WEBHOOK.match(message)):
        name = webhook.group(1)
        return WebhookUnavailable(message, hint=f"repair the admission webhook {name}, or remove its configuration")
    if code == 503 and message.startswith(_AGGREGATION):
        return GroupUnavailable(f"{message} ({request}: {code})", hint=_SERVER_DOWN, retry_after=retry_after(headers))
    if code == 429 or (code >= 500 and not _is_users(message)):
        return ClusterUnavailable(f"{message} ({request}: {code})", retry_after=retry_after(headers))
    if code == 401:
        return ClusterUnavailable(f"the API server does not accept our credentials ({message})", hint="renew them")
    return Rejected(message, code=code, reason=reason, causes=_causes(status))


def not_discovered(group: str, version: str) -> GroupUnavailable:
    """Return the error for a group version that the API server knows, but whose kinds it could not read."""
    return GroupUnavailable(f"the kinds of {group}/{version} are not known", hint=_SERVER_DOWN)


def unreachable(method: str, path: str, error: Exception) -> ClusterUnavailable:
    """Return the error for a request without an answer: whether it took effect is unknown."""
    cause = getattr(error, "reason", None) or error
    return ClusterUnavailable(f"{method} {path} was not answered: {one_line(str(cause), 200)}")


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, as seconds or as a date, capped; None without one."""
    text = headers.get("Retry-After")
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text), _RETRY_LIMIT)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), _RETRY_LIMIT)


def _is_users(message: str) -> bool:
    """
    Whether a 500 is the user's own error.

    Server-side apply answers 500 for a body that does not fit the schema; trying it again cannot help.
    """
    return message.startswith(_USER_ERRORS) or "duplicate entries for key" in message


def _causes(status: Mapping[str, Any]) -> tuple[Cause, ...]:
    details = status.get("details")
    found = details.get("causes") if isinstance(details, dict) else None
    return tuple(
        Cause(str(cause.get("reason") or ""), readable(str(cause.get("message") or "")), str(cause.get("field") or ""))
        for cause in (found if isinstance(found, list) else ())
        if isinstance(cause, dict)
    )


def _status(body: bytes) -> dict[str, Any]:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return status if isinstance(status, dict) else {}
