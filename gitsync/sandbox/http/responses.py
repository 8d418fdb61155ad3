"""Responses: one object or a list in the form that the client accepts, such as JSON, YAML, or a Table; warnings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.http.listing import Page, item_json
from gitsync.sandbox.http.transport.messages import Response
from gitsync.sandbox.printers.table import Printer
from gitsync.sandbox.registry.conversion import convert
from gitsync.sandbox.registry.resources import ServedResource
from gitsync.sandbox.storage import Stored

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OFFERED = f"{JSON}, {YAML}, {PROTOBUF}"

_SHAPES = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_META_VERSIONS = frozenset({"v1", "v1beta1"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """
    How to answer: the media type, and the shape (empty for the object itself).

    ``version`` is that of meta.k8s.io or apidiscovery.k8s.io the shape was asked in.
    """

    media: str = JSON
    shape: str = ""
    version: str = "v1"


@functools.lru_cache(maxsize=256)
def accepted(header: str) -> Accepted:
    """Return how to answer a resource request; raise the 406 of the API server."""
    shaped = False
    for media, params in _ranges(header):
        wanted = params.get("as", "")
        # kubectl lists several forms, the best first, and plain JSON last.
        if wanted:
            known = wanted in _SHAPES and params.get("g") == "meta.k8s.io" and params.get("v") in _META_VERSIONS
            if known and media in (JSON, "*/*", "application/*"):
                return Accepted(JSON, wanted, params["v"])
            shaped = True
            continue
        if media in ("*/*", "application/*", JSON):
            return Accepted()
        if media == YAML:
            return Accepted(YAML)
    if PROTOBUF in header and not shaped:
        return Accepted()  # bodies are read in protobuf but not written: JSON is what every client reads
    raise _not_acceptable(shaped)


@functools.lru_cache(maxsize=256)
def discovery_version(header: str) -> str:
    """Return the version of aggregated discovery the client prefers, empty for the old form."""
    for media, params in _ranges(header):
        if params.get("as") == "APIGroupDiscoveryList" and params.get("g") == "apidiscovery.k8s.io":
            if media == JSON and params.get("v") in ("v2", "v2beta1"):
                return params["v"]
        elif media in (JSON, "*/*", "application/*"):
            return ""
    return ""


def _not_acceptable(shaped: bool) -> ApiError:
    if shaped:
        return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {OFFERED}")
    return errors.not_acceptable_page(OFFERED)


def _ranges(header: str) -> list[tuple[str, dict[str, str]]]:
    ranges = []
    for part in (header or "*/*").split(","):
        media, *pairs = (piece.strip() for piece in part.split(";"))
        params = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        ranges.append((media.lower(), params))
    return ranges


META = "meta.k8s.io"
# apiserver/pkg/endpoints/filters/warning.go: truncateAtTotalRunes, and truncateItemRunes below.
MAX_WARNINGS = 4096
MAX_WARNING = 256


@dataclass(frozen=True, slots=True)
class View:
    """The shape and media type that a client asked for; ``include`` is what each row of a Table has of its object."""

    accept: Accepted
    printer: Callable[[], Printer]
    include: str = "Metadata"
    pretty: bool = False


def object_response(value: Manifest, accept: Accepted, status: int, pretty: bool = False) -> Response:
    """Return any object in the media type the client accepts."""
    if accept.media == YAML:
        return Response(status, _yaml(value), YAML)
    return Response(status, _dumps(value, pretty), JSON)


def shaped(obj: Manifest, view: View) -> Manifest:
    """Return one object in the shape the client asked for."""
    accept = view.accept
    if not accept.shape:
        return obj
    if accept.shape == "Table":
        return view.printer().table([obj], obj["metadata"].get("resourceVersion", ""), accept.version, view.include)
    return metadata_only(obj, accept.version)


def list_response(page: Page, resource: ServedResource, view: View) -> Response:
    """Return a page of a collection in the shape and media type the client asked for."""
    accept = view.accept
    pretty = view.pretty
    meta: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
        if page.remaining:
            meta["remainingItemCount"] = page.remaining
    if accept.shape == "Table":
        objects = [convert(stored.obj, resource) for stored in page.items]
        table = view.printer().table(objects, meta["resourceVersion"], accept.version, view.include)
        table["metadata"] = meta
        return Response(200, _dumps(table, pretty), JSON)
    if accept.shape:
        items = [metadata_only(stored.obj, accept.version) for stored in page.items]
        value = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"{META}/{accept.version}",
            "metadata": meta,
            "items": items,
        }
        return Response(200, _dumps(value, pretty), JSON)
    # Lists of custom resources always have the member, empty on the last page.
    if resource.custom:
        meta.setdefault("continue", "")
    body = list_json(resource, meta, [item_json(stored, resource, bare=not resource.custom) for stored in page.items])
    if accept.media == YAML:
        return Response(200, _yaml(orjson.loads(body)), YAML)
    return Response(200, _dumps(orjson.loads(body), True) if pretty else body, JSON)


def list_json(resource: ServedResource, meta: dict[str, Any], items: list[bytes]) -> bytes:
    """Return a list's JSON from that of its items."""
    # The items are joined as bytes: parsing and writing them again took most of the time of a large list.
    head = orjson.dumps({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": meta})
    return head[:-1] + b',"items":[' + b",".join(items) + b"]}"


def metadata_only(obj: Manifest, version: str) -> Manifest:
    """Return the PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{META}/{version}", "metadata": obj["metadata"]}


def watch_object(stored: Stored, resource: ServedResource, view: View, first: bool) -> bytes:
    """Return the object of a watch event; only the first Table of a watch has its column definitions."""
    if not view.accept.shape:
        return item_json(stored, resource, bare=False)
    obj = convert(stored.obj, resource)
    value = shaped(obj, view)
    if view.accept.shape == "Table" and not first:
        value.pop("columnDefinitions", None)
        # Null and not absent, after the pop that moves it to the end, as Go writes it.
        value["columnDefinitions"] = None
    return orjson.dumps(value)


def _dumps(value: Any, pretty: bool) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n" if pretty else orjson.dumps(value)


class _Dumper(yaml.CSafeDumper):
    """Write text that YAML 1.1 would read as something else in double quotes, as Go does."""


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    resolve: Any = dumper.resolve
    plain = resolve(yaml.ScalarNode, value, (True, False)) == "tag:yaml.org,2002:str"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain and value else '"')


_Dumper.add_representer(str, _text)


def _yaml(value: Any) -> bytes:
    return yaml.dump(value, Dumper=_Dumper, encoding="utf-8", sort_keys=True, width=2**30, allow_unicode=True)


def warning_header(texts: Iterable[str]) -> str:
    """Return the Warning header of some texts, each once; long ones are cut when they are too much together."""
    distinct = list(dict.fromkeys(texts))
    if sum(map(len, distinct)) > MAX_WARNINGS:
        distinct = [text[:MAX_WARNING] for text in distinct][: MAX_WARNINGS // MAX_WARNING]
    return ", ".join(warning_text(text) for text in distinct)


def warning_text(text: str) -> str:
    """Return a text quoted for a Warning header, so that it cannot end the header."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    printable = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in quoted)
    return f'299 - "{printable}"'
