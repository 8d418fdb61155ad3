"""Rules: what one kind adds to its schema. Each module of this package exports a table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.client import WriteContext
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.metadata import DEFAULT_CHECKS, MetadataChecks
from gitsync.sandbox.validation.names import Check, dns_subdomain

Default = Callable[[Manifest], None]
Prepare = Callable[[Manifest, Manifest | None, WriteContext], Manifest]
Validate = Callable[[Manifest, Manifest | None], list[Cause]]
FirstStatus = Callable[[Manifest], dict[str, Any]]


def _noop_keep(obj: Manifest) -> None:
    """Default nothing."""


def _unchanged(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    return new


def _no_causes(new: Manifest, old: Manifest | None) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class KindRules:
    """
    The rules of a kind; what is left out adds nothing.

    ``default`` changes a private copy. ``prepare`` sees writes of the main resource and returns what to store,
    ``prepare_status`` the same for writes of the status. ``validate`` sees the object and, on an update, the stored
    one; ``validate_status`` the same for a write of its status. ``first_status`` is the status of a new object, where
    it is not the empty one; ``status_keeps`` the metadata that a write of the status leaves alone. ``name`` checks
    metadata.name; with ``needs_resource_version`` an update must name the version that it replaces;
    ``generation_metadata`` are members of the metadata whose change is a new generation.
    """

    default: Default = _noop_keep
    prepare: Prepare = _unchanged
    validate: Validate = _no_causes
    validate_status: Validate = _no_causes
    prepare_status: Prepare = _unchanged
    first_status: FirstStatus | None = None
    status_keeps: tuple[str, ...] = ()
    name: Check = dns_subdomain
    generation: bool = False
    metadata: MetadataChecks = DEFAULT_CHECKS
    needs_resource_version: bool = False
    generation_metadata: tuple[str, ...] = ()


Kind: TypeAlias = tuple[str, str]
"""Group and kind. Where versions differ, the group of one is written with it: ``autoscaling/v1``."""

RuleTable: TypeAlias = Mapping[Kind, KindRules]
