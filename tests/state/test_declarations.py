"""Which Application declares which objects, and at which commit."""

from __future__ import annotations

import os
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.objects.keys import FINALIZER
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


SECOND = "2026-11-20T10:00:00Z"
LATER = "2026-11-20T10:00:01Z"


class Unreconciled:
    """Declarations of Applications that no controller has reconciled yet, and those that were enqueued."""

    def __init__(self, **times: str) -> None:
        self.enqueued: list[str] = []
        self.declarations = Declarations(self.enqueued.append)
        for name, time in times.items():
            self.register(name, time)

    def register(self, name: str, time: str = SECOND, namespace: str = "shop", *, is_new: bool = True) -> None:
        self.declarations.register(f"gitsync/{name}", Reach(("repo", "main"), namespace, False, time, is_new))

    def declare(self, name: str, *refs: ObjectRef) -> None:
        self.declarations.set_declared(f"gitsync/{name}", frozenset(refs))

    def awaited(self, name: str, owner: str = "", ref: ObjectRef = A) -> tuple[str, ...]:
        return tuple(sorted(self.declarations.awaited(f"gitsync/{name}", {ref: owner})))


def test_a_new_application_waits_for_older_new_ones() -> None:
    new = Unreconciled(fa=SECOND, fb=SECOND, old=SECOND, late=LATER)
    new.declare("fb", A)
    assert new.awaited("fb") == ("gitsync/fa",)
    assert new.enqueued == []
    new.declare("fa", A)
    assert new.enqueued == ["gitsync/fb"]
    assert new.awaited("fb") == ()
    assert new.declarations.claim("gitsync/fb") == {A: "gitsync/fa"}
    new.declare("late", A)
    assert new.awaited("late") == ("gitsync/old",)


def test_one_that_fails_before_it_declares_is_not_awaited() -> None:
    new = Unreconciled(fa=SECOND, fb=LATER)
    new.declare("fb", A)
    assert new.awaited("fb") == ("gitsync/fa",)
    new.declarations.settle("gitsync/fa")
    assert new.enqueued == ["gitsync/fb"]
    assert new.awaited("fb") == ()


def test_one_that_is_deleted_or_suspended_is_not_awaited() -> None:
    new = Unreconciled(deleted=SECOND, suspended=SECOND, waiting=LATER)
    new.declare("waiting", A)
    assert new.awaited("waiting") == ("gitsync/deleted", "gitsync/suspended")
    new.declarations.forget("gitsync/deleted")
    assert new.enqueued == []
    new.declarations.leave_branch("gitsync/suspended")
    assert new.enqueued == ["gitsync/waiting"]
    assert new.awaited("waiting") == ()
    assert new.declarations.are_complete


def test_one_that_deploys_elsewhere_or_was_reconciled_is_not_awaited() -> None:
    new = Unreconciled(fb=LATER)
    new.register("elsewhere", namespace="prod")
    new.register("known", is_new=False)
    new.declare("fb", A)
    assert new.awaited("fb") == ()
    cluster_role = ObjectRef("rbac.authorization.k8s.io", "ClusterRole", "", "a")
    assert new.awaited("fb", ref=cluster_role) == ()
    admin = Reach(("repo", "main"), "prod", True, SECOND, is_new=True)
    new.declarations.register("gitsync/admin", admin)
    assert new.awaited("fb", ref=cluster_role) == ("gitsync/admin",)


def test_one_that_is_moved_to_another_namespace_is_awaited_there() -> None:
    new = Unreconciled(moved=SECOND, fb=LATER)
    new.declare("fb", A)
    assert new.awaited("fb") == ("gitsync/moved",)
    new.register("moved", namespace="prod")
    assert new.awaited("fb") == ()
    new.register("moved", namespace="shop")
    assert new.awaited("fb") == ("gitsync/moved",)
    new.declarations.forget("gitsync/moved")
    assert new.awaited("fb") == ()


def test_the_owner_of_a_mark_is_awaited_after_a_start() -> None:
    started = Unreconciled()
    started.register("owner", LATER, is_new=False)
    started.register("other", SECOND, is_new=False)
    started.declare("other", A)
    assert started.awaited("other") == ()
    assert started.awaited("other", "gitsync/owner") == ("gitsync/owner",)
    # it still has the object while it cannot be rendered
    started.declarations.settle("gitsync/owner")
    assert started.enqueued == ["gitsync/other"]
    assert started.awaited("other", "gitsync/owner") == ("gitsync/owner",)
    started.declare("owner", A)
    assert started.awaited("other", "gitsync/owner") == ()
    assert started.awaited("other", "gitsync/gone") == ()


def test_an_agent_that_declares_nothing_in_git_awaits_none() -> None:
    new = Unreconciled(fa=SECOND)
    assert new.declarations.awaited("shop/agent", {A: "gitsync/fa"}) == frozenset()


