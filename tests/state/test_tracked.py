"""Which Applications a changed object enqueues."""

from __future__ import annotations

from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.state.tracked import TrackedObjects

A = ObjectRef("", "ConfigMap", "shop", "a")
B = ObjectRef("", "ConfigMap", "shop", "b")


def test_a_changed_object_is_of_the_applications_that_track_it() -> None:
    tracked = TrackedObjects()
    tracked.track("gitsync/one", frozenset({A, B}))
    tracked.track("gitsync/two", frozenset({B}))
    assert tracked.applications_for(B) == {"gitsync/one", "gitsync/two"}
    tracked.track("gitsync/one", frozenset({A}))
    assert (tracked.applications_for(A), tracked.applications_for(B)) == ({"gitsync/one"}, {"gitsync/two"})
    tracked.forget("gitsync/one")
    assert tracked.applications_for(A) == frozenset()


def test_a_changed_definition_is_of_the_applications_of_its_kind() -> None:
    tracked = TrackedObjects()
    tracked.track("gitsync/one", frozenset({A, B}))
    tracked.track("gitsync/two", frozenset({ObjectRef("", "Secret", "shop", "a")}))
    assert tracked.applications_of(GroupKind("", "ConfigMap")) == {"gitsync/one"}
    assert tracked.applications_of(GroupKind("apps", "ConfigMap")) == frozenset()
