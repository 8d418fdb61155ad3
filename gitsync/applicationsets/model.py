"""ApplicationSet: which Applications to generate, as validated models of the custom resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from gitsync.applicationsets.texts import has_parameters
from gitsync.errors import InvalidInput
from gitsync.kube.model import FreeForm, Labels, Rule, Ruled
from gitsync.objects.application import ApplicationSpec, CredentialsRef, Verification, owner_of_marks
from gitsync.objects.keys import (
    API_VERSION,
    APPLICATION_LABEL,
    APPLICATION_SET,
    APPROVE_DELETIONS,
    GIT_CHANGED,
    GIT_PUSHED,
    HOLD_PREFIX,
    MANAGED_BY,
    PINNED_FROM,
    REQUESTED_OBJECTS,
    REQUESTED_REPAIR,
    REQUESTED_SYNC,
    SET_LABEL,
    TEMPLATE_HASH,
    TRACKING_ID,
)
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of
from gitsync.objects.parsing import Section, Text, check_spec, parse_spec
from gitsync.objects.ref import ObjectRef, ref_of

_ONE_OF_TWO = "[has(self.list), has(self.git)].filter(one, one).size() == 1"
_ONE_OF_FOUR = "[has(self.list), has(self.git), has(self.matrix), has(self.merge)].filter(one, one).size() == 1"
_PATTERN = r"^[^/]+(/[^/]+)*$"

Pattern = Annotated[Text, Field(max_length=1024, pattern=_PATTERN)]
"""A path below the root of a repository, with ``*``, ``?`` and ``[...]`` inside names and ``**`` for folders."""
Fixed = Annotated[Text, Field(pattern=r"^[^{]*$")]
"""A text without parameters: Git is queried before elements are known."""


class ListGenerator(Section):
    """Elements that are written in the set."""

    elements: Annotated[tuple[FreeForm, ...], Field(strict=False, max_length=5000)] = Field(
        description="Elements; each member is a parameter, members of members are joined by a dot."
    )


class Directory(Section):
    """Folders of a repository by a pattern."""

    path: Pattern = Field(description="Path of folders, such as `apps/*`; `**` matches folders at any depth.")
    exclude: bool = Field(False, description="Whether these folders are left out, whatever other patterns match.")


class File(Section):
    """Files of a repository by a pattern."""

    path: Pattern = Field(description="Path of YAML or JSON files, such as `envs/**/config.yaml`.")
    exclude: bool = Field(False, description="Whether these files are left out, whatever other patterns match.")


class GitGenerator(Ruled):
    """Folders or files of a Git repository."""

    RULES = (Rule("has(self.directories) != has(self.files)", "set either directories or files"),)

    # without parameters: the repository is checked against policies before anything is read from it
    repo_url: Annotated[Fixed, Field(max_length=2048)] = Field(
        alias="repoURL", description="URL of the repository, as of an Application; without parameters."
    )
    revision: Annotated[Fixed, Field(max_length=256)] = Field(
        "main", description="A branch, a tag, a full commit id or a version range; without parameters."
    )
    directories: Annotated[tuple[Directory, ...], Field(strict=False, min_length=1, max_length=100)] | None = Field(
        None, description="Folders; each is an element."
    )
    files: Annotated[tuple[File, ...], Field(strict=False, min_length=1, max_length=100)] | None = Field(
        None, description="Files; each mapping in one, or in a list in one, is an element."
    )
    requeue_after_seconds: Annotated[int, Field(ge=1, le=86400)] = Field(
        180, description="Seconds between polls of Git; a push event polls at once."
    )
    path_param_prefix: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z0-9_-]*$")] = Field(
        "", description="Prefix of the parameters of the path, for a matrix of two Git generators: `PREFIX.path`."
    )
    credentials: CredentialsRef | None = Field(
        None, description="How to sign in at the Git server; absent: anonymously."
    )
    verify: Verification = Field(default_factory=Verification, description="Which commits are trusted.")


class Leaf(Ruled):
    """A generator inside a matrix or merge that is itself inside another."""

    RULES = (Rule(_ONE_OF_TWO, "set exactly one of list and git"),)

    list: ListGenerator | None = Field(None, description="Elements that are written in the set.")
    git: GitGenerator | None = Field(None, description="Folders or files of a Git repository.")


Leaves = Annotated[tuple[Leaf, ...], Field(strict=False, min_length=2, max_length=10)]
Keys = Annotated[tuple[Text, ...], Field(strict=False, min_length=1, max_length=10)]


class InnerMatrix(Section):
    """The combinations of the elements of two generators."""

    generators: Annotated[Leaves, Field(max_length=2)] = Field(
        description="Two generators; paths and elements of the second may use parameters of the first."
    )


class InnerMerge(Section):
    """Elements of the first generator, with parameters of the others."""

    merge_keys: Keys = Field(description="Parameters by which elements are matched.")
    generators: Leaves = Field(description="Generators; parameters of later ones replace those of earlier ones.")


class Inner(Ruled):
    """A generator inside a matrix or merge."""

    RULES = (Rule(_ONE_OF_FOUR, "set exactly one of list, git, matrix and merge"),)

    list: ListGenerator | None = Field(None, description="Elements that are written in the set.")
    git: GitGenerator | None = Field(None, description="Folders or files of a Git repository.")
    matrix: InnerMatrix | None = Field(None, description="The combinations of the elements of two generators.")
    merge: InnerMerge | None = Field(None, description="Elements of the first generator, with parameters of others.")


Inners = Annotated[tuple[Inner, ...], Field(strict=False, min_length=2, max_length=10)]


class Matrix(Section):
    """The combinations of the elements of two generators."""

    generators: Annotated[Inners, Field(max_length=2)] = Field(
        description="Two generators; paths and elements of the second may use parameters of the first."
    )


class Merge(Section):
    """Elements of the first generator, with parameters of the others."""

    merge_keys: Keys = Field(description="Parameters by which elements are matched.")
    generators: Inners = Field(description="Generators; parameters of later ones replace those of earlier ones.")


class Generator(Ruled):
    """What yields elements: exactly one kind."""

    RULES = (Rule(_ONE_OF_FOUR, "set exactly one of list, git, matrix and merge"),)

    list: ListGenerator | None = Field(None, description="Elements that are written in the set.")
    git: GitGenerator | None = Field(None, description="Folders or files of a Git repository.")
    matrix: Matrix | None = Field(None, description="The combinations of the elements of two generators.")
    merge: Merge | None = Field(None, description="Elements of the first generator, with parameters of others.")


class TemplateMetadata(Section):
    """Name and marks of a generated Application."""

    name: Annotated[Text, Field(max_length=253)] = Field(description="Name; unique among the elements.")
    labels: Labels = Field(default_factory=dict, description="Labels.")
    annotations: Labels = Field(default_factory=dict, description="Annotations; those that gitsync sets are rejected.")


class ApplicationTemplate(Section):
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
    template: ApplicationTemplate = Field(description="The Application of an element.")
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


_OURS = frozenset(
    {
        APPLICATION_LABEL,
        GIT_CHANGED,
        GIT_PUSHED,
        MANAGED_BY,
        PINNED_FROM,
        REQUESTED_OBJECTS,
        REQUESTED_REPAIR,
        REQUESTED_SYNC,
        SET_LABEL,
        TEMPLATE_HASH,
        TRACKING_ID,
    }
)
"""Labels and annotations by which gitsync decides: a template must not set them."""
_NAME_LIMIT = 63  # the length of the value of a label


def parse_application_set(manifest: Manifest) -> ApplicationSet:
    """Return the set of a custom resource; raise InvalidInput naming the field that has the wrong form."""
    ref = ref_of(manifest)
    meta = metadata_of(manifest)
    # before the spec: the label of the Applications would be refused only when they are written
    if len(ref.name) > _NAME_LIMIT:
        raise InvalidInput(
            f"metadata.name has {len(ref.name)} characters; the label of its Applications takes {_NAME_LIMIT}",
            object=str(ref),
            hint="choose a shorter name",
        )
    spec = parse_spec(ApplicationSetSpec, manifest.get("spec"), "spec", object=str(ref))
    _check_template(spec.template, str(ref))
    return ApplicationSet(
        ref=ref,
        uid=uid_of(manifest),
        generation=int(meta.get("generation", 0)),
        spec=spec,
        owner=owner_of_marks(manifest, ref),
        approved=annotations_of(manifest).get(APPROVE_DELETIONS, ""),
    )


def check_set(manifest: Manifest) -> None:
    """Raise InvalidInput for an ApplicationSet that is not valid; other kinds are not checked."""
    if manifest.get("apiVersion") == API_VERSION and manifest.get("kind") == APPLICATION_SET.kind:
        parse_application_set(manifest)


def _check_template(template: ApplicationTemplate, object: str) -> None:
    marks = {"labels": template.metadata.labels, "annotations": template.metadata.annotations}
    for member, values in marks.items():
        for name in values:
            if name in _OURS or name.startswith(HOLD_PREFIX):
                where = f"spec.template.metadata.{member}[{name}]"
                raise InvalidInput("is set by gitsync", location=where, object=object, hint="remove it")
    # open: a text with parameters is valid until it is filled, and each filled one is checked again
    check_spec(ApplicationSpec, template.spec, "spec.template.spec", object=object, is_open=has_parameters)
