"""The person behind a request."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class User:
    """
    The person behind a request.

    ``is_authenticated`` is whether a sign-in proved the name; only then there are ``groups``. Otherwise the name is
    what the person typed. ``token`` is the name of the token that was used, for the audit.
    """

    name: str
    groups: tuple[str, ...] = ()
    is_authenticated: bool = False
    # not compared: the same person with another token is the same approver
    token: str = field(default="", compare=False)
