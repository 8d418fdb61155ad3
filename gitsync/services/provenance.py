"""The provenance of fields, who wrote their lines, and the versions of their files: read on request and cached."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

from gitsync.errors import GitsyncError, InvalidInput, TransientError
from gitsync.objects.application import Application, GitSource
from gitsync.objects.manifest import at, metadata_of
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, FileVersion, Source
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.render.yaml.limits import LIMITS
from gitsync.render.yaml.reader import read_all
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
        # for one trace at a time, which takes a process and CPU time; _lock is held for moments only
        self._busy = threading.Lock()
        self._lock = threading.Lock()
        self._known: OrderedDict[_Revision, FieldTraces] = OrderedDict()
        self._authors: OrderedDict[_Revision, dict[str, Commit | None]] = OrderedDict()
        self._versions: OrderedDict[_Revision, dict[str, tuple[FileVersion, ...]]] = OrderedDict()

    def trace(self, app: Application, commit: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields, as far as they are known in time: a request does not wait long."""
        asked = {ref: tuple(fields) for ref, fields in wanted.items()}
        known = self._cached(self._known, (app.source, commit))
        # a page is shown without origins rather than late
        if _missing(asked, known) and self._busy.acquire(timeout=_WAIT):
            try:
                # missing again: the thread that held the lock may have traced the same fields
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
                commits = self._source.blame(app.source, commit, missing) if missing else {}
                # also lines without an author: they are not read again
                known |= {place: commits.get(place) for place in missing}
            # not cached: the next request tries again
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
                versions = self._source.file_versions(app.source, commit, missing) if missing else {}
                known |= {file: versions.get(file, ()) for file in missing}
            except GitsyncError as error:
                _log.warning("files of %s at %s have no known versions: %s", app.key, commit[:12], error)
            finally:
                self._busy.release()
        return {file: known.get(file, ()) for file in files}

    def _trace(self, app: Application, commit: str, missing: FieldSelection) -> FieldTraces:
        """Return a trace for each field, an empty one where there is none, so that it is not traced again."""
        traces: Traces = {}
        try:
            if missing:
                snapshot = self._source.snapshot(app.source, self._credentials_of(app), commit)
                traces = self._renderer.trace(app, snapshot, missing)
        except GitsyncError as error:
            _log.warning("the fields of %s at %s cannot be traced: %s", app.key, commit[:12], error)
            if isinstance(error, TransientError):
                return {}  # the next page asks again, when the Git server may answer
            # cached as no trace: a commit that cannot be rendered is not rendered for every page
        return {(ref, field): traces.get(ref, {}).get(field, ()) for ref, fields in missing.items() for field in fields}

    def _cached(self, cache: OrderedDict[_Revision, dict[_K, _V]], key: _Revision) -> dict[_K, _V]:
        """Return what is known of a commit, to be added to; the commits that were not asked for lately are dropped."""
        with self._lock:
            known = cache.setdefault(key, {})
            cache.move_to_end(key)
            # a thread may still add to a dict that is dropped here: only its work is lost
            while len(cache) > _KEPT:
                cache.popitem(last=False)
            return known


def _missing(asked: FieldSelection, known: FieldTraces) -> FieldSelection:
    unknown = {ref: [field for field in fields if (ref, field) not in known] for ref, fields in asked.items()}
    return {ref: fields for ref, fields in unknown.items() if fields}


# a file is parsed once for each of its versions, so that one version may cost less
_LIMITS = LIMITS._replace(bytes=64 << 10, aliases=64 << 10)
_Path = tuple[str | int, ...]
_Reader = Callable[[bytes], str | None]


@dataclass(frozen=True, slots=True)
class TextVersion:
    """A text, and the commit that wrote it."""

    commit: Commit
    text: str


def text_versions(files: Sequence[FileVersion], text: str) -> tuple[TextVersion, ...]:
    """
    Return the versions of a text, newest first, from the versions of its file, of which the newest holds it.

    Of a YAML file the document with the same kind and name is read in each version, at the same path. Empty where the
    newest version neither is nor holds the text; commits that changed only other parts of the file are left out.
    """
    read = _reader(files[0].content, text) if files else None
    versions = [
        TextVersion(version.commit, known) for version in files if read is not None and (known := read(version.content))
    ]
    older = [version.text for version in versions[1:]]
    # compared with the version before: a commit that changed other parts of the file has the same text
    return tuple(version for version, older_text in zip_longest(versions, older) if version.text != older_text)


def _reader(content: bytes, text: str) -> _Reader | None:
    """Return how to read the text from its file, None where the file has it in no way that is known."""
    if _whole(content) == text:
        return _whole
    places = [place for place in _texts(content) if place[2] == text]
    if not places:
        return None
    document, path, _ = places[0]
    return lambda other: next(
        (text_there for name, where, text_there in _texts(other) if (name, where) == (document, path)), None
    )


def _whole(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _texts(content: bytes) -> Iterator[tuple[tuple[str, str], _Path, str]]:
    """Yield the texts of a YAML file: the kind and name of their document, their path in it, and their value."""
    try:
        documents = read_all(content, limits=_LIMITS)
    # a version that was not valid YAML does not hide the others
    except InvalidInput:
        return
    for document in documents:
        is_object = isinstance(document, dict)
        name = (str(document.get("kind")), str(at(metadata_of(document), "name"))) if is_object else ("", "")
        yield from ((name, path, text) for path, text in _leaves(document, ()))


def _leaves(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = ((_key(item, index), item) for index, item in enumerate(value))
    for key, member in members:
        yield from _leaves(member, (*path, key))


def _key(item: Any, index: int) -> str | int:
    """Return the name of an item where it has one: others may be added before it."""
    name = item.get("name") if isinstance(item, dict) else None
    return f"name={name}" if isinstance(name, str) else index
