"""Which Application declares which objects in Git, and at which commit of its branch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from gitsync.objects.application import Application, followed_source
from gitsync.objects.keys import APPLICATION, FINALIZER
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef
from gitsync.state.tracked import KeysByRef

Branch = tuple[str, str]
"""A repository's URL and the revision that an Application follows there."""


def branch_of(app: Application) -> Branch | None:
    """Return the branch that an Application follows, None where its spec is invalid."""
    source = app.source
    return (source.repo_url, source.revision.removeprefix("refs/heads/")) if source.repo_url else None


@dataclass(frozen=True, slots=True)
class Reach:
    """
    Where an Application may declare objects, as far as its spec limits that, and the branch that it follows.

    ``created`` is when it was created, as the API server writes it, so that texts compare as times do. ``is_new`` is
    whether it was never reconciled, by any controller, ``is_deleted`` whether it is being deleted, and
    ``deletes_objects`` whether it deletes its objects then.
    """

    branch: Branch
    namespace: str
    is_cluster_scoped: bool
    created: str = ""
    is_new: bool = False
    is_deleted: bool = False
    deletes_objects: bool = False

    @classmethod
    def of(cls, manifest: Manifest) -> Reach:
        """Return the reach of an Application; nothing is validated, since a reconcile reports an invalid spec."""
        url, revision = followed_source(manifest)
        destination = at(manifest, "spec", "destination", default={})
        sync = at(manifest, "spec", "sync", default={})
        keeps_objects = sync.get("prune") is False or bool(sync.get("preserveResourcesOnDeletion"))
        return cls(
            (url, revision.removeprefix("refs/heads/")),
            str(destination.get("namespace") or metadata_of(manifest).get("namespace", "")),
            bool(destination.get("allowClusterScoped")),
            str(metadata_of(manifest).get("creationTimestamp", "")),
            # each reconcile ends with a status, also one that failed
            is_new=not manifest.get("status"),
            is_deleted=bool(metadata_of(manifest).get("deletionTimestamp")),
            # the finalizer too: one without it is gone at once, and so its objects stay
            deletes_objects=FINALIZER in (metadata_of(manifest).get("finalizers") or ()) and not keeps_objects,
        )


@dataclass(slots=True)
class DeclaredAt:
    """The commit of a branch at which Applications have declared their objects; those that move together share one."""

    branch: Branch
    commit: str


class _NewApplications:
    """
    Applications that were never reconciled, by the namespaces of their specs; a manifest may name another.

    Each first sync asks for the older ones; to examine all would cost the square of their number.
    """

    def __init__(self) -> None:
        self._ages: dict[str, tuple[str, str]] = {}
        self._keys: dict[str, set[str]] = {}
        """Who deploys to a namespace, empty for objects of the cluster."""
        self._namespaces: dict[str, frozenset[str]] = {}

    def add(self, key: str, reach: Reach, age: tuple[str, str]) -> None:
        """Add an Application."""
        self._ages[key] = age
        self.move(key, reach)

    def move(self, key: str, reach: Reach) -> None:
        """Store the reach of an Application after its spec has changed."""
        if key not in self._ages:
            return
        namespaces = {reach.namespace, ""} if reach.is_cluster_scoped else {reach.namespace}
        for namespace in self._namespaces.get(key, frozenset()) - namespaces:
            self._leave(key, namespace)
        for namespace in namespaces:
            self._keys.setdefault(namespace, set()).add(key)
        self._namespaces[key] = frozenset(namespaces)

    def remove(self, key: str) -> None:
        """Remove an Application, also one that is not new."""
        self._ages.pop(key, None)
        for namespace in self._namespaces.pop(key, frozenset()):
            self._leave(key, namespace)

    def _leave(self, key: str, namespace: str) -> None:
        self._keys[namespace].discard(key)
        if not self._keys[namespace]:
            del self._keys[namespace]

    def older(self, age: tuple[str, str], namespaces: Iterable[str]) -> set[str]:
        """Return those that were created before this age and deploy to one of these namespaces."""
        keys = set().union(*(self._keys.get(namespace, ()) for namespace in namespaces))
        return {key for key in keys if self._ages[key] < age}


