"""Whatever a client sends, the answer is an object or a refusal: never another exception."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gitsync.kube.openapi import openapi_schemas, resources
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.kinds import strategy_for
from gitsync.sandbox.kinds.strategy import BuiltIn
from tests.sandbox.kinds.random_bodies import Bodies
from tests.sandbox.kinds.recordings import Allocator

KINDS = sorted({(r.group, r.version, r.kind) for r in resources()})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ".".join(kind))
def test_no_body_breaks_a_kind(kind: tuple[str, str, str]) -> None:
    group, version, name = kind
    api_version = f"{group}/{version}" if group else version
    strategy = strategy_for(*kind)
    if not isinstance(strategy, BuiltIn):
        pytest.skip("its schema is not known")
    schemas = openapi_schemas(api_version)
    bodies = Bodies(schemas, random.Random(name))
    schema = schemas[strategy.schema]
    stored: list[Any] = []
    for _ in range(60):
        body = bodies.of(schema, 9)
        body = body if isinstance(body, dict) else {}
        body |= {"apiVersion": api_version, "kind": name, "metadata": {"name": "x", "namespace": "n", "uid": "u"}}
        strategy.unknown_fields(body)
        try:
            new = strategy.default(strategy.prune(body))
            created = strategy.prepare(new, None, "", Allocator())
            strategy.validate(created, None, "")
            if stored:
                old = bodies.chance.choice(stored)
                for subresource in ("", "status"):
                    changed = strategy.prepare(new, old, subresource, Allocator())
                    strategy.validate(changed, old, subresource)
        except ApiError:
            continue
        stored.append(created)
