"""Who may sign commits: keys, and the files whose changes they may sign."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from pydantic import Field

from gitsync.objects.parsing import Spec, Strings
from gitsync.objects.patterns import matches


class Signer(Spec):
    """Keys that may sign changes of some files."""

    keys: Strings = Field(
        min_length=1,
        description="Public keys: armored OpenPGP keys, SSH keys, or lines of an SSH `allowed_signers` file, whose"
        " validity times count; PEM keys of cosign for artifacts.",
    )
    paths: Strings = Field(
        ("*",),
        description="Files of the repository whose changes these keys may sign; `*` matches `/` too; absent: all. An"
        " artifact is signed as a whole, so that its keys have to cover all its files.",
    )
    tags: bool = Field(
        False,
        description="Whether the signature of the annotated tag that `source.revision` names counts for all its"
        " commits.",
    )

    users: Strings = Field(
        (),
        description="Users who hold these keys, as they sign in: `notAuthor` counts them as authors of what the keys"
        " signed, whatever names its commits have.",
    )

    def unsigned(self, paths: Iterable[str]) -> frozenset[str]:
        """Return those of some files whose changes these keys may not sign."""
        return frozenset(path for path in paths if not any(matches(path, pattern) for pattern in self.paths))


Trust: TypeAlias = tuple[tuple[Signer, ...], ...]
"""Sets of signers, one of each of which has to sign: those of the Application, and those of each policy."""