class Declarations:
    """
    The objects that each Application declares, and the commit at which it declared them. Any thread may call it.

    ``enqueue`` is called with an Application that has to reconcile because of what another one declares.
    """

    def __init__(self, enqueue: Callable[[str], None] = lambda key: None) -> None:
        self._enqueue = enqueue
        self._lock = threading.RLock()
        self._declared = KeysByRef()
        self._declared_at: dict[str, DeclaredAt | None] = {}
        self._reaches: dict[str, Reach] = {}
        self._newest: dict[Branch, str] = {}
        self._shared: set[ObjectRef] = set()
        """The objects that several Applications declare: a lookup for most objects ends here."""
        self._claimed: set[str] = set()
        """The Applications that have planned what they declare now, so that they may write it any moment."""
        self._children: dict[str, frozenset[str]] = {}
        """The Applications that each Application declares."""
        self._gone: set[str] = set()
        """The Applications that were deleted; one that Git still declares may stay so, where nothing heals that."""
        self._leaving: set[str] = set()
        """The Applications that are being deleted with their objects, or were."""
        self._left: dict[str, dict[ObjectRef, str]] = {}
        """What these had in common with each other Application, and which of them had it."""
        self._holders: dict[ObjectRef, str] = {}
        """The Application that an object is left to, of those which several Applications declare."""
        self._undeclared: set[str] = set()
        """The Applications that follow a branch and have declared nothing here yet."""
        self._new = _NewApplications()
        """Those of them that were never reconciled: any moment they may write something first."""
        self._awaited: dict[str, set[str]] = {}
        """The Applications that each Application waits for before it writes an object for the first time."""

    def register(self, key: str, reach: Reach) -> None:
        """
        Store the reach of an Application, also of one that was not reconciled yet.

        It has declared nothing then, so that what another one gives up in the same commit waits for it.
        """
        with self._lock:
            self._reaches[key] = reach
            self._gone.discard(key)
            if not reach.is_deleted:
                self._leaving.discard(key)
            # once it deleted them the finalizer is gone, while those of other clients may hold the Application
            elif reach.deletes_objects or key in self._leaving:
                self._leave_shared(key)
            self._new.move(key, reach)
            # known already: it declared something, failed, or does not follow a branch
            if key not in self._declared_at and not self._declared.has(key):
                self._undeclared.add(key)
                if reach.is_new:
                    self._new.add(key, reach, self._age(key))
            # setdefault: an Application that has declared something before must not appear as behind again
            self._declared_at.setdefault(key, DeclaredAt(reach.branch, ""))

    def _leave_shared(self, key: str) -> None:
        """Store that an Application leaves what others declare too; called under the lock."""
        self._leaving.add(key)
        for ref in self._declared.refs(key) & self._shared:
            for heir in self._declared.keys(ref) - {key}:
                self._left.setdefault(heir, {})[ref] = key

    def left_to(self, key: str) -> dict[ObjectRef, str]:
        """
        Return what an Application declared in common with others that are deleted with their objects, and with which.

        Each of these may have left the object to it, since it declares it, or may do so any moment. Where it is deleted
        itself before it has taken the object over, no other one would delete it. After a restart nothing is known of
        those that are gone.
        """
        with self._lock:
            return {ref: owner for ref, owner in self._left.get(key, {}).items() if owner in self._leaving}

    def record_newest(self, branch: Branch, commit: str) -> None:
        """Store which commit Git has on a branch."""
        with self._lock:
            self._newest[branch] = commit

    def newest(self, branch: Branch) -> str:
        """Return the newest commit that Git is known to have on a branch, empty when none is."""
        with self._lock:
            return self._newest.get(branch, "")

    def forget(self, key: str) -> None:
        """Remove a deleted Application."""
        with self._lock:
            self._declared_at.pop(key, None)
            self._reaches.pop(key, None)
            self._claimed.discard(key)
            self._gone.add(key)
            self._awaited.pop(key, None)
            self._left.pop(key, None)
            # with its reach, by which it is compared
            self._undeclared.discard(key)
            self._new.remove(key)
        self.set_declared(key, frozenset())
        with self._lock:
            self._declared.remove(key)
            self._children.pop(key, None)

    def declared_elsewhere(self, key: str, refs: Iterable[ObjectRef]) -> dict[ObjectRef, str]:
        """
        Return which of these objects another Application declares in Git, and which Application.

        One that is being deleted with its objects does not count: what is left to it would be left to no one.
        """
        with self._lock:
            own = self._declared.refs(key)
            # ten thousand own objects that no other declares are one set lookup each
            doubtful = [ref for ref in refs if ref not in own or ref in self._shared]
            others = {ref: self._declared.keys(ref) - self._leaving - {key} for ref in doubtful}
        # the smallest key, so that each reconcile reports the same one
        return {ref: min(keys) for ref, keys in others.items() if keys}

    def claim(self, key: str) -> dict[ObjectRef, str]:
        """
        Claim what an Application declares, before its first write; return what is left to others, and to which.

        One that has claimed an object keeps it for as long as it declares it. Of several that have not, the one that
        was created first gets it, and of those created together the first by name, in whatever order they reconcile.
        """
        with self._lock:
            # not of Agents, which plan by this too and declare nothing in Git
            if self._declared.has(key):
                self._claimed.add(key)
            holders = {ref: self._holder(ref) for ref in self._declared.refs(key) & self._shared}
            self._holders.update(holders)
        return {ref: holder for ref, holder in holders.items() if holder != key}

    def left_to_others(self, key: str) -> dict[ObjectRef, str]:
        """Return what ``claim`` would leave to others, for one that does not write here or now; nothing is decided."""
        with self._lock:
            holders = {ref: self._holder(ref) for ref in self._declared.refs(key) & self._shared}
        return {ref: holder for ref, holder in holders.items() if holder != key}

    def _holder(self, ref: ObjectRef) -> str:
        """Return whom an object is left to; called under the lock."""
        keys = self._declared.keys(ref)
        holder = self._holders.get(ref, "")
        return holder if holder in keys else min(keys, key=self._age)

    @property
    def are_complete(self) -> bool:
        """Whether every Application that follows a branch has declared its objects, so that none is awaited."""
        return not self._undeclared

    def awaited(self, key: str, unowned: Mapping[ObjectRef, str]) -> frozenset[str]:
        """
        Return the Applications that have to declare their objects before this one may claim its own.

        ``unowned`` are the objects that it would write for the first time, each with the Application whose mark it has,
        empty without one. Awaited are the owners of these marks, which may still declare them, and older Applications
        that were never reconciled and deploy to the same namespaces: who gets an object must not depend on who is
        rendered first. The Application is enqueued once the last of them has declared its objects, or has failed.
        """
        with self._lock:
            # not of Agents, which plan by this too and declare nothing in Git
            if not self._declared.has(key):
                return frozenset()
            # collected once: there may be thousands of objects, and of new Applications
            namespaces = {ref.namespace for ref in unowned}
            older = self._new.older(self._age(key), namespaces)
            awaited = older | (self._undeclared & frozenset(unowned.values())) - {key}
            if awaited:
                self._awaited[key] = set(awaited)
            else:
                self._awaited.pop(key, None)
        return frozenset(awaited)

    def settle(self, key: str) -> None:
        """Store that a reconcile of an Application has ended, also where it could declare nothing."""
        with self._lock:
            self._new.remove(key)
            due = self._no_longer_awaiting(key)
        for other in due:
            self._enqueue(other)

    def _no_longer_awaiting(self, key: str) -> list[str]:
        """Return the Applications for which an awaited one was the last; called under the lock."""
        due = []
        for other, awaited in self._awaited.items():
            if key in awaited:
                awaited.discard(key)
                if not awaited:
                    due.append(other)
        for other in due:
            del self._awaited[other]
        return due

    def _age(self, key: str) -> tuple[str, str]:
        reach = self._reaches.get(key)
        # one that is not known yet was created after all that are
        return (reach.created if reach is not None and reach.created else "~", key)

    def set_declared(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """
        Store which objects an Application declares in Git.

        The others that declare an object which it does not declare any more are enqueued: they may apply it now.
        """
        with self._lock:
            rivals = self._replace_declared(key, refs)
            self._undeclared.discard(key)
            self._new.remove(key)
            # after it is stored: those that waited for it must find it
            due = rivals.union(self._no_longer_awaiting(key))
        # without the lock: the queue has its own
        for other in due:
            self._enqueue(other)

    def _replace_declared(self, key: str, refs: frozenset[ObjectRef]) -> frozenset[str]:
        """Store the objects of an Application; return those that may apply what it gives up. Called under the lock."""
        previous = self._declared.refs(key)
        # an unchanged declaration must not enqueue the rivals, which would enqueue this one in turn
        if self._declared.has(key) and previous == refs:
            return frozenset()
        self._declared.set(key, refs)
        self._children[key] = _applications(refs)
        self._claimed.discard(key)
        self._shared.difference_update(previous - refs)
        self._shared.update(ref for ref in previous ^ refs if len(self._declared.keys(ref)) > 1)
        for ref in previous - refs:
            # one that is deleted declares nothing any more, and deletes them
            if key not in self._leaving:
                self._left.get(key, {}).pop(ref, None)
            # one that only waited for it gives up nothing; without a rival no holder needs to be kept
            if self._holders.get(ref) == key or ref not in self._shared:
                self._holders.pop(ref, None)
        for ref in (refs - previous) & self._shared:
            # it may be written at this moment by the one that has planned it alone
            claimants = self._declared.keys(ref) & self._claimed
            if ref not in self._holders and claimants:
                self._holders[ref] = min(claimants, key=self._age)
        # they were refused while two declared one object
        return frozenset[str]().union(*(self._declared.keys(ref) for ref in previous - refs))

    def record_declared(self, key: str, branch: Branch, commit: str) -> None:
        """Store that an Application has declared its objects at a commit of its branch."""
        with self._lock:
            self._declared_at[key] = DeclaredAt(branch, commit)

    def advance_declared(self, key: str, old: DeclaredAt, new: DeclaredAt) -> None:
        """Store that an Application which has declared its objects at ``old`` declares the same at ``new``."""
        with self._lock:
            # only if nothing changed since: a reconcile may have declared another commit meanwhile
            if self._declared_at.get(key) == old:
                self._declared_at[key] = new

    def is_declared_at(self, key: str, commit: str) -> bool:
        """Whether it is known what an Application declares at a commit, or that it does not follow Git now."""
        with self._lock:
            declared = self._declared_at.get(key, DeclaredAt(("", ""), ""))
            return declared is None or (declared.commit == commit and key not in self._undeclared)

    def leave_branch(self, key: str, declared: Iterable[ObjectRef] = ()) -> None:
        """
        Store that an Application does not follow Git now, because it is suspended, deleted or invalid.

        It delays no prune. Its last declaration counts, or ``declared`` where none is known.
        """
        with self._lock:
            # None and not absent: ``register`` would add an absent one as an Application that has declared nothing yet
            self._declared_at[key] = None
            is_known = self._declared.has(key)
        if not is_known:
            self.set_declared(key, frozenset(declared))

    def applications_behind(
        self, key: str, branch: Branch, commit: str, refs: Collection[ObjectRef]
    ) -> tuple[str, ...]:
        """
        Return the other Applications of a branch that may declare one of these objects at a commit of it.

        That are those which have not declared their objects at this commit, and which reach one of these. Until they
        have, one of them may take over an object that left this Application. So may one that another one declares, and
        that does not exist yet.
        """
        # Git does not declare them any more: where their files are gone too, they never declare anything
        leaving = _applications(refs)
        with self._lock:
            behind = [
                other
                for other, declared in self._declared_at.items()
                # an empty commit is of an Application that has declared nothing yet, and so is behind
                if other != key and declared is not None and declared.branch == branch
                # after a restart the newest commit is not known before one of them has polled: all of them are behind
                if not commit or declared.commit != commit
                if other not in leaving
            ]
            expected = frozenset[str]().union(
                *(children for parent, children in self._children.items() if self._follows(parent, branch))
            )
            missing = expected - self._reaches.keys() - self._gone - leaving
            return tuple(sorted({*missing, *(other for other in behind if self._may_declare(other, refs))}))

    def _follows(self, key: str, branch: Branch) -> bool:
        declared = self._declared_at.get(key)
        return declared is not None and declared.branch == branch

    def _may_declare(self, key: str, refs: Collection[ObjectRef]) -> bool:
        """
        Whether an Application may declare one of these objects at a commit that it has not declared yet.

        It is expected to declare objects where it did before and in the namespace of its destination: an Application
        that cannot be rendered must not hold the prunes of every other one of its repository.
        """
        reach = self._reaches.get(key)
        if reach is None or not self._declared.has(key):
            return True  # its manifests may name any namespace
        declared = self._declared.refs(key)
        namespaces = {reach.namespace, *(ref.namespace for ref in declared)}
        return any(ref.namespace in namespaces if ref.namespace else reach.is_cluster_scoped for ref in refs)


def _applications(refs: Iterable[ObjectRef]) -> frozenset[str]:
    """Return the Applications among some objects."""
    return frozenset(f"{ref.namespace}/{ref.name}" for ref in refs if ref.of == APPLICATION)
