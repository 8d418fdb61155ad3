"""What a definition of custom resources serves: groups in order, documents after a while, versions by webhook."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gitsync.sandbox.http.transport.tls import make_certificate
from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import APPLY, MERGE, Client
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def version(name: str, *, storage: bool = False, **members: str) -> dict[str, Any]:
    spec = {"type": "object", "properties": {member: {"type": kind} for member, kind in members.items()}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def definition(group: str, *versions: dict[str, Any], plural: str = "widgets", **spec: Any) -> dict[str, Any]:
    kind = plural.removesuffix("s").title()
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": list(versions), **spec},
    }


def define(api: Client, body: dict[str, Any]) -> None:
    group, plural = body["spec"]["group"], body["spec"]["names"]["plural"]
    answer = api.ask("POST", DEFINITIONS, body)
    assert answer.status == 201, answer.body
    until(lambda: api.get(f"/apis/{group}/{body['spec']['versions'][0]['name']}/{plural}").status == 200)


def test_groups_of_custom_resources_are_ordered_as_kubectl_expects(fresh: Client) -> None:
    define(fresh, definition("zz.order.io", version("v1", storage=True)))
    define(fresh, definition("aa.order.io", version("v1beta1", storage=True), version("v1alpha1")))
    define(fresh, definition("mm.order.io", version("v2", storage=True), version("v1")))
    define(fresh, definition("mm.order.io", version("v1beta1", storage=True), version("v3"), plural="gizmos"))
    listed = {group["name"]: group for group in fresh.get("/apis").json["groups"] if "order.io" in group["name"]}
    assert list(listed) == ["mm.order.io", "zz.order.io", "aa.order.io"]
    assert [each["version"] for each in listed["mm.order.io"]["versions"]] == ["v3", "v2", "v1", "v1beta1"]
    items = fresh.get("/apis", Accept=AGGREGATED).json["items"]
    names = [item["metadata"]["name"] for item in items if "order.io" in item["metadata"].get("name", "")]
    assert names == ["aa.order.io", "mm.order.io", "zz.order.io"]


def test_openapi_has_a_new_version_only_after_a_while() -> None:
    with Sandbox(controllers=False) as sandbox:
        api = Client(sandbox)
        sandbox.definitions.publish_seconds = 60.0
        define(api, definition("late.io", version("v1", storage=True, size="integer")))
        assert "apis/late.io/v1" not in api.get("/openapi/v3").json["paths"]
        assert api.get("/openapi/v3/apis/late.io/v1").status == 404
        sandbox.advance(61)
        until(lambda: "apis/late.io/v1" in api.get("/openapi/v3").json["paths"])
        assert b'"size"' in api.get("/openapi/v3/apis/late.io/v1").body

        changed = api.get(f"{DEFINITIONS}/widgets.late.io").json
        changed["spec"]["versions"] = [version("v1", storage=True, color="string")]
        assert api.ask("PUT", f"{DEFINITIONS}/widgets.late.io", changed).status == 200
        until(lambda: b'"color"' in api.get("/openapi/v3/apis/late.io/v1").body)


class Converter:
    """A conversion webhook that renames ``spec.a`` of v1 to ``spec.b`` of v2, and answers wrongly on demand."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {"status": "Success"}
        self.metadata: dict[str, Any] = {}
        self.members: dict[str, Any] = {}
        certificate = make_certificate()
        self._authority = base64.b64encode(certificate.authority.encode()).decode()
        converter = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Print nothing."""

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(converter.answer(review)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = certificate.server_context().wrap_socket(self.server.socket, server_side=True)
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def conversion(self) -> dict[str, Any]:
        """The member of a definition that names the webhook."""
        client = {"url": f"https://127.0.0.1:{self.server.server_port}/convert", "caBundle": self._authority}
        return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v9", "v1"]}}

    def answer(self, review: dict[str, Any]) -> dict[str, Any]:
        request = review["request"]
        self.requests.append(review)
        to_new = request["desiredAPIVersion"].endswith("/v2")
        objects = []
        for obj in request["objects"]:
            spec = {{"a": "b", "b": "a"}.get(name, name): value for name, value in obj["spec"].items()}
            assert to_new is ("b" in spec or not spec)
            metadata = {**obj["metadata"], **self.metadata}
            objects.append(
                {**obj, "apiVersion": request["desiredAPIVersion"], "spec": spec, "metadata": metadata, **self.members}
            )
        response = {"uid": request["uid"], "result": self.result, "convertedObjects": objects}
        return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def converter() -> Iterator[Converter]:
    converter = Converter()
    yield converter
    converter.close()


@pytest.fixture
def converted(fresh: Client, converter: Converter) -> Client:
    """A client of a server with widgets of two versions, stored at v1."""
    old = version("v1", storage=True, a="integer")
    new = version("v2", b="integer")
    define(fresh, definition("conv.io", old, new, conversion=converter.conversion))
    return fresh


V1 = "/apis/conv.io/v1/widgets"
V2 = "/apis/conv.io/v2/widgets"


def widget(of: str, name: str = "w", **spec: int) -> dict[str, Any]:
    return {"apiVersion": f"conv.io/{of}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_webhook_converts_reads_and_writes_of_another_version(converted: Client, converter: Converter) -> None:
    assert converted.ask("POST", V1, widget("v1", a=1)).status == 201
    assert converter.requests == []  # the stored version
    assert converted.get(f"{V2}/w").json["spec"] == {"b": 1}
    review = converter.requests[0]
    assert review["apiVersion"] == "apiextensions.k8s.io/v1"
    assert review["request"]["desiredAPIVersion"] == "conv.io/v2"

    assert converted.ask("POST", V2, widget("v2", "x", b=2)).json["spec"] == {"b": 2}
    assert [item["spec"] for item in converted.get(V1).json["items"]] == [{"a": 1}, {"a": 2}]
    assert [item["spec"] for item in converted.get(V2).json["items"]] == [{"b": 1}, {"b": 2}]
    assert converted.ask("PATCH", f"{V2}/w", {"spec": {"b": 5}}, Content_Type=MERGE).json["spec"] == {"b": 5}
    applied = converted.ask("PATCH", f"{V2}/w?fieldManager=t&force=true", widget("v2", b=6), Content_Type=APPLY)
    assert applied.json["spec"] == {"b": 6}
    assert converted.get(f"{V1}/w").json["spec"] == {"a": 6}


def test_webhook_may_change_labels_and_annotations_only(converted: Client, converter: Converter) -> None:
    converted.ask("POST", V1, widget("v1", a=1))
    converter.metadata = {"labels": {"from": "v1"}, "finalizers": ["x.io/y"], "generation": 9}
    metadata = converted.get(f"{V2}/w").json["metadata"]
    assert metadata["labels"] == {"from": "v1"}
    assert "finalizers" not in metadata
    assert metadata["generation"] == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param({"result": {"status": "Failed", "message": "no"}}, "failed: no", id="failure"),
        pytest.param(
            {"result": {"status": "Failed"}},
            "failed: response.result.status was 'Failed', not 'Success'",
            id="failure without a message",
        ),
        pytest.param(
            {"metadata": {"name": "o"}}, "returned invalid object: must have the same name: w != o", id="name"
        ),
        pytest.param(
            {"members": {"kind": "Other"}},
            "returned invalid object at index 0: invalid kind (expected Widget, received Other)",
            id="kind",
        ),
        pytest.param(
            {"members": {"apiVersion": "x/v9"}},
            "returned invalid object at index 0: invalid groupVersion (expected conv.io/v2, received x/v9)",
            id="version",
        ),
    ],
)
def test_wrong_answer_of_a_webhook_fails_the_request(
    converted: Client, converter: Converter, answer: dict[str, Any], text: str
) -> None:
    converted.ask("POST", V1, widget("v1", a=1))
    for member, value in answer.items():
        setattr(converter, member, value)
    for path in (f"{V2}/w", V2):
        refusal = converted.get(path)
        assert refusal.status == 500
        assert refusal.json["message"] == f"conversion webhook for conv.io/v1, Kind=Widget {text}"
    assert converted.get(V1).status == 200


def test_dead_webhook_fails_only_the_other_version(converted: Client, converter: Converter) -> None:
    with converted.watch(f"{V2}?watch=true") as watch:
        converter.close()
        assert converted.ask("POST", V1, widget("v1", a=1)).status == 201  # its watches must not fail a write
        event = watch.event()
        assert event["type"] == "ERROR"
        assert "connection refused" in event["object"]["message"]
        assert watch.event() is None
    refusal = converted.get(V2)
    assert refusal.status == 500
    assert "connect: connection refused" in refusal.json["message"]
    assert converted.ask("DELETE", f"{V1}/w").status == 200


def test_service_of_a_webhook_without_endpoints_is_named(fresh: Client, converter: Converter) -> None:
    conversion = converter.conversion
    conversion["webhook"]["clientConfig"] = {"service": {"name": "hook", "namespace": "default", "path": "/c"}}
    define(fresh, definition("conv.io", version("v1", storage=True), version("v2"), conversion=conversion))
    fresh.ask("POST", V1, widget("v1"))
    url = "https://hook.default.svc:443/c?timeout=30s"
    assert f'Post "{url}": service "hook" not found' in fresh.get(V2).json["message"]


@pytest.mark.parametrize(
    ("conversion", "causes"),
    [
        pytest.param({}, {"strategy": "Required value"}, id="empty"),
        pytest.param(
            {"strategy": "Webhook"},
            {
                "webhookClientConfig": "Required value: required when strategy is set to Webhook",
                "conversionReviewVersions": "Required value",
            },
            id="no webhook",
        ),
        pytest.param(
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            {
                "conversionReviewVersions": "Forbidden: should not be set when strategy is not set to Webhook",
            },
            id="webhook of another strategy",
        ),
        pytest.param(
            {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {"url": "http://x"}},
            },
            {
                "webhookClientConfig.url": "Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                "desired format: https://host[/path]",
                "conversionReviewVersions": 'Invalid value: ["v9"]: must include at least one of v1, v1beta1',
            },
            id="plain HTTP and an unknown version",
        ),
    ],
)
def test_conversion_of_a_definition_is_validated(
    api: Client, conversion: dict[str, Any], causes: dict[str, str]
) -> None:
    body = definition("bad.io", version("v1", storage=True), conversion=conversion)
    answer = api.ask("POST", f"{DEFINITIONS}?dryRun=All", body)
    assert answer.status == 422
    reported = {cause["field"]: cause["message"] for cause in answer.json["details"]["causes"]}
    assert reported == {f"spec.conversion.{field}": message for field, message in causes.items()}
