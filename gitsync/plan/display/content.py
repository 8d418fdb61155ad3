"""The content of objects that a step creates, replaces or deletes, as it may be shown and recorded."""

from __future__ import annotations

from typing import Any

from gitsync.objects.change import Action, Change, Difference, FieldDifference
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from gitsync.plan.mask import mask

_SERVER_METADATA = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink")


def whole_object(change: Change) -> FieldDifference | None:
    """
    Return the object as one difference where a step creates, runs or deletes it, Secret values masked.

    None where its fields tell what changes: for updates, and for generated objects that follow another one.
    """
    if change.action is Action.PRUNE and change.live is not None:
        return FieldDifference("", "", Difference.EXTRA, live=declared_content(change.live))
    is_new = change.action in (Action.CREATE, Action.HOOK) and change.follows is None
    if is_new and change.desired is not None:
        return FieldDifference("", "", Difference.GONE, desired=declared_content(change.desired))
    return None


def declared_content(manifest: Manifest) -> Manifest:
    """Return an object without its status and what only the API server sets, Secret values masked."""
    shown = {key: value for key, value in mask(manifest).items() if key != "status"}
    metadata: dict[str, Any] = {k: v for k, v in metadata_of(shown).items() if k not in _SERVER_METADATA}
    if LAST_APPLIED in annotations_of(shown):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != LAST_APPLIED}
    return {**shown, "metadata": metadata}
