"""Errors for what an API server answers, and the hints for an answer of 403."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from gitsync.cluster.errors import failure, forbidden_hint, retry_after
from gitsync.errors import ClusterUnavailable, Conflict, GitsyncError, GroupUnavailable, Rejected
from gitsync.runtime.reflector import Expired


def status(message: str, reason: str = "") -> bytes:
    return orjson.dumps({"kind": "Status", "message": message, "reason": reason})


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        pytest.param(400, "bad", Rejected, id="bad request"),
        pytest.param(403, "forbidden", Rejected, id="forbidden"),
        pytest.param(404, "not found", Rejected, id="absent"),
        pytest.param(409, "stale", Conflict, id="conflict"),
        pytest.param(410, "expired", Expired, id="expired"),
        pytest.param(413, "too large", Rejected, id="too large"),
        pytest.param(422, "invalid", Rejected, id="invalid"),
        pytest.param(429, "slow down", ClusterUnavailable, id="too many requests"),
        pytest.param(401, "who are you", ClusterUnavailable, id="credentials expired"),
        pytest.param(500, "etcd is away", ClusterUnavailable, id="the server's own error"),
        pytest.param(503, "starting", ClusterUnavailable, id="unavailable"),
        pytest.param(
            500,
            "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.foo: field not declared in"
            " schema",
            Rejected,
            id="an apply that does not fit the schema answers 500",
        ),
        pytest.param(
            500,
            "failed to create typed live object (shop/w; example.com/v1, Kind=Widget): .spec.a: expected numeric",
            Rejected,
            id="so does a stored object that does not",
        ),
        pytest.param(500, 'duplicate entries for key [name="A"]', Rejected, id="so does a duplicate list key"),
        pytest.param(
            500,
            "request to convert CR to an invalid group/version: example.com/v1",
            Rejected,
            id="so do fields that were set at a removed version",
        ),
    ],
)
def test_a_code_becomes_an_error_of_its_kind(code: int, message: str, expected: type[GitsyncError]) -> None:
    error = failure(code, status(message), {}, "PATCH /x")
    assert type(error) is expected
    assert message in str(error)


@pytest.mark.parametrize(
    "text", ["service unavailable", "error trying to reach service: dial tcp 10.0.0.1:443: connect: connection refused"]
)
def test_an_aggregated_server_that_is_down_is_told_from_an_outage(text: str) -> None:
    error = failure(503, f"{text}\n".encode(), {}, "GET /apis/metrics.k8s.io/v1beta1")
    assert type(error) is GroupUnavailable
    assert (error.message, "kubectl get apiservices" in str(error)) == (
        f"{text} (GET /apis/metrics.k8s.io/v1beta1: 503)",
        True,
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(
            "conversion webhook for example.com/v1, Kind=Widget failed: Post https://x:443/: connection refused",
            "repair the conversion webhook",
            id="conversion",
        ),
        pytest.param('unable to transform key "/registry/secrets/a": no matching prefix found', "", id="encryption"),
    ],
)
def test_stored_objects_that_cannot_be_read_hide_one_kind(text: str, hint: str) -> None:
    error = failure(500, status(text), {}, "GET /apis/example.com/v2/widgets")
    assert type(error) is GroupUnavailable
    assert hint in (error.hint or "")


def test_a_refusal_carries_code_and_reason() -> None:
    error = failure(422, status("invalid", "Invalid"), {}, "PATCH /x")
    assert isinstance(error, Rejected)
    assert (error.code, error.refusal.reason) == (422, "Invalid")


def test_an_answer_that_is_no_status_is_quoted_in_one_short_line() -> None:
    error = failure(502, b"<html>\n" + b"x" * 5000, {}, "GET /x")
    assert "\n" not in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("999999", 300.0),
        ("Fri, 20 Nov 2026 10:00:09 GMT", 9.0),
        ("Fri, 20 Nov 2026 09:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_capped(header: str, seconds: float | None) -> None:
    now = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
    assert retry_after({"Retry-After": header}, now) == seconds


CASES = [
    (
        'deployments.apps "web" is forbidden: User "system:serviceaccount:gitsync:deployer" cannot patch resource '
        '"deployments" in API group "apps" in the namespace "shop"',
        "patch on deployments is denied to ServiceAccount gitsync/deployer; add the rule "
        '{apiGroups: ["apps"], resources: ["deployments"], verbs: [create, delete, get, patch]} '
        "to a Role of namespace shop that is bound to it",
    ),
    (
        'configmaps is forbidden: User "ada" cannot list resource "configmaps" in API group "" at the cluster scope',
        "list on configmaps is denied to user ada; add the rule "
        '{apiGroups: [""], resources: ["configmaps"], verbs: [get, list, watch]} to a ClusterRole that is bound to it',
    ),
    (
        'secrets is forbidden: User "system:serviceaccount:gitsync:gitsync" cannot list resource "secrets" in API '
        'group "" at the cluster scope',
        "add --component read-secrets to gitsync install",
    ),
    (
        'secrets is forbidden: User "ada" cannot watch resource "secrets" in API group "" at the cluster scope',
        'watch on secrets is denied to user ada; add the rule {apiGroups: [""], resources: ["secrets"]',
    ),
    (
        'serviceaccounts "x" is forbidden: User "system:serviceaccount:gitsync:gitsync" cannot impersonate resource '
        '"serviceaccounts" in API group "" in the namespace "shop"',
        "run gitsync install --tenant shop | kubectl apply -f -",
    ),
    (
        'configmaps "a" is forbidden: User "system:serviceaccount:gitsync:gitsync" cannot '
        'impersonate-on:serviceaccount:patch resource "configmaps" in API group "" in the namespace "shop"',
        "may act as gitsync-deployer of a namespace with Applications only",
    ),
    (
        'pods "web" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4',
        "raise the ResourceQuota compute, or request less",
    ),
    ('pods "a" is forbidden: failed quota: q: must specify limits.cpu for: web', "that the ResourceQuota q counts"),
    (
        'pods "web" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        "pod-security.kubernetes.io/enforce",
    ),
    (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "ada" (groups=["g"]) is attempting to grant RBAC '
        'permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
        "escalate and bind",
    ),
    ('admission webhook "check.example.com" denied the request: no', "admission webhook check.example.com requires"),
    (
        "ValidatingAdmissionPolicy 'names' with binding 'all' denied request: no",
        "ValidatingAdmissionPolicy names requires",
    ),
    ('pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2', "LimitRange"),
]


@pytest.mark.parametrize(("message", "hint"), CASES)
def test_each_cause_has_its_hint(message: str, hint: str) -> None:
    assert hint in forbidden_hint(message)


def test_an_unknown_cause_has_none() -> None:
    assert forbidden_hint("it is forbidden for another reason") == ""
