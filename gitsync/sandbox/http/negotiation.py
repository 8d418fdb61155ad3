"""Content negotiation: what the client accepts, and in which shape."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gitsync.sandbox import errors
from gitsync.sandbox.errors import ApiError

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
