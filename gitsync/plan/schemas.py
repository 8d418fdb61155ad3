"""Find the schema of a manifest, also of one at an API version that is no longer served."""

from __future__ import annotations

from gitsync.merge.schema import Schema, Schemas
from gitsync.objects.manifest import Manifest, group_of

_STABLE = ("v1", "v2")


def kind_schema(schemas: Schemas, manifest: Manifest) -> Schema | None:
    """
    Return the schema of a manifest's kind, None when nothing is known of it.

    Where its own version is unknown, that of the same group and kind at a stable version stands in: retired versions
    of built-in kinds differ little from the one that replaced them.
    """
    api_version = str(manifest.get("apiVersion") or "")
    group, kind = group_of(api_version), str(manifest.get("kind") or "")
    for version in (api_version.rpartition("/")[2], *_STABLE):
        schema = schemas.for_kind(group, version, kind)
        if schema is not None:
            return schema
    return None
