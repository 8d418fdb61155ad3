"""The provenance of fields, traced on request and cached."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable

from gitsync.errors import GitsyncError
from gitsync.objects.application import Application, GitSource
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, Source
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.sync.remotes.bases import RemoteBases

_log = logging.getLogger(__name__)

_KEPT = 20
"""The number of commits whose traces are cached."""

_TRACE_TIMEOUT = 2.0
"""Seconds that a request waits while another commit is traced."""

FieldTraces = dict[tuple[ObjectRef, str], tuple[FieldSetter, ...]]


class FieldProvenance:
    """
    Trace fields by rendering the commit again, with provenance, in a separate process.

    Syncs do not trace; traces are cached, and one commit is traced at a time. Thread-safe.
    """

    def __init__(
        self, source: Source, renderer: RemoteBases, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._credentials_of = credentials_of
        self._busy = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[GitSource, str], FieldTraces] = OrderedDict()

    def trace(self, app: Application, commit: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields, as far as they are known in time: a request does not wait long."""
        asked = {ref: tuple(fields) for ref, fields in wanted.items()}
        known = self._cached((app.source, commit))
        if _missing(asked, known) and self._busy.acquire(timeout=_TRACE_TIMEOUT):
            try:
                known |= self._trace(app, commit, _missing(asked, known))
            finally:
                self._busy.release()
        return {
            ref: {field: known[ref, field] for field in fields if known.get((ref, field))}
            for ref, fields in asked.items()
        }

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

    def _cached(self, key: tuple[GitSource, str]) -> FieldTraces:
        with self._lock:
            known = self._known.setdefault(key, {})
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return known


def _missing(asked: FieldSelection, known: FieldTraces) -> FieldSelection:
    left = {ref: [field for field in fields if (ref, field) not in known] for ref, fields in asked.items()}
    return {ref: fields for ref, fields in left.items() if fields}
