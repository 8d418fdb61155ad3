"""ApplicationSet: which Applications to generate, as validated models of the custom resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from gitsync.applicationsets.model.generators import Generator
from gitsync.kube.model import FreeForm, Labels
from gitsync.objects.parsing import Section, Text
from gitsync.objects.ref import ObjectRef


class TemplateMetadata(Section):
    """Name and marks of a generated Application."""

    name: Annotated[Text, Field(max_length=253)] = Field(description="Name; unique among the elements.")
    labels: Labels = Field(default_factory=dict, description="Labels.")
    annotations: Labels = Field(default_factory=dict, description="Annotations; those that gitsync sets are rejected.")


class Template(Section):
    """The Application of an element: each text may have parameters."""

    metadata: TemplateMetadata = Field(description="Name, labels and annotations.")
    spec: FreeForm = Field(description="Spec of the Application; `{{name}}` in a text is a parameter of the element.")


class SetSyncPolicy(Section):
    """What happens to Applications whose element changed or is gone."""

    applications_sync: Literal["create-only", "create-update", "create-delete", "sync"] = Field(
        "sync", description="Which changes of Applications are made: `sync` creates, updates and deletes."
    )
    preserve_resources_on_deletion: bool = Field(
        False, description="Whether the objects of an Application stay when it is deleted, with the set or without."
    )
    max_delete_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        25,
        description="Largest share of the Applications that a change deletes without approval; a deletion of all always"
        " waits.",
    )


class ApplicationSetSpec(Section):
    """The spec of an ApplicationSet."""

    generators: Annotated[tuple[Generator, ...], Field(strict=False, min_length=1, max_length=20)] = Field(
        description="What yields elements; each element of each generator becomes one Application."
    )
    template: Template = Field(description="The Application of an element.")
    sync_policy: SetSyncPolicy = Field(
        default_factory=SetSyncPolicy, description="What happens to Applications whose element changed or is gone."
    )


@dataclass(frozen=True, slots=True)
class ApplicationSet:
    """
    One ApplicationSet custom resource: its identity and its validated spec.

    ``owner`` is the key of the Application that applied it from Git, empty where a user applied it. ``approved`` is
    the id of the deletions that a user approved.
    """

    ref: ObjectRef
    uid: str
    generation: int
    spec: ApplicationSetSpec
    owner: str = ""
    approved: str = ""
