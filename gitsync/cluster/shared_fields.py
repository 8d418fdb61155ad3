"""SharedFields: equal field sets of many objects kept once."""

from __future__ import annotations

from typing import Any

import orjson

from gitsync.objects.manifest import Manifest, metadata_of

_KEPT = 1024


class SharedFields:
    """
    Keep equal ``fieldsV1`` of ``metadata.managedFields`` once.

    They are a third of the memory of a small object, and those of a kind that one manager applied are alike. Nothing
    changes an observed object, so that its parts may be shared. After ``_KEPT`` different ones it begins again.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def share(self, manifest: Manifest) -> None:
        """Replace the field sets of an object by those that are kept already; keep the others."""
        for entry in metadata_of(manifest).get("managedFields") or ():
            if isinstance(entry, dict) and "fieldsV1" in entry:
                entry["fieldsV1"] = self._kept(entry["fieldsV1"])

    def _kept(self, fields: Any) -> Any:
        if len(self._known) >= _KEPT:
            self._known.clear()
        return self._known.setdefault(orjson.dumps(fields), fields)
