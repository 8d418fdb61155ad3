from __future__ import annotations

from typing import Any

import pytest

from gitsync.kube.openapi import ResourceType, resources
from gitsync.sandbox import errors
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.kinds import strategy_for
from tests.conformance_data import conformance_dir, suite
from tests.sandbox.kinds.recordings import create, resolved, scenarios


def _cases() -> list[Any]:
    path = conformance_dir() / "apiserver" / "errors.json"
    if not path.exists():
        return [pytest.param({}, id="absent")]
    return [
        pytest.param(step, id=f"{name}-{step.get('note', number)}")
        for name, steps in scenarios(path)
        if name.startswith("errors/invalid-")
        for number, step in enumerate(steps)
        if step["method"] == "POST"
    ]


def _resource(path: str) -> ResourceType:
    """Return the resource of a recorded URL."""
    parts = path.strip("/").split("/")
    group, plural = ("" if parts[0] == "api" else parts[1]), parts[-1]
    return next(found for found in resources() if (found.group, found.plural) == (group, plural))


def _refusal(resource: ResourceType, body: dict[str, Any]) -> dict[str, Any] | None:
    strategy = strategy_for(resource.group, resource.version, resource.kind)
    try:
        causes = strategy.validate(create(strategy, body), None, "")
    except ApiError as error:
        return error.to_status()
    if not causes:
        return None
    return errors.invalid(resource.kind, resource.group, body["metadata"]["name"], causes).to_status()


@pytest.mark.parametrize("step", _cases())
def test_an_invalid_object_is_refused_to_the_letter(step: dict[str, Any]) -> None:
    suite("apiserver")
    answer = resolved(step["expect"])
    wanted = answer["body"] if answer["status"] >= 400 else None
    assert _refusal(_resource(resolved(step["path"])), resolved(step["body"])) == wanted
