"""Validate the objects of our own kinds as the controllers would read them."""

from __future__ import annotations

from gitsync.agents.systems.members import check_object
from gitsync.applicationsets.model import check_set
from gitsync.objects.application import parse_application
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest


def check_own(manifest: Manifest) -> None:
    """Raise InvalidInput that names the field of an invalid object of our kinds; others are not checked."""
    if manifest.get("apiVersion") == API_VERSION and manifest.get("kind") == "Application":
        parse_application(manifest)
    check_set(manifest)
    check_object(manifest)
