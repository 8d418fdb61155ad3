"""The sync options of one object: what its annotations request. `gitsync/plan/options.py` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


# The values are the texts of the annotation.
class Deletion(Enum):
    """Whether an object may be deleted once Git no longer declares it."""

    ALLOWED = "true"
    CONFIRM = "confirm"
    KEEP = "false"


class Reconcile(Enum):
    """How often an object is reconciled with Git."""

    ALWAYS = "true"
    ONCE = "once"
    """Created when absent, left alone afterwards."""
    NEVER = "false"


class HookPhase(Enum):
    """When a hook runs."""

    PRE_SYNC = "PreSync"
    SYNC = "Sync"
    POST_SYNC = "PostSync"
    SYNC_FAIL = "SyncFail"
    PRE_DELETE = "PreDelete"
    POST_DELETE = "PostDelete"

    @property
    def is_of_deletion(self) -> bool:
        """Whether hooks of this phase run only when the Application is deleted."""
        return self in (HookPhase.PRE_DELETE, HookPhase.POST_DELETE)


class HookDelete(Enum):
    """When a hook object is deleted."""

    SUCCEEDED = "HookSucceeded"
    FAILED = "HookFailed"
    BEFORE_CREATION = "BeforeHookCreation"


@dataclass(frozen=True, slots=True)
class Options:
    """What the annotations of one object ask for."""

    wave: int = 0
    hooks: tuple[HookPhase, ...] = ()
    hook_delete: tuple[HookDelete, ...] = ()
    prune: Deletion = Deletion.ALLOWED
    delete: Deletion = Deletion.ALLOWED
    reconcile: Reconcile = Reconcile.ALWAYS
    force: bool = False
    prune_last: bool = False
    ignore: tuple[str, ...] = ()


# One object for all manifests without such annotations, which are nearly all.
DEFAULT = Options()
