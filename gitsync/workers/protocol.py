"""
What the pool and its processes send to each other: frames of JSON, each after its length in four bytes.

Paths in Git need not be UTF-8; such bytes are carried as the characters that Python reads them as. A date without
quotes arrives as it was written: Kustomize would rewrite it, but a cluster must get what Git says.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from gitsync.errors import EmptyRender, FileNotFetched, GitsyncError, InvalidInput, RemoteNeeded, SourceUnavailable
from gitsync.objects.charts import ChartOptions, ClusterValues
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.render.build import Build
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.render.resources.resource import Origin
from gitsync.render.yaml.scalars import Date

LENGTH_BYTES: Final = 4
# a length prefix from a process that renders untrusted files must not make the controller allocate without limit
MAX_FRAME: Final = 64 << 20
OUT_OF_MEMORY: Final = 77
"""The exit code of a process that reached its limit of memory outside a render."""
_ERRORS: Final = {
    kind.__name__: kind for kind in (InvalidInput, EmptyRender, RemoteNeeded, SourceUnavailable, FileNotFetched)
}


def frame(message: dict[str, Any]) -> bytes:
    """Return a message as it travels; raise InvalidInput when it has no JSON form or is too large."""
    try:
        body = orjson.dumps(message, default=_as_written, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except orjson.JSONEncodeError as error:
        raise InvalidInput(f"the manifests cannot be written as JSON: {error}", hint="flatten them") from error
    if len(body) > MAX_FRAME:
        raise InvalidInput(
            f"the manifests take {len(body) >> 20} MiB, the limit is {MAX_FRAME >> 20} MiB",
            hint="divide them between several applications",
        )
    return len(body).to_bytes(LENGTH_BYTES) + body


def as_received(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as the receiver of its frame reads it: with the types of JSON alone."""
    received: dict[str, Any] = orjson.loads(frame(message)[LENGTH_BYTES:])
    return received


def _as_written(value: Any) -> Any:
    """Return what JSON holds for a value of a type of ours: a date as written, any other as the type it refines."""
    if isinstance(value, Date):
        return value.written
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def of_build(build: Build, previous: Build | None = None) -> dict[str, Any]:
    """
    Return a build as JSON can hold it.

    Of what the receiver has from the build ``before``, only the position there travels: ``kept`` has one for each
    manifest, or -1 for the next of those that are sent.
    """
    # By identity: the cache returns the identical manifest where nothing changed.
    positions = {id(manifest): position for position, manifest in enumerate(previous.manifests)} if previous else {}
    kept = [positions.get(id(manifest), -1) for manifest in build.manifests]
    if previous:
        kept = [
            position if position >= 0 and previous.sources[position] == origin else -1
            for position, origin in zip(kept, build.sources, strict=True)
        ]
    sent = [number for number, position in enumerate(kept) if position < 0]
    is_same = previous is not None and previous.files_read == build.files_read
    return {
        "kept": kept,
        "manifests": [build.manifests[number] for number in sent],
        "sources": [[bytes_as_text(build.sources[number].file), build.sources[number].document] for number in sent],
        "files_read": None if is_same else [bytes_as_text(path) for path in sorted(build.files_read)],
        "warnings": [bytes_as_text(warning) for warning in build.warnings],
        "chart": build.chart and of_chart(build.chart),
    }


def to_build(message: dict[str, Any], previous: Build | None = None) -> Build:
    """Return the build that ``of_build`` wrote; what was kept is the very same object as in the build ``before``."""
    _share_texts(message["manifests"])
    manifests = iter(message["manifests"])
    sources = iter(message["sources"])
    parts = [
        (next(manifests), _origin(*next(sources)))
        if position < 0 or previous is None
        else (previous.manifests[position], previous.sources[position])
        for position in message["kept"]
    ]
    files_read = message["files_read"]
    return Build(
        manifests=tuple(manifest for manifest, _ in parts),
        files_read=previous.files_read
        if files_read is None and previous
        else frozenset(map(text_as_bytes, files_read)),
        warnings=tuple(map(text_as_bytes, message["warnings"])),
        sources=tuple(origin for _, origin in parts),
        chart=to_chart(message["chart"]) if message.get("chart") else None,
    )


def shared_build(build: Build, former: Build) -> Build:
    """Return a build with the identical manifests of a former one where they are equal."""
    known = {ref_of(manifest): manifest for manifest in former.manifests}

    def kept(manifest: Manifest) -> Manifest:
        former_one = known.get(ref_of(manifest))
        # as JSON: Python takes 1, 1.0 and true for equal
        return former_one if former_one and orjson.dumps(former_one) == orjson.dumps(manifest) else manifest

    return build._replace(manifests=tuple(map(kept, build.manifests)))


_SHARED_LENGTH: Final = 64
"""Characters: longer texts are hardly ever equal, and finding that out takes longer."""


