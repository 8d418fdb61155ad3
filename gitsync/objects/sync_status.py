"""Whether live objects are as Git declares them, as status, API and dashboard say."""

from __future__ import annotations

from enum import StrEnum


class SyncStatus(StrEnum):
    """Of an Application: Synced, OutOfSync or Unknown; of one object all of them."""

    SYNCED = "Synced"
    OUT_OF_SYNC = "OutOfSync"
    UNKNOWN = "Unknown"
    MISSING = "Missing"
    TO_PRUNE = "ToPrune"
