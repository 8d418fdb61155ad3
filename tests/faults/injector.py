"""The line between an engine and its edges: it counts every call, and cuts the one that is to be struck."""

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


class Line:
    """
    All calls of one engine go through here.

    At ``struck`` the ``failure`` happens: crash-before, crash-after, refused (the edge's own error, before anything
    is done) or lost-reply (the same error, although it was done). After a crash every further call crashes too.
    """

    def __init__(self, struck: Call | None = None, failure: str = "", times: int = 1) -> None:
        self.calls: list[Call] = []
        self.writes: list[tuple[str, str, str]] = []
        self.is_struck = False
        self._struck = struck
        self._failure = failure
        self._left = times
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._lock = threading.Lock()
        self._is_dead = False

    def call(self, edge: str, method: str, target: str, action: Callable[[], Any]) -> Any:
        """Make a call, or what becomes of it."""
        with self._lock:
            is_struck = self._is_next(self._count(edge, method, target))
        self._check(is_struck and self._failure == "crash-before")
        if is_struck and self._failure == "refused":
            raise _ERRORS[edge]("away for a moment")
        done = action()
        if method in ("apply", "delete"):
            self.writes.append((method, target, uid_of(done) if done else ""))
        self._check(is_struck and self._failure == "crash-after")
        if is_struck and self._failure == "lost-reply":
            raise _ERRORS[edge]("away for a moment")
        return done

    def notice(self, type: str, target: str) -> str:
        """Take note of what a watch says; return what becomes of it, empty for nothing."""
        with self._lock:
            return self._failure if self._is_next(self._count("watch", type, target)) else ""

    def _count(self, edge: str, method: str, target: str) -> Call:
        kind = (edge, method, target)
        now = Call(*kind, self._seen[kind])
        self._seen[kind] += 1
        self.calls.append(now)
        return now

    def _is_next(self, now: Call) -> bool:
        struck = self._struck
        if struck is None or not self._left:
            return False
        if (now.edge, now.method, now.target) != (struck.edge, struck.method, struck.target) or now.nth < struck.nth:
            return False
        self.is_struck = True
        self._left -= 1
        return True

    def _check(self, crashes: bool) -> None:
        self._is_dead = self._is_dead or crashes
        if self._is_dead:
            raise Crashed


class Struck:
    """An edge behind the line: the named methods are calls, all else passes."""

    def __init__(self, edge: str, inner: Any, line: Line, methods: frozenset[str]) -> None:
        self._edge = edge
        self._inner = inner
        self._line = line
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in self._methods:
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            target = _target(name, arguments)
            return self._line.call(self._edge, name, target, lambda: method(*arguments, **options))

        return call


def _target(method: str, arguments: tuple[Any, ...]) -> str:
    """Return what tells a call from its like: the object of a request."""
    if method in ("apply", "replace"):
        manifest: Manifest = arguments[0]
        return ref_of(manifest).path
    return str(arguments[0].path) if method in ("delete", "read") else ""


_ERRORS = {"api": ClusterUnavailable, "database": RecordUnavailable, "git": SourceUnavailable}
EDGES = {
    "api": frozenset({"apply", "delete", "replace", "read"}),
    "database": frozenset({"audit", "save", "end_approval", "forget"}),
    "git": frozenset({"resolve", "snapshot", "changed_paths", "is_forward"}),
}