def test_an_application_that_is_created_again_is_new_again() -> None:
    new = Unreconciled(fa=SECOND, fb=LATER)
    new.declare("fb", A)
    new.declarations.forget("gitsync/fa")
    assert new.awaited("fb") == ()
    new.register("fa")
    assert new.awaited("fb") == ("gitsync/fa",)
    new.declarations.forget("gitsync/fb")
    new.declare("fa", A)
    assert "gitsync/fb" not in new.enqueued


def test_what_is_left_to_others_is_shown_without_a_claim() -> None:
    new = Unreconciled(fa=SECOND, fb=LATER)
    new.declare("fb", A)
    new.declare("fa", A)
    assert new.declarations.left_to_others("gitsync/fb") == {A: "gitsync/fa"}
    assert new.declarations.left_to_others("gitsync/fa") == {}
    new.declare("fa")
    # the one that would have had it has neither claimed nor written it
    assert new.declarations.claim("gitsync/fb") == {}


@settings(max_examples=int(os.environ.get("GITSYNC_CLAIM_EXAMPLES", "100")), deadline=None)
@given(st.permutations([(name, act) for name in "abc" for act in ("declare", "plan")]), st.permutations("abc"))
def test_the_oldest_gets_the_object_in_whatever_order(order: list[tuple[str, str]], registered: list[str]) -> None:
    times = {"a": LATER, "b": SECOND, "c": SECOND}
    new = Unreconciled(**{name: times[name] for name in registered})
    declared: set[str] = set()
    writers: list[str] = []

    def plan(name: str) -> None:
        key = f"gitsync/{name}"
        if name in declared and not new.awaited(name) and not new.declarations.claim(key):
            writers.append(name)

    for name, act in order:
        if act == "declare":
            new.declare(name, A)
            declared.add(name)
        else:
            plan(name)
    # those that waited are enqueued by the last one that they waited for
    for key in new.enqueued:
        plan(key.partition("/")[2])
    for name in "abc":
        plan(name)
    assert set(writers) == {"b"}


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
    assert Reach.of(manifest) == Reach(("https://git.example.com/shop.git", "live"), "shop", False, is_new=True)
    reconciled = {**manifest, "status": {"phase": "Failed"}}
    assert Reach.of(reconciled) == Reach(("https://git.example.com/shop.git", "live"), "shop", False)
    bare = {"metadata": {"namespace": "gitsync"}, "spec": {"source": {"repoURL": "x"}}}
    assert Reach.of(bare) == Reach(("x", "main"), "gitsync", False, is_new=True)
    leaving = {**manifest["metadata"], "deletionTimestamp": "2026-11-20T10:00:00Z", "finalizers": [FINALIZER]}
    assert Reach.of({**manifest, "metadata": leaving}).deletes_objects
    for sync in ({"prune": False}, {"preserveResourcesOnDeletion": True}):
        keeping = Reach.of({**manifest, "metadata": leaving, "spec": {**manifest["spec"], "sync": sync}})
        assert (keeping.is_deleted, keeping.deletes_objects) == (True, False)


def test_one_that_is_deleted_with_its_objects_is_no_claimant() -> None:
    declarations = Declarations()
    for key in ("gitsync/one", "gitsync/two"):
        declarations.set_declared(key, frozenset({A}))
    keeping = Reach(("repo", "main"), "shop", False, is_deleted=True)
    declarations.register("gitsync/two", keeping)
    assert declarations.declared_elsewhere("gitsync/one", [A]) == {A: "gitsync/two"}, "its objects stay"
    declarations.register("gitsync/two", replace(keeping, deletes_objects=True))
    assert declarations.declared_elsewhere("gitsync/one", [A]) == {}
    declarations.register("gitsync/two", keeping)
    assert declarations.declared_elsewhere("gitsync/one", [A]) == {}, "only the finalizer of another client is left"


def test_what_a_deleted_application_had_in_common_is_left_to_others() -> None:
    declarations = Declarations()
    declarations.set_declared("gitsync/one", frozenset({A, B}))
    declarations.set_declared("gitsync/two", frozenset({A}))
    leaving = Reach(("repo", "main"), "shop", False, is_deleted=True, deletes_objects=True)
    declarations.register("gitsync/one", leaving)
    declarations.forget("gitsync/one")
    assert declarations.left_to("gitsync/two") == {A: "gitsync/one"}
    declarations.register("gitsync/one", Reach(("repo", "main"), "shop", False))
    assert declarations.left_to("gitsync/two") == {}, "it was created again"
    declarations.register("gitsync/one", leaving)
    assert declarations.left_to("gitsync/two") == {A: "gitsync/one"}
    declarations.set_declared("gitsync/two", frozenset())
    assert declarations.left_to("gitsync/two") == {}, "it gave the object up"
