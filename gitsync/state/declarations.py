"""Which Application declares which objects in Git, and at which commit of its branch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from gitsync.objects.application import Application
from gitsync.objects.ref import ObjectRef
from gitsync.state.tracked import KeysByRef

Branch = tuple[str, str]
"""A repository's URL and the revision that an Application follows there."""


def branch_of(app: Application) -> Branch | None:
    """Return the branch that an Application follows, None where its spec is invalid."""
    source = app.source
    return (source.repo_url, source.revision.removeprefix("refs/heads/")) if source.repo_url else None


@dataclass(slots=True)
class DeclaredAt:
    """The commit of a branch at which Applications have declared their objects; those that move together share one."""

    branch: Branch
    commit: str


_UNKNOWN: Final = DeclaredAt(("", ""), "")
"""The branch of an Application that was not reconciled yet."""


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
        self._shared: set[ObjectRef] = set()
        """The objects that several Applications declare: a lookup for most objects ends here."""

    def register(self, keys: Iterable[str]) -> None:
        """Register all Applications before the first reconcile."""
        with self._lock:
            for key in keys:
                self._declared_at.setdefault(key, _UNKNOWN)

    def forget(self, key: str) -> None:
        """Remove a deleted Application."""
        with self._lock:
            self._declared_at.pop(key, None)
        self.set_declared(key, frozenset())
        with self._lock:
            self._declared.remove(key)

    def declared_elsewhere(self, key: str, refs: Iterable[ObjectRef]) -> dict[ObjectRef, str]:
        """Return which of these objects another Application declares in Git, and which Application."""
        with self._lock:
            own = self._declared.refs(key)
            doubtful = [ref for ref in refs if ref not in own or ref in self._shared]
            others = {ref: self._declared.keys(ref) - {key} for ref in doubtful}
        return {ref: min(keys) for ref, keys in others.items() if keys}

    def set_declared(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """
        Store which objects an Application declares in Git.

        The others that declare an object which it does not declare any more are enqueued: they may apply it now.
        """
        with self._lock:
            previous = self._declared.refs(key)
            if self._declared.has(key) and previous == refs:
                return
            self._declared.set(key, refs)
            self._shared.difference_update(previous - refs)
            self._shared.update(ref for ref in previous ^ refs if len(self._declared.keys(ref)) > 1)
            rivals = frozenset[str]().union(*(self._declared.keys(ref) for ref in previous - refs))
        # without the lock: the queue has its own
        for rival in rivals:
            self._enqueue(rival)

    def record_declared(self, key: str, branch: Branch, commit: str) -> None:
        """Store that an Application has declared its objects at a commit of its branch."""
        with self._lock:
            self._declared_at[key] = DeclaredAt(branch, commit)

    def advance_declared(self, key: str, old: DeclaredAt, new: DeclaredAt) -> None:
        """Store that an Application which has declared its objects at ``old`` declares the same at ``new``."""
        with self._lock:
            if self._declared_at.get(key) == old:
                self._declared_at[key] = new

    def leave_branch(self, key: str, declared: Iterable[ObjectRef] = ()) -> None:
        """
        Store that an Application does not follow Git now, because it is suspended, deleted or invalid.

        It delays no prune. Its last declaration counts, or ``declared`` where none is known.
        """
        with self._lock:
            self._declared_at[key] = None
            is_known = self._declared.has(key)
        if not is_known:
            self.set_declared(key, frozenset(declared))

    def applications_behind(self, key: str, branch: Branch, commit: str) -> tuple[str, ...]:
        """
        Return the other Applications of a branch that have not declared their objects at a commit of it.

        Until they have, one of them may take over an object that left this Application. Applications that were never
        reconciled count, since their branch is not known.
        """
        with self._lock:
            declared_at = list(self._declared_at.items())
        return tuple(
            sorted(
                other
                for other, declared in declared_at
                if other != key
                and declared is not None
                and (declared is _UNKNOWN or (declared.branch == branch and declared.commit != commit))
            )
        )
