"""The generators of an ApplicationSet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gitsync.kube.model import FreeForm, Rule, Ruled
from gitsync.objects.application import Credentials, Verification
from gitsync.objects.parsing import Section, Text

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
    credentials: Credentials | None = Field(None, description="How to sign in at the Git server; absent: anonymously.")
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
