"""Rows, long values, trees: what pages show of objects."""

from __future__ import annotations

from gitsync.objects.change import ABSENT
from gitsync.objects.health import Health
from gitsync.server.queries.fields import field_row, recorded_field
from gitsync.server.queries.objects import by_severity, resource_row, severity
from gitsync.server.queries.tree import MOST, tree
from tests.server.fakes import changed, resource


def test_what_is_wrong_comes_first_and_unknown_is_not_the_worst() -> None:
    found = [
        resource("calm"),
        resource("unknown", health=Health.UNKNOWN),
        resource("broken", health=Health.DEGRADED),
        resource("refused", problem="no"),
        resource("drifted", sync="OutOfSync"),
    ]
    ordered = [item.ref.name for item in sorted(found, key=by_severity)]
    assert ordered == ["refused", "broken", "unknown", "drifted", "calm"]
    assert [item.ref.name for item in found if not severity(item)] == ["calm"]


def test_a_row_says_the_most_telling_thing() -> None:
    one = (changed(),)
    assert resource_row(resource("a", problem="refused", message="fine", differences=one)).reason == "refused"
    crashes = resource("a", health=Health.DEGRADED, message="it crashes", problem="waits for approval")
    assert resource_row(crashes).reason == "it crashes; waits for approval"
    assert resource_row(resource("a", health=Health.DEGRADED, problem="refused")).reason == "refused"
    assert resource_row(resource("a", message="fine", differences=one)).reason == "fine"
    assert resource_row(resource("a", differences=one)).reason == "1 field differs"
    assert resource_row(resource("a", differences=one * 2)).reason == "2 fields differ"


def test_giant_values_are_only_counted() -> None:
    assert field_row(changed(live="a", desired="b")).text == ()
    giant = "\n".join("x" * 3 for _ in range(5000))
    (row,) = field_row(changed(live=giant, desired="a\nb")).text
    assert row.after is not None
    assert row.after.parts[0].text == "5000 lines before, 2 lines after: too many to compare here"
    assert len(field_row(changed(live="x" * 100_000)).live) < 4100


def test_what_was_absent_is_shown_as_nothing() -> None:
    assert field_row(changed(live=ABSENT, desired="x")).live == ""
    kept = recorded_field({"path": ".a", "kind": "gone", "desired": 1, "live": None, "owners": []})
    assert (kept.live, kept.desired, kept.is_drift) == ("", "1", True)


def pod(name: str, phase: str) -> dict[str, object]:
    conditions = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": phase, "conditions": conditions},
    }


def test_the_tree_groups_kinds_and_opens_what_is_not_healthy() -> None:
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "rs"},
        "spec": {"replicas": 1},
        "status": {"replicas": 1},
    }
    children = {"uid-web": (replicas,), "rs": (pod("web-1-a", "Failed"), pod("web-1-b", "Running"))}
    found = [resource("web", "Deployment", health=Health.DEGRADED), resource("a"), resource("b")]
    groups, left_out = tree(found, lambda uid: children.get(uid, ()))
    assert left_out == 0
    assert [(group.kind, group.count, group.is_open, group.health) for group in groups] == [
        ("Deployment", 1, True, "Degraded"),
        ("ConfigMap", 2, False, "Healthy"),
    ]
    web = groups[0].children[0]
    assert web.is_open
    assert [child.name for child in web.children] == ["web-1"]
    assert [(part.name, part.health) for part in web.children[0].children] == [
        ("web-1-a", "Degraded"),
        ("web-1-b", "Healthy"),
    ]


def test_a_large_tree_is_cut_and_a_cycle_ends() -> None:
    loop = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loop", "namespace": "shop", "uid": "uid-a-0"}}
    groups, left_out = tree([resource("a-0")], lambda uid: (loop,))
    assert groups[0].count == 1
    groups, left_out = tree([resource(f"a-{number}") for number in range(1000)], lambda uid: ())
    assert left_out == 1000 - MOST
    assert [group.count for group in groups] == [1000]
