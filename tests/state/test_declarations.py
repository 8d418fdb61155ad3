"""Which Application declares which objects, and at which commit."""

from __future__ import annotations

from gitsync.objects.ref import ObjectRef
from gitsync.state.declarations import Declarations

A = ObjectRef("", "ConfigMap", "shop", "a")
B = ObjectRef("", "ConfigMap", "shop", "b")


def test_claims_are_those_of_others() -> None:
    declarations = Declarations()
    declarations.set_declared("gitsync/one", frozenset({A, B}))
    declarations.set_declared("gitsync/two", frozenset({B}))
    assert declarations.declared_elsewhere("gitsync/one", [A, B]) == {B: "gitsync/two"}
    declarations.set_declared("gitsync/two", frozenset())
    assert declarations.declared_elsewhere("gitsync/one", [A, B]) == {}


def test_claims_of_two_others_outlive_the_first_that_leaves() -> None:
    declarations = Declarations()
    for key in ("gitsync/one", "gitsync/two", "gitsync/three"):
        declarations.set_declared(key, frozenset({A}))
    assert declarations.declared_elsewhere("gitsync/one", [A]) == {A: "gitsync/three"}
    declarations.forget("gitsync/three")
    assert declarations.declared_elsewhere("gitsync/one", [A, B]) == {A: "gitsync/two"}
    declarations.forget("gitsync/two")
    assert declarations.declared_elsewhere("gitsync/one", [A, B]) == {}


def test_an_object_that_is_not_declared_any_more_enqueues_the_others_that_declare_it() -> None:
    enqueued: list[str] = []
    declarations = Declarations(enqueued.append)
    declarations.set_declared("gitsync/one", frozenset({A, B}))
    declarations.set_declared("gitsync/two", frozenset({A}))
    assert enqueued == []
    declarations.set_declared("gitsync/one", frozenset({B}))
    assert enqueued == ["gitsync/two"]
    declarations.forget("gitsync/one")
    assert enqueued == ["gitsync/two"]


def test_applications_that_have_not_declared_the_newest_commit_are_behind() -> None:
    declarations = Declarations()
    main, other = ("repo", "main"), ("another", "main")
    declarations.register(["gitsync/new"])
    declarations.record_declared("gitsync/one", main, "c2")
    declarations.record_declared("gitsync/two", main, "c1")
    declarations.record_declared("gitsync/other", other, "c8")
    assert declarations.applications_behind("gitsync/one", main, "c2") == ("gitsync/new", "gitsync/two")
    declarations.record_declared("gitsync/two", main, "c2")
    declarations.forget("gitsync/new")
    assert declarations.applications_behind("gitsync/one", main, "c2") == ()


def test_an_application_that_left_its_branch_counts_with_its_last_declaration() -> None:
    declarations = Declarations()
    main = ("repo", "main")
    declarations.record_declared("gitsync/two", main, "c1")
    declarations.set_declared("gitsync/two", frozenset({A}))
    declarations.leave_branch("gitsync/two", ())
    declarations.leave_branch("gitsync/three", (B,))
    assert declarations.applications_behind("gitsync/one", main, "c2") == ()
    assert declarations.declared_elsewhere("gitsync/one", [A, B]) == {A: "gitsync/two", B: "gitsync/three"}
