"""Fuzz the server: hostile bodies for every built-in kind, and schemathesis on the documents it serves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from gitsync.kube.openapi import openapi_schemas, resources
from gitsync.sandbox.kinds import strategy_for
from gitsync.sandbox.kinds.strategy import BuiltIn
from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Answer, Client
from tests.sandbox.kinds.random_bodies import Bodies

# What a real API server answers with 500 although the user is wrong.
USER_ERRORS = (
    b"failed to create typed patch object",
    b"resourceVersion should not be set on objects to be created",
    b"resourceVersion: Invalid value",
    b"does not contain declared merge key",
    b"failed to convert new object (",  # of an apply; the same on Kubernetes 1.36.2
)
KINDS = {r: s for r in resources() if isinstance(s := strategy_for(r.group, r.version, r.kind), BuiltIn)}
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Sandbox() as sandbox:
        yield Client(sandbox)


def is_fault(status: int, body: bytes) -> bool:
    return status >= 500 and not any(text in body for text in USER_ERRORS)


def write(client: Client, chance: random.Random, collection: str, whole: Any, part: Any) -> Answer:
    """Send a body by any of the writing verbs."""
    one = f"{collection}/x"
    match chance.choice(["create", "replace", "merge", "status", "strategic", "apply"]):
        case "create":
            return client.ask("POST", collection, whole)
        case "replace":
            return client.ask("PUT", one, whole)
        case "merge":
            return client.merge(one, part)
        case "status":
            return client.merge(f"{one}/status", {"status": part.get("status")})
        case "strategic":
            return client.ask("PATCH", one, part, Content_Type=STRATEGIC)
    return client.apply(one, whole, "fuzzer", "&force=true")


@pytest.mark.parametrize("resource", KINDS, ids=lambda r: f"{r.group}.{r.version}.{r.plural}")
def test_no_body_makes_the_server_fail(client: Client, resource: Any) -> None:
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    scope = "/namespaces/default" if resource.namespaced else ""
    collection = f"{'/apis' if resource.group else '/api'}/{version}{scope}/{resource.plural}"
    chance = random.Random(collection)
    schemas = openapi_schemas(version)
    bodies = Bodies(schemas, chance)
    for _ in range(15):
        part = bodies.of(schemas[KINDS[resource].schema], 9)
        if not isinstance(part, dict):
            continue
        stated = part.get("metadata")
        metadata = stated if isinstance(stated, dict) and chance.random() < 0.3 else {}
        whole = {**part, "apiVersion": version, "kind": resource.kind, "metadata": {**metadata, "name": "x"}}
        answer = write(client, chance, collection, whole, part)
        assert not is_fault(answer.status, answer.body), (answer.body, whole)


@pytest.mark.parametrize("group", ["batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1"])
def test_schemathesis_finds_no_fault(client: Client, group: str) -> None:
    headers = {"Authorization": f"Bearer {client.token}"}
    schema = schemathesis.openapi.from_url(f"{client.sandbox.url}/openapi/v3/apis/{group}", headers=headers)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert operations
    for operation in operations:

        @settings(
            max_examples=4,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            query = {key: value for key, value in (case.query or {}).items() if key not in ("watch", "follow")}
            case.query = query
            answer = case.call(base_url=client.sandbox.url, headers=headers)
            assert not is_fault(answer.status_code, answer.content), answer.content

        ask()
