"""The schemas of the built-in kinds."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from gitsync.kube import openapi
from gitsync.merge.schema import Schema, Schemas


@functools.cache
def builtin() -> Schemas:
    """Return the built-in schemas, read once and compiled as they are used."""
    return Schemas(openapi.schemas())


def schema_from_crd(schema: Mapping[str, Any]) -> Schema:
    """Compile the ``openAPIV3Schema`` of one version of a CRD, with the built-in metadata."""
    return builtin().from_crd(schema)
