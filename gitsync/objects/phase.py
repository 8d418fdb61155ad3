"""The phase of an Application, what the controller is doing with it, and whether objects are as Git declares them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """The values of ``status.phase``."""

    PENDING = "Pending"
    OBSERVING = "Observing"
    PLANNING = "Planning"
    AWAITING_APPROVAL = "AwaitingApproval"
    REJECTED = "Rejected"
    EXECUTING = "Executing"
    DELETING = "Deleting"
    SYNCED = "Synced"
    DRIFTED = "Drifted"
    FAILED = "Failed"
    SUSPENDED = "Suspended"

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Phase:
        """Return the phase in a status; Pending where the status has none, or one that this version does not know."""
        return next((phase for phase in cls if phase == status.get("phase")), cls.PENDING)

    @property
    def is_held(self) -> bool:
        """Whether a user has to approve the plan before it runs."""
        return self in (Phase.AWAITING_APPROVAL, Phase.REJECTED)

    @property
    def is_in_progress(self) -> bool:
        """Whether the controller is working on the Application."""
        return self in (Phase.OBSERVING, Phase.PLANNING, Phase.EXECUTING, Phase.DELETING)


class SyncStatus(StrEnum):
    """Of an Application: Synced, OutOfSync or Unknown; of one object all of them."""

    SYNCED = "Synced"
    OUT_OF_SYNC = "OutOfSync"
    UNKNOWN = "Unknown"
    MISSING = "Missing"
    TO_PRUNE = "ToPrune"
