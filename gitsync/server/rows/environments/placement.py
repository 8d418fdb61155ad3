"""The environment of an agent, and what identifies the same agent in others. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gitsync.objects.manifest import Manifest, annotations_of
from gitsync.objects.ref import ref_of
from gitsync.ports import ApplicationView

ENVIRONMENT: Final = "gitsync.dev/environment"
_FOLDERS: Final = frozenset({"overlays", "environments", "envs", "clusters"})
"""Folders whose subfolders are environments."""
_ORDER: Final = (
    ("dev", "development"),
    ("test", "testing", "qa"),
    ("int", "integration"),
    ("stage", "staging", "uat"),
    ("preprod", "preproduction"),
    ("prod", "production"),
)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an agent is: its environment, and its family and name there, which are equal in all environments."""

    environment: str = ""
    family: str = ""
    name: str = ""


def placement(view: ApplicationView, manifest: Manifest) -> Placement:
    """
    Return the environment of an agent.

    That is its annotation ``gitsync.dev/environment``, else the folder of its Application below ``overlays``,
    ``environments``, ``envs`` or ``clusters``, else its namespace. Its name is without the environment as a prefix or
    suffix.
    """
    ref, source = ref_of(manifest), view.application.source if view.application is not None else None
    parts = PurePosixPath(source.path).parts if source is not None else ()
    index = next((n for n, part in enumerate(parts[:-1]) if part in _FOLDERS), None)
    folder = parts[index + 1] if index is not None else ""
    environment = annotations_of(manifest).get(ENVIRONMENT) or folder or ref.namespace
    above = "/".join(parts[:index]) if index is not None else ""
    name = ref.name.removeprefix(f"{environment}-").removesuffix(f"-{environment}")
    return Placement(environment, f"{source.repo_url if source is not None else ''} {above}", name)


def promotion_order(environment: str) -> tuple[int, str]:
    """Return the sort key of an environment: from dev to prod by the words of its name, others at the end."""
    words = set(re.split(r"[-_.]", environment.lower()))
    index = next((n for n, names in enumerate(_ORDER) if words & set(names)), len(_ORDER))
    return index, environment
