from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gitsync.sandbox.admission.webhooks import CallError, call_over_https
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.http.transport.tls import make_certificate
from tests.sandbox.admission.cluster import World, manifest

GROUP = "admissionregistration.k8s.io/v1"
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
CONFIG = manifest("v1", "ConfigMap", "c", data={"a": "1"})


class Answers:
    """A fake network: records requests, returns the configured response."""

    def __init__(self, **response: Any) -> None:
        self.response = response
        self.asked: list[dict[str, Any]] = []
        self.failure: CallError | None = None

    def __call__(self, hook: Any, url: str, review: dict[str, Any]) -> dict[str, Any]:
        self.asked.append({"url": url, **review["request"]})
        if self.failure is not None:
            raise self.failure
        return {"response": {"uid": review["request"]["uid"], **self.response}}


def world_with(kind: str, answers: Answers, **hook: Any) -> World:
    world = World(answers)
    members = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://hooks.example.com/x"},
        "rules": [MAPS],
        **hook,
    }
    world.add(GROUP, f"{kind}WebhookConfiguration", "hooks", webhooks=[members])
    return world


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }


def test_a_review_tells_who_does_what() -> None:
    answers = Answers(allowed=True, warnings=["mind the gap"])
    world = world_with("Validating", answers)
    assert world.admit(CONFIG) == CONFIG
    (asked,) = answers.asked
    assert asked["url"] == "https://hooks.example.com/x?timeout=10s"
    assert (asked["operation"], asked["name"], asked["namespace"]) == ("CREATE", "c", "scene")
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (asked["object"], asked["oldObject"]) == (CONFIG, None)
    assert asked["userInfo"] == {"username": "jane", "groups": ["system:authenticated"]}
    assert world.warnings == ["mind the gap"]


def test_a_refusal_is_worded_with_the_hooks_name() -> None:
    status = {"code": 403, "reason": "Forbidden", "message": "not today"}
    with pytest.raises(ApiError) as error:
        world_with("Validating", Answers(allowed=False, status=status)).admit(CONFIG)
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    assert error.value.message == 'admission webhook "a.example.com" denied the request: not today'
    with pytest.raises(ApiError, match="denied the request without explanation"):
        world_with("Validating", Answers(allowed=False)).admit(CONFIG)


