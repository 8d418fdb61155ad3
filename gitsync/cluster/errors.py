"""Turn what an API server answers, or fails to, into the errors of gitsync, with a hint for an answer of 403."""

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
    Refusal,
    Rejected,
    WebhookUnavailable,
    one_line,
)
from gitsync.kube.messages import REMOVED_VERSION, readable
from gitsync.runtime.reflector import Expired

_RETRY_LIMIT = 300.0
_FAILED_WEBHOOK = re.compile(r'(?:Internal error occurred: )?failed calling webhook "([^"]+)"')
# how kube-aggregator answers for a server that is not available, and for one that it cannot connect to
_AGGREGATION = ("service unavailable", "error trying to reach service")
# of one kind, whose stored objects cannot be converted (apiextensions-apiserver/pkg/apiserver/conversion), decrypted
# (apiserver/pkg/storage/value) or decoded
_UNREADABLE = re.compile(r"conversion webhook for .+ failed|unable to transform key |unable to decode")
_UNREADABLE_HINT = "repair the conversion webhook of its definition, or apply a definition that does not need it"
_SERVER_DOWN = "an aggregated API server is down, see kubectl get apiservices"
_USER_ERRORS = (
    "failed to create typed patch object",
    # what is stored does not fit the schema of its definition any more (structured-merge-diff parses it first)
    "failed to create typed live object",
    "failed to convert new object",
    "failed to create manager for existing fields",
    "failed to prune fields",
    # a manager owns fields of the object at a version that its definition lacks now
    REMOVED_VERSION,
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
    if code == 500 and _UNREADABLE.search(message):
        hint = _UNREADABLE_HINT if "conversion" in message else ""
        return GroupUnavailable(f"{message} ({request}: {code})", hint=hint)
    if code == 429 or (code >= 500 and not _is_users(message)):
        return ClusterUnavailable(f"{message} ({request}: {code})", retry_after=retry_after(headers))
    if code == 401:  # not Rejected: a token that expired is renewed without a change of any input
        return ClusterUnavailable(f"the API server does not accept our credentials ({message})", hint="renew them")
    return Rejected(message, code=code, refusal=Refusal(reason, _causes(status)))


def not_discovered(group: str, version: str) -> GroupUnavailable:
    """Return the error for a group version that the API server knows, but whose kinds it could not read."""
    return GroupUnavailable(f"the kinds of {group}/{version} are not known", hint=_SERVER_DOWN)


def unreachable(method: str, path: str, error: Exception, place: str = "") -> ClusterUnavailable:
    """Return the error for a request without an answer from a place: whether it took effect is unknown."""
    cause = getattr(error, "reason", None) or error
    return ClusterUnavailable(f"{method} {path} was not answered: {one_line(str(cause), 200)}", location=place)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, as seconds or as a date, capped; None without one."""
    text = headers.get("Retry-After")
    if not text:
        return None
    if text.isascii() and text.isdecimal():
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

    Server-side apply answers 500 for an object that does not fit the schema; trying it again cannot help.
    """
    return message.startswith(_USER_ERRORS) or "duplicate entries for key" in message


def _causes(status: Mapping[str, Any]) -> tuple[Cause, ...]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return tuple(
        Cause(str(cause.get("reason") or ""), readable(str(cause.get("message") or "")), str(cause.get("field") or ""))
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict)
    )


def _status(body: bytes) -> dict[str, Any]:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:  # a proxy in front of the API server answers with a page
        return {}
    return status if isinstance(status, dict) else {}


_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_ACCOUNT = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")
_READS = ("get", "list", "watch")
# the verbs of one purpose are granted together: an apply creates or patches, and a later commit deletes
_WRITES = ("create", "delete", "get", "patch")
_ADMISSION = (
    (re.compile(r"exceeded quota: (?P<name>[^,\s]+)"), "raise the ResourceQuota {name}, or request less"),
    (
        re.compile(r"failed quota: (?P<name>[^:\s]+): must specify"),
        "set the resources that the ResourceQuota {name} counts",
    ),
    (
        re.compile(r'violates PodSecurity "(?P<name>[^"]+)"'),
        "change the pod as listed, or the label pod-security.kubernetes.io/enforce of its namespace",
    ),
    (
        re.compile(r"is attempting to grant RBAC permissions not currently held"),
        "give the user these permissions too, or the verbs escalate and bind on roles",
    ),
    (
        re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request'),
        "change the object as the admission webhook {name} requires",
    ),
    (
        re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"),
        "change the object as the ValidatingAdmissionPolicy {name} requires",
    ),
    (
        re.compile(r"(?:minimum|maximum) \S+ usage per|limit to request ratio per"),
        "change the resources, or the LimitRange of the namespace",
    ),
)


def forbidden_hint(message: str) -> str:
    """
    Return how to allow what an API server forbade, empty where its message says everything that is known.

    The messages are those of the authorizer and of the built-in admission plugins.
    """
    denied = _DENIED.search(message)
    if denied is not None:
        return _rule(denied)
    for pattern, hint in _ADMISSION:
        if matched := pattern.search(message):
            return hint.format(**matched.groupdict())
    return ""


def _rule(denied: re.Match[str]) -> str:
    """Return the RBAC rule for a denied request, and where it belongs."""
    verb, namespace = denied["verb"], denied["namespace"]
    # Constrained impersonation (KEP-5284, on from Kubernetes 1.36) names the request that would have been made as the
    # account, and not the account: where `impersonate` on that is missing too.
    if verb.startswith("impersonate-on:"):
        return (
            "the controller may act as gitsync-deployer of a namespace with Applications only: name that one as"
            " destination.serviceAccountName, and run gitsync install --tenant NAMESPACE | kubectl apply -f -"
        )
    # a wider right of the controller would be one on the accounts of all tenants
    if verb == "impersonate" and denied["resource"] == "serviceaccounts" and namespace:
        return (
            f"the controller may act as gitsync-deployer of a namespace with Applications only: name that one, and run"
            f" gitsync install --tenant {namespace} | kubectl apply -f -"
        )
    # the shipped role for all namespaces leaves Secrets out
    if verb in _READS and denied["resource"] == "secrets" and not namespace and _ACCOUNT.fullmatch(denied["user"]):
        return "for Applications that declare Secrets, add --component read-secrets to gitsync install"
    verbs = next((group for group in (_READS, _WRITES) if verb in group), (verb,))
    rule = f'{{apiGroups: ["{denied["group"]}"], resources: ["{denied["resource"]}"], verbs: [{", ".join(verbs)}]}}'
    place = f"a Role of namespace {namespace}" if namespace else "a ClusterRole"
    who = _subject(denied["user"])
    return f"{verb} on {denied['resource']} is denied to {who}; add the rule {rule} to {place} that is bound to it"


def _subject(user: str) -> str:
    account = _ACCOUNT.fullmatch(user)
    return f"ServiceAccount {account['namespace']}/{account['name']}" if account else f"user {user}"
