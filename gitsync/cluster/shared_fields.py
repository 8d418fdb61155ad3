"""SharedFields: equal ``metadata.managedFields`` of many objects kept once."""

from __future__ import annotations

from typing import Any

import orjson

from gitsync.objects.manifest import Manifest, metadata_of

_KEPT = 4096


class SharedFields:
    """
    Keep equal entries once, and equal ``fieldsV1`` of entries that only differ in their time.

    They are a third of the memory of a small object, and those of a kind that one manager applied are alike. Nothing
    changes an observed object, so that its parts may be shared. After ``_KEPT`` different ones it begins again.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def share(self, manifest: Manifest) -> None:
        """Replace the entries of an object by those that are kept already; keep the others."""
        meta = metadata_of(manifest)
        entries = meta.get("managedFields")
        if isinstance(entries, list):
            meta["managedFields"] = [self._kept(entry) for entry in entries]

    def _kept(self, entry: Any) -> Any:
        key = orjson.dumps(entry)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            if isinstance(entry, dict) and "fieldsV1" in entry:
                fields = entry["fieldsV1"]
                entry["fieldsV1"] = self._known.setdefault(orjson.dumps(fields), fields)
            known = self._known[key] = entry
        return known
