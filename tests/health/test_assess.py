"""Health of objects that are being deleted, and of kinds without a rule."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.health.assess import assess, assess_by
from gitsync.objects.application import HealthCheck
from gitsync.objects.health import Health, worst
from tests.health.factories import live, said

WIDGET = "x.dev/v1/Widget"
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("kind", ["ConfigMap", "apps/v1/Deployment", WIDGET, "kafka.strimzi.io/v1beta2/Kafka"])
def test_whatever_is_being_deleted_is_progressing(kind):
    result = assess(live(kind, {}, said("Ready=True"), **GONE))
    assert (result.health, result.message) == (Health.PROGRESSING, "Pending deletion")


def test_the_finalizers_that_hold_it_are_named():
    result = assess(live("ConfigMap", **GONE, finalizers=["a.dev/x", "b.dev/y"]))
    assert result.message == "Pending deletion; blocked by finalizers: a.dev/x, b.dev/y"


@pytest.mark.parametrize(
    ("found", "health", "message"),
    [
        (live(WIDGET), Health.UNKNOWN, "reports no condition"),
        (live(WIDGET, {}, {}), Health.UNKNOWN, "reports no condition"),
        (live(WIDGET, {}, said("Something=True")), Health.UNKNOWN, ""),
        (live(WIDGET, {}, said("Ready=True::up")), Health.HEALTHY, "up"),
        (live(WIDGET, {}, said("Ready=False:Starting")), Health.PROGRESSING, "Starting"),
        (live(WIDGET, {}, said("Ready=Unknown:Asking")), Health.PROGRESSING, "Asking"),
        (live(WIDGET, {}, said("Available=True")), Health.HEALTHY, ""),
        (live(WIDGET, {}, said("Available=False:No")), Health.PROGRESSING, "No"),
        (live(WIDGET, {}, said("Reconciling=True::busy", "Ready=True")), Health.PROGRESSING, "busy"),
        (live(WIDGET, {}, said("Stalled=True:ProgressDeadlineExceeded:late")), Health.DEGRADED, "late"),
        (live(WIDGET, {}, said("Stalled=True:Why")), Health.DEGRADED, "Why"),
        (live(WIDGET, {}, {"observedGeneration": 1}, generation=2), Health.PROGRESSING, "generation is 2"),
        (live(WIDGET, {}, {"replicas": 2, "readyReplicas": 2}), Health.HEALTHY, "2 of 2"),
        (live(WIDGET, {}, {"replicas": 2, "readyReplicas": 1}), Health.PROGRESSING, "1 of 2"),
        (live(WIDGET, {}, {"phase": "Running"}), Health.HEALTHY, "Running"),
        (live(WIDGET, {}, {"phase": "Failed", "message": "why"}), Health.DEGRADED, "why"),
        (live(WIDGET, {}, {"phase": "Error"}), Health.DEGRADED, "Error"),
        (live(WIDGET, {}, {"phase": "PartiallyFailed"}), Health.DEGRADED, "PartiallyFailed"),
        (live(WIDGET, {}, {"phase": "FailedValidation"}), Health.DEGRADED, "FailedValidation"),
        (live(WIDGET, {}, {"phase": "Failing"}), Health.PROGRESSING, "Failing"),
        (live(WIDGET, {}, {"phase": "Initializing"}), Health.PROGRESSING, "Initializing"),
        (live(WIDGET, {"suspend": True}, said("Ready=False:Suspended")), Health.SUSPENDED, "Widget is suspended"),
        (live(WIDGET, {"suspend": True}, said("Stalled=True:Stuck")), Health.DEGRADED, "Stuck"),
        (live(WIDGET, {}, "odd"), Health.UNKNOWN, ""),
        (live(WIDGET, {}, {"conditions": "odd", "replicas": "two", "phase": 3}), Health.UNKNOWN, ""),
    ],
)
def test_an_unknown_kind_is_judged_by_the_signs_it_gives(found, health, message):
    result = assess(found)
    assert result.health is health
    assert message in result.message


def test_an_application_is_as_healthy_as_its_worst_object():
    assert worst([]) is Health.HEALTHY
    assert worst([Health.HEALTHY, Health.SUSPENDED]) is Health.SUSPENDED
    assert worst([Health.DEGRADED, Health.MISSING, Health.PROGRESSING]) is Health.DEGRADED


@pytest.mark.parametrize(
    ("kind", "status", "health", "message"),
    [
        ("gitsync.dev/v1alpha1/Application", {"health": "Degraded"}, Health.DEGRADED, "Degraded"),
        ("gitsync.dev/v1alpha1/Application", {"health": "Healthy"}, Health.HEALTHY, "Healthy"),
        ("gitsync.dev/v1alpha1/Application", {}, Health.PROGRESSING, ""),
        ("argoproj.io/v1alpha1/Application", {"health": {"status": "Missing", "message": "no"}}, Health.MISSING, "no"),
    ],
)
def test_an_application_inside_another_says_how_its_objects_are(kind, status, health, message):
    result = assess(live(kind, {}, status))
    assert (result.health, result.message) == (health, message)


@pytest.mark.parametrize(
    "kind", ["monitoring.coreos.com/v1/ServiceMonitor", "Secret", "storage.k8s.io/v1/StorageClass"]
)
def test_a_kind_that_only_holds_settings_is_well_once_it_exists(kind):
    assert assess(live(kind)).health is Health.HEALTHY


CHECK = HealthCheck(
    group="example.com",
    kind="Widget",
    healthy="object.status.ready == true",
    degraded="object.status.failures > 3",
)


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
    check = HealthCheck(group="example.com", kind="Widget", healthy="object.status.ready")
    assert assess_by(check, {"metadata": {}, "status": {"ready": "yes"}}).health is Health.PROGRESSING


def test_an_object_on_its_way_out_is_progressing() -> None:
    live = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"ready": True, "failures": 0}}
    assert assess_by(CHECK, live).health is Health.PROGRESSING


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not valid CEL"):
        assess_by(HealthCheck(kind="ConfigMap", healthy="object.x =="), {"metadata": {}})


def test_a_check_that_iterates_long_over_a_large_object_is_refused() -> None:
    ten = "[0,1,2,3,4,5,6,7,8,9]"
    nested = HealthCheck(kind="ConfigMap", healthy=f"{ten}.all(a, {ten}.all(b, !object.data.a.contains('ab')))")
    large = {**live("ConfigMap"), "data": {"a": "a" * (1 << 20)}}
    with pytest.raises(InvalidInput, match="reads too much of ConfigMap"):
        assess_by(nested, large)
    assert assess_by(nested, {**live("ConfigMap"), "data": {"a": "a"}}).health is Health.HEALTHY
    conditions = [{"type": f"t{number}"} for number in range(15)]
    usual = HealthCheck(kind="ConfigMap", healthy="object.status.conditions.exists(c, c.type == 't9')")
    assert assess_by(usual, {**large, "status": {"conditions": conditions}}).health is Health.HEALTHY
