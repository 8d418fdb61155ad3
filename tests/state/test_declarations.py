"""Which Application declares which objects, and at which commit."""

from __future__ import annotations

from gitsync.objects.ref import ObjectRef
from gitsync.state.declarations import Declarations, Reach

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
    declarations.register("gitsync/new", Reach(main, "shop", False))
    declarations.record_declared("gitsync/one", main, "c2")
    declarations.record_declared("gitsync/two", main, "c1")
    declarations.record_declared("gitsync/other", other, "c8")
    assert declarations.applications_behind("gitsync/one", main, "c2", [A]) == ("gitsync/new", "gitsync/two")
    declarations.record_declared("gitsync/two", main, "c2")
    declarations.forget("gitsync/new")
    assert declarations.applications_behind("gitsync/one", main, "c2", [A]) == ()


def test_an_application_that_left_its_branch_counts_with_its_last_declaration() -> None:
    declarations = Declarations()
    main = ("repo", "main")
    declarations.record_declared("gitsync/two", main, "c1")
    declarations.set_declared("gitsync/two", frozenset({A}))
    declarations.leave_branch("gitsync/two", ())
    declarations.leave_branch("gitsync/three", (B,))
    assert declarations.applications_behind("gitsync/one", main, "c2", [A]) == ()
    assert declarations.declared_elsewhere("gitsync/one", [A, B]) == {A: "gitsync/two", B: "gitsync/three"}


def test_a_peer_holds_only_what_it_may_declare() -> None:
    main = ("repo", "main")
    declarations = Declarations()
    declarations.register("gitsync/peer", Reach(main, "peer", False))
    elsewhere = ObjectRef("", "ConfigMap", "peer", "a")
    cluster_role = ObjectRef("rbac.authorization.k8s.io", "ClusterRole", "", "a")

    def is_held_by(ref: ObjectRef) -> bool:
        return declarations.applications_behind("gitsync/one", main, "c2", [ref]) == ("gitsync/peer",)

    assert is_held_by(A)  # nothing is known of what it declares
    declarations.set_declared("gitsync/peer", frozenset({elsewhere}))
    assert is_held_by(elsewhere)
    assert not is_held_by(A)
    assert not is_held_by(cluster_role)
    declarations.set_declared("gitsync/peer", frozenset({elsewhere, B}))  # B is in the namespace of A
    assert is_held_by(A)
    declarations.register("gitsync/peer", Reach(main, "peer", True))
    assert is_held_by(cluster_role)


def test_an_application_of_another_branch_holds_nothing_before_it_is_reconciled() -> None:
    declarations = Declarations()
    declarations.register("gitsync/other", Reach(("another", "main"), "shop", False))
    assert declarations.applications_behind("gitsync/one", ("repo", "main"), "c2", [A]) == ()


def test_the_reach_of_an_application_is_read_from_its_spec() -> None:
    source = {"repoURL": "https://git.example.com/shop.git", "revision": "refs/heads/live"}
    manifest = {"metadata": {"namespace": "gitsync"}, "spec": {"source": source, "destination": {"namespace": "shop"}}}
    assert Reach.of(manifest) == Reach(("https://git.example.com/shop.git", "live"), "shop", False)
    bare = {"metadata": {"namespace": "gitsync"}, "spec": {"source": {"repoURL": "x"}}}
    assert Reach.of(bare) == Reach(("x", "main"), "gitsync", False)
