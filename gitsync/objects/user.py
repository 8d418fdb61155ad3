"""The person behind a request, the browsers in which they are signed in, and the views that they saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode


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


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """
    A browser in which a user is signed in.

    ``id`` is the SHA-256 of what identifies the session in its cookie, which cannot be derived from it. ``owner`` is
    the name of the user, empty for the token that people share. ``address`` and ``browser`` are what the client said at
    its sign-in; they prove nothing.
    """

    id: str
    owner: str
    started: datetime
    ends: datetime
    address: str = ""
    browser: str = ""


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter (``query``) of a list (the path ``page``) that a user named."""

    name: str
    page: str
    query: str

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{self.page}?{urlencode({'q': self.query})}"
