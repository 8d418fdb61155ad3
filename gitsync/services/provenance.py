"""Origins: where fields come from that somebody looks at, found when they ask and remembered for a while."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable

from gitsync.errors import GitsyncError
from gitsync.objects.application import Application, GitSource
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, Renderer, Source
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import FieldSelection, Traces

_log = logging.getLogger(__name__)

_KEPT = 20
"""Commits of applications whose answers are remembered."""

_PATIENCE = 2.0
"""Seconds that a page waits while another commit is traced."""

Known = dict[tuple[ObjectRef, str], tuple[FieldSetter, ...]]


class FieldProvenance:
    """
    Trace fields by rendering the commit once more, with provenance, in a process of its own.

    Syncs never pay for it, what was asked before is answered from memory, and one commit is traced at a time. Safe for
    use from several threads.
    """

    def __init__(
        self, source: Source, renderer: Renderer, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._credentials_of = credentials_of
        self._busy = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[GitSource, str], Known] = OrderedDict()

    def trace(self, app: Application, commit: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields, as far as that can be told now: no page waits long for it."""
        asked = {ref: tuple(fields) for ref, fields in wanted.items()}
        known = self._remembered((app.source, commit))
        if _missing(asked, known) and self._busy.acquire(timeout=_PATIENCE):
            try:
                known |= self._trace(app, commit, _missing(asked, known))
            finally:
                self._busy.release()
        return {
            ref: {field: known[ref, field] for field in fields if known.get((ref, field))}
            for ref, fields in asked.items()
        }

    def _trace(self, app: Application, commit: str, missing: FieldSelection) -> Known:
        """Return an answer for each field, an empty one where there is none: it is not asked for again."""
        found: Traces = {}
        try:
            if missing:
                snapshot = self._source.snapshot(app.source, self._credentials_of(app), commit)
                found = self._renderer.trace(snapshot, app.source.path, app.source.renderer, missing)
        except GitsyncError as error:
            _log.warning("the fields of %s at %s cannot be traced: %s", app.key, commit[:12], error)
        return {(ref, field): found.get(ref, {}).get(field, ()) for ref, fields in missing.items() for field in fields}

    def _remembered(self, key: tuple[GitSource, str]) -> Known:
        with self._lock:
            known = self._known.setdefault(key, {})
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return known


def _missing(asked: FieldSelection, known: Known) -> FieldSelection:
    left = {ref: [field for field in fields if (ref, field) not in known] for ref, fields in asked.items()}
    return {ref: fields for ref, fields in left.items() if fields}
