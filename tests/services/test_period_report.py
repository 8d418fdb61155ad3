"""The report of a period, from the audit and the live objects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitsync.objects.change import Action, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.drift_history import EndedBy, OpenDrift, ended_link
from gitsync.services.period_report import PeriodReport, Share, period_report
from tests.agents.factories import agent
from tests.fakes.ports import START

PINNED = f"web@sha256:{'a' * 64}"


def workload(name: str, image: str, kind: str = "Deployment") -> Manifest:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    spec: dict[str, Any] = (
        {"template": template} if kind != "CronJob" else {"jobTemplate": {"spec": {"template": template}}}
    )
    api = "apps/v1" if kind != "CronJob" else "batch/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def holding(name: str, *objects: Manifest) -> Manifest:
    inventory = Inventory({ref_of(manifest): InventoryEntry("v1", "u") for manifest in objects})
    return {"metadata": {"name": name, "namespace": "gitsync"}, "status": inventory.to_status()}


def drift(seconds: float, *, name: str = "web", application: str = "gitsync/shop", ago: float = 60) -> AuditRecord:
    field = FieldDifference(".spec.replicas", "/spec/replicas", Difference.CHANGED, 1, 4, (FieldOwner("kubectl"),))
    step = Change(ObjectRef("apps", "Deployment", "shop", name), Action.UPDATE, differences=(field,))
    end = START - timedelta(seconds=ago)
    return ended_link(application, OpenDrift(step, end - timedelta(seconds=seconds)), end, EndedBy.SELF_HEAL)


def link(action: str, outcome: Outcome, approver: str = "") -> AuditRecord:
    time = START - timedelta(seconds=5)
    return AuditRecord(
        "gitsync/shop", action, "", outcome, time, "s", "looks right", approver=approver, digest="d" * 64
    )


def report(*links: AuditRecord, objects: tuple[Manifest, ...] = (), held: tuple[Manifest, ...] = ()) -> PeriodReport:
    applications = [holding("shop", *(held or objects))]
    return period_report(START - timedelta(days=1), START, links, applications, objects)


def test_drift_is_counted_by_object_and_manager() -> None:
    made = report(drift(1), drift(2), drift(3, name="api"), drift(9, ago=200_000))
    assert made.by_object == [("Deployment shop/web", 2), ("Deployment shop/api", 1)]
    assert made.by_manager == [("kubectl", 3)]


@pytest.mark.parametrize(
    ("times", "median", "slow"), [([], None, None), ([5], 5, 5), ([1, 2, 30], 2, 30), (list(range(1, 101)), 50, 95)]
)
def test_times_are_the_median_and_the_95th_percentile(times: list[int], median: Any, slow: Any) -> None:
    made = report(*map(drift, times))
    assert (made.seconds(0.5), made.seconds(0.95)) == (median, slow)


def test_images_without_a_digest_and_unevaluated_agents_are_those_of_held_objects() -> None:
    asked = {**agent("asked"), "metadata": {"name": "asked", "namespace": "shop"}}
    asked["spec"] = {**asked["spec"], "evaluation": {"cases": {"name": "c", "key": "k"}}}
    held = (
        workload("web", "web:1"),
        workload("job", "job:1", "CronJob"),
        workload("api", PINNED),
        agent("idle"),
        asked,
    )
    made = report(objects=(*held, workload("foreign", "x:1")), held=held)
    images = [(item.ref.name, item.container) for item in made.images]
    assert images[:2] == [("web", "c"), ("job", "c")]
    assert not {"api", "foreign"} & {name for name, _ in images}
    assert [ref.name for ref in made.unevaluated] == ["idle"]


def test_verdicts_and_decisions_are_counted() -> None:
    made = report(
        link("approve", Outcome.SUCCEEDED, "ada"),
        link("sync", Outcome.REFUSED),
        link("update", Outcome.FAILED),
        link("update", Outcome.INTENDED),
        link("update", Outcome.SUCCEEDED),
    )
    assert made.verdicts == {"approve": 1, "refused": 1, "failed": 1}
    assert [(item.action, item.person, item.plan) for item in made.decisions] == [("approve", "ada", "d" * 12)]
    (score,) = made.scores
    assert score.decisions == Share(2, 4)


def test_the_score_is_the_sum_of_the_shares_of_its_formula() -> None:
    assert report().scores[0].score == 100
    made = report(drift(5), drift(500), objects=(workload("web", "web:1"), workload("api", PINNED)))
    (score,) = made.scores
    assert (score.drift, score.images) == (Share(1, 2), Share(1, 2))
    assert score.score == 40 / 2 + 30 / 2 + 20 + 10
