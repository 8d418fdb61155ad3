"""The context of a request for the write pipeline: everything besides its object."""

from __future__ import annotations

from dataclasses import dataclass, field

from gitsync.sandbox.users import User


@dataclass(slots=True)
class Context:
    """
    Who writes, and how. ``warnings`` collects what the answer's Warning headers will say.

    ``validation`` is the fieldValidation level; ``duplicates`` the duplicate keys the body had.
    """

    user: User
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    duplicates: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
