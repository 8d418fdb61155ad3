"""A field that another controller sets back is corrected more and more rarely, and the message names how to stop it."""

from __future__ import annotations

from gitsync.gate.self_heal import SelfHeals
from gitsync.objects.change import Action, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.ref import ObjectRef

WEB = ObjectRef("apps", "Deployment", "shop", "web")
SCALER = FieldOwner("kube-controller-manager", "Update", subresource="scale")
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}


def differs(*fields: str, ref: ObjectRef = WEB) -> Change:
    found = tuple(FieldDifference(field, "", Difference.CHANGED, 1, 3, (SCALER,)) for field in fields)
    return Change(ref, Action.UPDATE, differences=found)


def corrected(change: Change, times: int, heals: SelfHeals, now: float = 0.0) -> float:
    """Correct an object as often and as soon as it may be; return when the last correction was made."""
    for _ in range(times):
        now += max(heals.remaining(change, now), 0)
        heals.record([change], now)
    return now


def test_the_first_corrections_are_made_at_once_and_then_ever_more_rarely() -> None:
    heals, change = SelfHeals(), differs(".spec.replicas")
    delays = []
    for _ in range(14):
        now = corrected(change, 1, heals, sum(delays))
        delays.append(heals.remaining(change, now))
    assert delays[:6] == [0, 0, 5, 10, 20, 40]
    assert delays[-1] == 3600


def test_fields_and_objects_are_counted_apart() -> None:
    heals = SelfHeals()
    now = corrected(differs(".spec.replicas"), 5, heals)
    assert heals.remaining(differs(".spec.replicas"), now) == 20
    assert heals.remaining(differs(".spec.paused"), now) <= 0
    assert heals.remaining(differs(".spec.replicas", ".spec.paused"), now) <= 0
    assert heals.remaining(differs(".spec.replicas", ref=ObjectRef("apps", "Deployment", "shop", "api")), now) <= 0


def test_a_field_that_kept_its_value_counts_from_zero() -> None:
    heals, change = SelfHeals(), differs(".spec.replicas")
    now = corrected(change, 8, heals)
    later = now + 601
    assert heals.remaining(change, later) <= 0
    heals.record([change], later)
    assert heals.remaining(change, later) <= 0


def test_the_message_names_object_field_manager_and_autoscaler() -> None:
    heals, change = SelfHeals(), differs(".spec.replicas")
    corrected(change, 4, heals)
    assert heals.explain(change, [HPA]) == (
        "Deployment shop/web: another controller writes the same fields: kube-controller-manager set .spec.replicas "
        "back after 4 corrections; the next one waits 10 s; remove spec.replicas from Git, "
        "HorizontalPodAutoscaler shop/web owns it"
    )
    assert "an autoscaler owns it" in heals.explain(change, [])


def test_other_fields_name_the_rule_that_leaves_them_to_others() -> None:
    heals, change = SelfHeals(), differs(".data.a")
    corrected(change, 3, heals)
    assert heals.explain(change, [HPA]).endswith("remove .data.a from Git, or list it in spec.sync.ignoreDifferences")


def test_a_deleted_object_is_a_field_of_its_own() -> None:
    heals, change = SelfHeals(), Change(WEB, Action.CREATE)
    now = corrected(change, 4, heals)
    assert heals.remaining(change, now) == 10
    assert "was deleted again after 4 times" in heals.explain(change, [])