def test_a_patch_changes_the_object_and_is_read_like_any_input() -> None:
    answers = Answers(
        **patch({"op": "add", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/odd", "value": 1})
    )
    admitted = world_with("Mutating", answers).admit(CONFIG)
    assert admitted["data"] == {"a": "1", "b": "2"}
    assert "odd" not in admitted
    assert CONFIG["data"] == {"a": "1"}


def test_a_hook_that_wants_to_see_later_changes_is_asked_again() -> None:
    answers = Answers(**patch({"op": "add", "path": "/data/b", "value": "2"}))
    world = world_with("Mutating", answers, name="z.example.com")
    hooks = world.objects.get("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "", "hooks")
    assert hooks is not None
    hooks["webhooks"] = [
        {**hooks["webhooks"][0], "reinvocationPolicy": "IfNeeded", "name": "a.example.com"},
        *hooks["webhooks"],
    ]
    answers.response = {"allowed": True}
    world.admit(CONFIG)
    assert len(answers.asked) == 2

    def second_changes(hook: Any, url: str, review: dict[str, Any]) -> dict[str, Any]:
        answers.asked.append(review["request"])
        changes = (
            patch({"op": "add", "path": "/data/b", "value": "2"}) if hook["name"].startswith("z") else {"allowed": True}
        )
        return {"response": {"uid": review["request"]["uid"], **changes}}

    again = World(second_changes)
    again.objects.put(hooks)
    answers.asked.clear()
    assert again.admit(CONFIG)["data"]["b"] == "2"
    assert [asked["object"]["data"] for asked in answers.asked] == [{"a": "1"}, {"a": "1"}, {"a": "1", "b": "2"}]


def test_a_failed_call_counts_by_the_failure_policy() -> None:
    answers = Answers()
    answers.failure = CallError("failed to call webhook: no answer")
    with pytest.raises(ApiError) as error:
        world_with("Validating", answers).admit(CONFIG)
    text = 'failed calling webhook "a.example.com": failed to call webhook: no answer'
    assert (error.value.code, error.value.message) == (500, f"Internal error occurred: {text}")
    assert error.value.details == {"causes": [{"message": text}]}
    assert world_with("Validating", answers, failurePolicy="Ignore").admit(CONFIG) == CONFIG


@pytest.mark.parametrize(
    ("hook", "asked"),
    [
        ({}, True),
        ({"rules": [{**MAPS, "operations": ["DELETE"]}]}, False),
        ({"rules": [{**MAPS, "resources": ["*"]}]}, True),
        ({"rules": [{**MAPS, "resources": ["configmaps/status"]}]}, False),
        ({"rules": [{**MAPS, "scope": "Cluster"}]}, False),
        ({"rules": [{**MAPS, "apiVersions": ["v2"]}]}, True),
        ({"rules": [{**MAPS, "apiVersions": ["v2"]}], "matchPolicy": "Exact"}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, False),
        ({"matchConditions": [{"name": "n", "expression": "object.metadata.name == 'd'"}]}, False),
        ({"matchConditions": [{"name": "n", "expression": "object.metadata.name == 'c'"}]}, True),
    ],
)
def test_rules_selectors_and_conditions_decide_who_is_asked(hook: dict[str, Any], asked: bool) -> None:
    answers = Answers(allowed=True)
    world_with("Validating", answers, **hook).admit(CONFIG)
    assert bool(answers.asked) is asked


def test_a_hook_with_side_effects_does_not_do_dry_runs() -> None:
    world = world_with("Validating", Answers(allowed=True), sideEffects="Some")
    with pytest.raises(ApiError, match="does not support dry run"):
        world.admit(CONFIG, dry_run=True)


def test_configurations_of_webhooks_are_never_asked_about() -> None:
    answers = Answers(allowed=False)
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    world = world_with("Validating", answers, rules=[rule])
    hooks = world.objects.get("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "hooks")
    assert hooks is not None
    world.admit(hooks)
    assert answers.asked == []


def test_a_service_that_is_not_there_cannot_be_called() -> None:
    service = {"service": {"name": "s", "namespace": "n", "path": "/v", "port": 443}}
    with pytest.raises(ApiError, match=r'Post "https://s.n.svc:443/v\?timeout=10s": service "s" not found'):
        world_with("Validating", Answers(), clientConfig=service).admit(CONFIG)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"response": {"uid": review["request"]["uid"], "allowed": True}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(params=["authority", "certificate"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Give the URL of a webhook over HTTPS, and what it can be trusted by in base64."""
    certificate = make_certificate()
    webhook = HTTPServer(("127.0.0.1", 0), Handler)
    webhook.socket = certificate.server_context().wrap_socket(webhook.socket, server_side=True)
    thread = threading.Thread(target=webhook.serve_forever)
    thread.start()
    bundle = base64.b64encode(getattr(certificate, request.param).encode()).decode()
    yield f"https://127.0.0.1:{webhook.server_port}/x", bundle
    webhook.shutdown()
    thread.join()
    webhook.server_close()


def test_webhooks_are_called_over_https(server: tuple[str, str]) -> None:
    url, bundle = server
    review = {"request": {"uid": "7"}}
    hook = {"clientConfig": {"url": url, "caBundle": bundle}, "timeoutSeconds": 5}
    assert call_over_https(hook, f"{url}?timeout=5s", review)["response"] == {"uid": "7", "allowed": True}
    with pytest.raises(CallError, match="certificate signed by unknown authority"):
        call_over_https({"clientConfig": {"url": url}, "timeoutSeconds": 5}, url, review)


def test_an_answer_that_is_too_long_leaves_no_open_socket(
    server: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[http.client.HTTPResponse] = []

    class KeptResponse(http.client.HTTPResponse):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            answers.append(self)

    monkeypatch.setattr(http.client.HTTPConnection, "response_class", KeptResponse)
    monkeypatch.setattr("gitsync.sandbox.connections._LIMIT", 4)
    url, bundle = server
    with pytest.raises(CallError, match="invalid character"):
        call_over_https({"clientConfig": {"url": url, "caBundle": bundle}}, url, {"request": {"uid": "7"}})
    assert [answer.closed for answer in answers] == [True]


def test_nobody_at_the_url_is_told_as_go_does() -> None:
    url = "https://127.0.0.1:1/x?timeout=5s"
    with pytest.raises(CallError) as error:
        call_over_https({"clientConfig": {"url": url}, "timeoutSeconds": 5}, url, {})
    assert str(error.value) == (
        f'failed to call webhook: Post "{url}": dial tcp 127.0.0.1:1: connect: connection refused'
    )
