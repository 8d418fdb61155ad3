"""The provenance of fields, who wrote their lines, and the versions of their files: read on request and cached."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from gitsync.errors import GitsyncError
from gitsync.objects.application import Application, GitSource
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, FileVersion, Source
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.sync.remote_bases import RemoteBases

_log = logging.getLogger(__name__)

_KEPT = 20
"""The number of commits whose traces are cached."""

_WAIT = 2.0
"""Seconds that a request waits while another one traces or reads authors."""

FieldTraces = dict[tuple[ObjectRef, str], tuple[FieldSetter, ...]]
_Revision = tuple[GitSource, str]
_K = TypeVar("_K")
_V = TypeVar("_V")


class FieldProvenance:
    """
    Trace fields by rendering the commit again, with provenance, in a separate process.

    Syncs do not trace; traces are cached, and one commit is traced at a time. So are the authors of lines and the
    versions of files. Thread-safe.
    """

    def __init__(
        self, source: Source, renderer: RemoteBases, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._credentials_of = credentials_of
        self._busy = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[_Revision, FieldTraces] = OrderedDict()
        self._authors: OrderedDict[_Revision, dict[str, Commit | None]] = OrderedDict()
        self._versions: OrderedDict[_Revision, dict[str, tuple[FileVersion, ...]]] = OrderedDict()

    def trace(self, app: Application, commit: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields, as far as they are known in time: a request does not wait long."""
        asked = {ref: tuple(fields) for ref, fields in wanted.items()}
        known = self._cached(self._known, (app.source, commit))
        if _missing(asked, known) and self._busy.acquire(timeout=_WAIT):
            try:
                known |= self._trace(app, commit, _missing(asked, known))
            finally:
                self._busy.release()
        return {
            ref: {field: known[ref, field] for field in fields if known.get((ref, field))}
            for ref, fields in asked.items()
        }

    def authors(self, app: Application, commit: str, places: Collection[str]) -> Mapping[str, Commit]:
        """Return the commits that wrote lines (``file:line``) of a traced commit, as far as they are known in time."""
        known = self._cached(self._authors, (app.source, commit))
        if set(places) - known.keys() and self._busy.acquire(timeout=_WAIT):
            try:
                missing = set(places) - known.keys()
                found = self._source.blame(app.source, commit, missing) if missing else {}
                known |= {place: found.get(place) for place in missing}
            except GitsyncError as error:
                _log.warning("the authors of %s at %s cannot be read: %s", app.key, commit[:12], error)
            finally:
                self._busy.release()
        authors = {place: known.get(place) for place in places}
        return {place: author for place, author in authors.items() if author is not None}

    def file_versions(
        self, app: Application, commit: str, files: Collection[str]
    ) -> Mapping[str, Sequence[FileVersion]]:
        """Return the latest versions of files as of a traced commit, newest first, as far as they are known in time."""
        known = self._cached(self._versions, (app.source, commit))
        if set(files) - known.keys() and self._busy.acquire(timeout=_WAIT):
            try:
                missing = set(files) - known.keys()
                found = self._source.file_versions(app.source, commit, missing) if missing else {}
                known |= {file: found.get(file, ()) for file in missing}
            except GitsyncError as error:
                _log.warning("files of %s at %s have no known versions: %s", app.key, commit[:12], error)
            finally:
                self._busy.release()
        return {file: known.get(file, ()) for file in files}

    def _trace(self, app: Application, commit: str, missing: FieldSelection) -> FieldTraces:
        """Return a trace for each field, an empty one where there is none, so that it is not traced again."""
        found: Traces = {}
        try:
            if missing:
                snapshot = self._source.snapshot(app.source, self._credentials_of(app), commit)
                found = self._renderer.trace(app, snapshot, missing)
        except GitsyncError as error:
            _log.warning("the fields of %s at %s cannot be traced: %s", app.key, commit[:12], error)
        return {(ref, field): found.get(ref, {}).get(field, ()) for ref, fields in missing.items() for field in fields}

    def _cached(self, cache: OrderedDict[_Revision, dict[_K, _V]], key: _Revision) -> dict[_K, _V]:
        """Return what is known of a commit, to be added to; the commits that were not asked for lately are dropped."""
        with self._lock:
            known = cache.setdefault(key, {})
            cache.move_to_end(key)
            while len(cache) > _KEPT:
                cache.popitem(last=False)
            return known


def _missing(asked: FieldSelection, known: FieldTraces) -> FieldSelection:
    left = {ref: [field for field in fields if (ref, field) not in known] for ref, fields in asked.items()}
    return {ref: fields for ref, fields in left.items() if fields}
