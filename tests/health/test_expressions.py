"""An application's own health checks decide only by what is plainly true."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.health.expressions import assess_by
from gitsync.objects.application import HealthCheck
from gitsync.objects.health import Health

CHECK = HealthCheck("example.com", "Widget", "object.status.ready == true", "object.status.failures > 3")


@pytest.mark.parametrize(
    ("status", "health"),
    [
        pytest.param({"ready": True, "failures": 0}, Health.HEALTHY, id="current"),
        pytest.param({"ready": False, "failures": 0}, Health.PROGRESSING, id="neither"),
        pytest.param({"ready": True, "failures": 4}, Health.DEGRADED, id="failed goes first"),
        pytest.param({}, Health.PROGRESSING, id="what cannot be evaluated is not true"),
    ],
)
def test_health_is_what_the_expressions_say(status: dict[str, object], health: Health) -> None:
    assert assess_by(CHECK, {"metadata": {}, "status": status}).health is health


def test_a_value_that_is_not_true_is_not_healthy() -> None:
    check = HealthCheck("example.com", "Widget", "object.status.ready")
    assert assess_by(check, {"metadata": {}, "status": {"ready": "yes"}}).health is Health.PROGRESSING


def test_an_object_on_its_way_out_is_progressing() -> None:
    live = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"ready": True, "failures": 0}}
    assert assess_by(CHECK, live).health is Health.PROGRESSING


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not valid CEL"):
        assess_by(HealthCheck("", "ConfigMap", "object.x =="), {"metadata": {}})
