"""
What the pool and its processes say to each other: frames of JSON, each after its length in four bytes.

Paths in Git need not be UTF-8; such bytes are carried as the characters that Python reads them as. A date without
quotes arrives as it was written: Kustomize would rewrite it, but a cluster must get what Git says.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from gitsync.errors import EmptyRender, GitsyncError, InvalidInput, SourceUnavailable
from gitsync.objects.ref import ObjectRef
from gitsync.render.build import Build
from gitsync.render.provenance import Setter
from gitsync.render.resource import Origin
from gitsync.render.trace import Traces, Wanted
from gitsync.render.yaml_scalars import Date

LENGTH_BYTES: Final = 4
MAX_FRAME: Final = 64 << 20
_ERRORS: Final = {kind.__name__: kind for kind in (InvalidInput, EmptyRender, SourceUnavailable)}


def frame(message: dict[str, Any]) -> bytes:
    """Return a message as it travels; raise InvalidInput when it has no JSON form or is too large."""
    try:
        body = orjson.dumps(message, default=_as_written, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except orjson.JSONEncodeError as error:
        raise InvalidInput(f"the manifests cannot be written as JSON: {error}", cure="flatten them") from error
    if len(body) > MAX_FRAME:
        raise InvalidInput(
            f"the manifests take {len(body) >> 20} MiB, the limit is {MAX_FRAME >> 20} MiB",
            cure="divide them between several applications",
        )
    return len(body).to_bytes(LENGTH_BYTES) + body


def _as_written(value: Any) -> Any:
    """Return what JSON holds for a value of a type of ours: a date as written, any other as the type it refines."""
    if isinstance(value, Date):
        return value.written
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def of_build(build: Build) -> dict[str, Any]:
    """Return a build as JSON can hold it."""
    return {
        "manifests": build.manifests,
        "files_read": [_bytes_as_text(path) for path in sorted(build.files_read)],
        "warnings": [_bytes_as_text(warning) for warning in build.warnings],
        "sources": [[_bytes_as_text(origin.file), origin.document] for origin in build.sources],
    }


def to_build(message: dict[str, Any]) -> Build:
    """Return the build that ``of_build`` wrote."""
    return Build(
        manifests=tuple(message["manifests"]),
        files_read=frozenset(map(_text_as_bytes, message["files_read"])),
        warnings=tuple(map(_text_as_bytes, message["warnings"])),
        sources=tuple(Origin(_text_as_bytes(file), document) for file, document in message["sources"]),
    )


def of_wanted(wanted: Wanted) -> dict[str, list[str]]:
    """Return fields to trace as JSON can hold them."""
    return {ref.path: list(fields) for ref, fields in wanted.items()}


def to_wanted(message: dict[str, list[str]]) -> Wanted:
    """Return the fields to trace that ``of_wanted`` wrote."""
    return {ObjectRef.from_path(path): fields for path, fields in message.items()}


def of_traces(traces: Traces) -> dict[str, Any]:
    """Return traces as JSON can hold them."""
    return {
        ref.path: {
            field: [[setter.step, _bytes_as_text(setter.where)] for setter in setters]
            for field, setters in fields.items()
        }
        for ref, fields in traces.items()
    }


def to_traces(message: dict[str, Any]) -> Traces:
    """Return the traces that ``of_traces`` wrote."""
    return {
        ObjectRef.from_path(path): {
            field: tuple(Setter(step, _text_as_bytes(where)) for step, where in setters)
            for field, setters in fields.items()
        }
        for path, fields in message.items()
    }


def of_error(error: GitsyncError) -> dict[str, str]:
    """Return an error as JSON can hold it."""
    kind = type(error).__name__
    parts = {"what": error.what, "where": error.where, "subject": error.subject, "cure": error.cure}
    return {
        "kind": kind if kind in _ERRORS else InvalidInput.__name__,
        **{name: part.encode("utf-8", "backslashreplace").decode() for name, part in parts.items()},
    }


def to_error(message: dict[str, str]) -> GitsyncError:
    """Return the error that ``of_error`` wrote."""
    kind = _ERRORS[message["kind"]]
    return kind(message["what"], where=message["where"], subject=message["subject"], cure=message["cure"])


def _bytes_as_text(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _text_as_bytes(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogateescape")
