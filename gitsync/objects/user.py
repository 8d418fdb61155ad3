"""Who decides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class User:
    """
    Who says so.

    ``is_known`` is whether a sign-in proved the name; only then there are ``groups``. Otherwise the name is what was
    typed.
    """

    name: str
    groups: tuple[str, ...] = ()
    is_authenticated: bool = False
