"""Count every call of a controller to its edges, and inject a failure into one of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gitsync.errors import ClusterUnavailable, RecordUnavailable, SourceUnavailable
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ref_of


class Crashed(BaseException):
    """The process is gone."""


@dataclass(frozen=True, slots=True, order=True)
class Call:
    """The nth call of its kind: to which edge, which method, on what."""

    edge: str
    method: str
    target: str
    nth: int


class FaultInjector:
    """
    All calls of one controller pass through here.

    At the call ``at``, ``times`` in a row, the ``failure`` happens: crash-before, crash-after, refused (the edge's own
    error, before anything is done), lost-reply (the same error, although it was done), or a defect before or after: an
    exception that no port declares. Any other failure is the API server's: ``at_server`` makes it fail at the call.
    After a crash every further call crashes too, in whichever thread.
    """

    def __init__(
        self,
        at: Call | None = None,
        failure: str = "",
        times: int = 1,
        at_server: Callable[[], object] = lambda: None,
    ) -> None:
        self.calls: list[Call] = []
        self.writes: list[tuple[str, str, str]] = []
        self.has_struck = False
        self._at = at
        self._failure = failure
        self._left = times
        self._at_server = at_server
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._lock = threading.Lock()
        self.is_dead = False

    def call(self, edge: str, method: str, target: str, action: Callable[[], Any]) -> Any:
        """Execute a call, or fail it before or after."""
        with self._lock:
            is_first, has_struck = not self.has_struck, self._is_next(self._count(edge, method, target))
        if is_first and has_struck:
            self._at_server()
        self._check(has_struck and self._failure == "crash-before")
        _raise_defect(has_struck and self._failure == "defect-before")
        if has_struck and self._failure == "refused":
            raise _ERRORS[edge]("away for a moment")
        done = action()
        if method in WRITES:
            self.writes.append((method, target, uid_of(done) if done else ""))
        self._check(has_struck and self._failure == "crash-after")
        _raise_defect(has_struck and self._failure == "defect-after")
        if has_struck and self._failure == "lost-reply":
            raise _ERRORS[edge]("away for a moment")
        return done

    def event(self, type: str, target: str) -> str:
        """Count an event of a watch; return its failure, empty for none."""
        with self._lock:
            return self._failure if self._is_next(self._count("watch", type, target)) else ""

    def _count(self, edge: str, method: str, target: str) -> Call:
        kind = (edge, method, target)
        now = Call(*kind, self._seen[kind])
        self._seen[kind] += 1
        self.calls.append(now)
        return now

    def _is_next(self, now: Call) -> bool:
        at = self._at
        if at is None or not self._left:
            return False
        if (now.edge, now.method, now.target) != (at.edge, at.method, at.target) or now.nth < at.nth:
            return False
        self.has_struck = True
        self._left -= 1
        return True

    def _check(self, crashes: bool) -> None:
        self.is_dead = self.is_dead or crashes
        if self.is_dead:
            raise Crashed


def _raise_defect(is_due: bool) -> None:
    if is_due:
        raise ZeroDivisionError("a defect in an adapter")


class FaultyEdge:
    """An edge behind the injector: the named methods are counted, all others pass."""

    def __init__(self, edge: str, inner: Any, injector: FaultInjector, methods: frozenset[str]) -> None:
        self._edge = edge
        self._inner = inner
        self._injector = injector
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in self._methods:
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            target = _target(name, arguments)
            return self._injector.call(self._edge, name, target, lambda: method(*arguments, **options))

        return call


def _target(method: str, arguments: tuple[Any, ...]) -> str:
    """Return what identifies a call among those of its method: the object of a request."""
    if method in ("apply", "replace", "set_managed_fields", "remove_fields"):
        manifest: Manifest = arguments[0]
        return ref_of(manifest).path
    if method == "release":
        return str(arguments[0].ref.path)
    return str(arguments[0].path) if method in ("delete", "read") else ""


WRITES = frozenset({"apply", "delete", "set_managed_fields", "remove_fields", "release"})
"""Methods that write what Git declares."""
READS = frozenset({"check", "tag", "authors", "unresolved", "review", "head"})
"""Methods that a reconcile calls each time, or that only read: the suite fails some of their calls."""


_ERRORS = {
    "api": ClusterUnavailable,
    "database": RecordUnavailable,
    "git": SourceUnavailable,
}
EDGES = {
    "api": WRITES | {"replace", "read"},
    "database": frozenset(
        {"audit", "save", "mark_failed", "keep_review", "review", "end_approval", "forget", "unresolved", "head"}
    ),
    "git": frozenset({"check", "resolve", "fetch", "tag", "authors", "snapshot", "changed_paths", "is_forward"}),
    "render": frozenset({"render"}),
}
