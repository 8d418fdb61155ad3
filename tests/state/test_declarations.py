"""Which Application declares which objects, and at which commit."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

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


def created(declarations: Declarations, **times: str) -> None:
    for name, time in times.items():
        declarations.register(f"gitsync/{name}", Reach(("repo", "main"), "shop", False, time))


def test_of_applications_that_declare_one_object_the_oldest_has_it() -> None:
    for order in (("old", "new", "also"), ("also", "new", "old"), ("new", "also", "old")):
        declarations = Declarations()
        created(declarations, new="2026-11-20T10:00:01Z", old="2026-11-20T10:00:00Z", also="2026-11-20T10:00:01Z")
        for name in order:
            declarations.set_declared(f"gitsync/{name}", frozenset({A, B} if name == "old" else {A}))
        claims = {name: declarations.claim(f"gitsync/{name}") for name in order}
        assert claims == {"old": {}, "new": {A: "gitsync/old"}, "also": {A: "gitsync/old"}}


def test_of_applications_that_were_created_together_the_first_by_name_has_it() -> None:
    declarations = Declarations()
    created(declarations, fb="2026-11-20T10:00:00Z", fa="2026-11-20T10:00:00Z")
    declarations.set_declared("gitsync/fb", frozenset({A}))
    declarations.set_declared("gitsync/fa", frozenset({A}))
    assert declarations.claim("gitsync/fb") == {A: "gitsync/fa"}
    assert declarations.claim("gitsync/fa") == {}


def test_what_was_claimed_alone_is_kept_from_an_older_one_until_it_is_given_up() -> None:
    declarations = Declarations()
    created(declarations, old="2026-11-20T10:00:00Z", new="2026-11-20T10:00:01Z")
    declarations.set_declared("gitsync/new", frozenset({A}))
    assert declarations.claim("gitsync/new") == {}
    declarations.set_declared("gitsync/old", frozenset({A}))
    assert declarations.claim("gitsync/old") == {A: "gitsync/new"}
    assert declarations.claim("gitsync/new") == {}
    declarations.set_declared("gitsync/new", frozenset())
    assert declarations.claim("gitsync/old") == {}
    declarations.set_declared("gitsync/new", frozenset({A}))
    assert declarations.claim("gitsync/new") == {A: "gitsync/old"}


@settings(max_examples=int(os.environ.get("GITSYNC_CLAIM_EXAMPLES", "100")), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["declare", "leave", "claim"])), max_size=30))
def test_two_applications_never_hold_one_object(steps: list[tuple[str, str]]) -> None:
    declarations = Declarations()
    created(declarations, x="2026-11-20T10:00:02Z", y="2026-11-20T10:00:01Z", z="2026-11-20T10:00:01Z")
    declared: set[str] = set()
    holding: set[str] = set()
    for name, step in steps:
        key = f"gitsync/{name}"
        if step == "claim" and name in declared:
            if not declarations.claim(key):
                holding.add(name)
        elif step != "claim":
            declarations.set_declared(key, frozenset({A} if step == "declare" else ()))
            declared = declared | {name} if step == "declare" else declared - {name}
            holding -= set() if step == "declare" else {name}
        assert len(holding) <= 1


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


def test_an_application_that_is_pruned_itself_holds_nothing() -> None:
    main = ("repo", "main")
    declarations = Declarations()
    declarations.register("gitsync/peer", Reach(main, "shop", False))
    pruned = ObjectRef("gitsync.dev", "Application", "gitsync", "peer")
    assert declarations.applications_behind("gitsync/root", main, "c2", [A, pruned]) == ()
    assert declarations.applications_behind("gitsync/root", main, "c2", [A]) == ("gitsync/peer",)


def test_an_application_that_does_not_exist_yet_is_behind() -> None:
    main = ("repo", "main")
    declarations = Declarations()
    child = ObjectRef("gitsync.dev", "Application", "gitsync", "child")
    declarations.record_declared("gitsync/root", main, "c2")
    declarations.set_declared("gitsync/root", frozenset({child}))

    def behind() -> tuple[str, ...]:
        return declarations.applications_behind("gitsync/one", main, "c2", [A])

    assert behind() == ("gitsync/child",)
    declarations.register("gitsync/child", Reach(main, "shop", False))
    declarations.record_declared("gitsync/child", main, "c2")
    assert behind() == ()
    declarations.forget("gitsync/child")
    assert behind() == (), "a user deleted it, and nothing may create it again"


def test_all_are_behind_a_commit_that_is_not_known_yet() -> None:
    main = ("repo", "main")
    declarations = Declarations()
    declarations.register("gitsync/peer", Reach(main, "shop", False))
    assert declarations.newest(main) == ""
    assert declarations.applications_behind("gitsync/one", main, declarations.newest(main), [A]) == ("gitsync/peer",)


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
