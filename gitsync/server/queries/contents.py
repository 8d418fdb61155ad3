"""What pages show of whole objects that a step creates or deletes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.objects.change import ABSENT, Change
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Step
from gitsync.plan.display import whole_object
from gitsync.server.formatting import visible

_PAGE = 60_000
_LEAST = 1500
"""Characters of content on one page, and of one object at least."""


@dataclass(frozen=True, slots=True)
class Content:
    """The manifest of an object as YAML; ``mark`` is ``+`` for a created and ``-`` for a deleted one."""

    mark: str
    text: str
    hidden_lines: int = 0


def content_of(change: Change, objects: int = 1) -> Content | None:
    """Return the content of the object that a step creates or deletes, cut so that many fit one page."""
    whole = whole_object(change)
    if whole is None:
        return None
    return _content(whole.live if whole.desired is ABSENT else whole.desired, whole.desired is ABSENT, objects)


def recorded_content(step: Step, objects: int = 1) -> Content | None:
    """Return the content that history keeps of a created or deleted object."""
    whole = next((item for item in step.differences if not item.get("path")), None)
    if whole is None:
        return None
    is_deleted = whole.get("desired") is None
    return _content(whole["live"] if is_deleted else whole["desired"], is_deleted, objects)


def manifest_text(manifest: Manifest) -> str:
    """Return a manifest as YAML with invisible characters escaped."""
    from gitsync.render.yaml.writer import write

    return visible(write(manifest))


def _content(manifest: Manifest, is_deleted: bool, objects: int) -> Content:
    text = manifest_text(manifest)
    limit = max(_PAGE // max(objects, 1), _LEAST)
    shown = text[:limit]
    return Content("-" if is_deleted else "+", shown.rstrip("\n"), text[limit:].count("\n"))