def _share_texts(value: Any) -> None:
    """
    Replace equal short texts in a value that was parsed, which is changed in place, by one object each.

    Images, ports, policies and labels are the same in many objects, and a text of one character takes 50 bytes. Names
    of members are shared by the parser.
    """
    items = value.items() if type(value) is dict else enumerate(value)
    for key, item in items:
        if type(item) is str:
            if len(item) <= _SHARED_LENGTH:
                # of the whole process; one that nothing uses any more is forgotten
                value[key] = sys.intern(item)
        elif type(item) is dict or type(item) is list:
            _share_texts(item)


def _origin(file: str, document: int) -> Origin:
    return Origin(text_as_bytes(file), document)


def of_wanted(wanted: FieldSelection) -> dict[str, list[str]]:
    """Return fields to trace as JSON can hold them."""
    return {ref.path: list(fields) for ref, fields in wanted.items()}


def to_wanted(message: dict[str, list[str]]) -> FieldSelection:
    """Return the fields to trace that ``of_wanted`` wrote."""
    return {ObjectRef.from_path(path): fields for path, fields in message.items()}


def of_traces(traces: Traces) -> dict[str, Any]:
    """Return traces as JSON can hold them."""
    return {
        ref.path: {
            field: [[setter.step, bytes_as_text(setter.where)] for setter in setters]
            for field, setters in fields.items()
        }
        for ref, fields in traces.items()
    }


def to_traces(message: dict[str, Any]) -> Traces:
    """Return the traces that ``of_traces`` wrote."""
    return {
        ObjectRef.from_path(path): {
            field: tuple(FieldSetter(step, text_as_bytes(where)) for step, where in setters)
            for field, setters in fields.items()
        }
        for path, fields in message.items()
    }


def of_error(error: GitsyncError) -> dict[str, str]:
    """Return an error as JSON can hold it."""
    kind = type(error).__name__
    parts = {"message": error.message, "location": error.location, "object": error.object, "hint": error.hint}
    if isinstance(error, RemoteNeeded):
        parts["reference"] = error.reference
    if isinstance(error, FileNotFetched):
        parts |= {"git_dir": error.git_dir, "id": error.id}
    return {
        # an unknown kind is an error of the input: retrying what was rendered gives the same
        "kind": kind if kind in _ERRORS else InvalidInput.__name__,
        **{name: part.encode("utf-8", "backslashreplace").decode() for name, part in parts.items()},
    }


def to_error(message: dict[str, str]) -> GitsyncError:
    """Return the error that ``of_error`` wrote."""
    kind = _ERRORS[message["kind"]]
    error = kind(message["message"], location=message["location"], object=message["object"], hint=message["hint"])
    if isinstance(error, RemoteNeeded):
        error.reference = message["reference"]
    if isinstance(error, FileNotFetched):
        error.git_dir = message["git_dir"]
        error.id = message["id"]
    return error


def bytes_as_text(text: str) -> str:
    """Return a text that JSON holds for a path whose bytes need not be UTF-8."""
    # JSON holds no lone surrogates, so each byte travels as a character of its own.
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def text_as_bytes(text: str) -> str:
    """Return the path that ``bytes_as_text`` wrote."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


_KEPT: Final = 64
"""Applications; the one that was not built for longest is forgotten first."""


class Built(NamedTuple):
    """What a commit was built to."""

    commit: str
    build: Build


class BuildHistory:
    """Keep the last build of each folder of a repository, as requests name it."""

    def __init__(self) -> None:
        self._built: OrderedDict[tuple[str, ...], Built] = OrderedDict()

    def last(self, request: dict[str, Any]) -> Built | None:
        """Return the last build of what a request asks for."""
        return self._built.get(_key(request))

    def keep(self, request: dict[str, Any], build: Build) -> None:
        """Take a build for the last one."""
        key = _key(request)
        self._built[key] = Built(request["commit"], build)
        self._built.move_to_end(key)
        if len(self._built) > _KEPT:
            self._built.popitem(last=False)

    def forget(self, request: dict[str, Any]) -> Build | None:
        """Forget the last build of what a request asks for, and return it."""
        last = self._built.pop(_key(request), None)
        return last.build if last is not None else None


def folder_of(request: dict[str, Any]) -> dict[str, Any]:
    """Return the folder that a request names, as a request that forgets it names it."""
    return {
        "chart": None,
        **{name: request[name] for name in ("git_dir", "path", "renderer", "chart") if name in request},
    }


def _key(request: dict[str, Any]) -> tuple[str, ...]:
    return request["git_dir"], request["path"], request["renderer"], repr(request.get("chart"))


def of_chart(options: ChartOptions) -> list[Any]:
    """Return the options of a chart as JSON can hold them."""
    members: list[Any] = list(options)
    # as lists: JSON holds no tuples with names
    return [[list(item) for item in member] if member is options.cluster_values else member for member in members]


def to_chart(message: Sequence[Any]) -> ChartOptions:
    """Return the options of a chart, as ``of_chart`` wrote them; those that are absent have their defaults."""
    options = ChartOptions(*message)
    return options._replace(
        value_files=tuple(options.value_files),
        api_versions=tuple(options.api_versions),
        cluster_values=tuple(ClusterValues(*item) for item in options.cluster_values),
    )
