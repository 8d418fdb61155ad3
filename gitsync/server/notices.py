"""What became of a request, shown once on the page that follows it."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from fastapi.responses import Response

_COOKIE = "gitsync-notice"
_SECONDS = 30

NOTICES: Final = {
    "sync": "Sync requested. The page shows its progress.",
    "suspend": "Suspend requested.",
    "resume": "Resume requested.",
    "revert": "Revert commit pushed.",
    "approve": "Plan approved.",
    "approve-selected": "The selected steps are approved. The others become a plan of their own.",
    "reject": "Plan rejected.",
}


def leave_notice(response: Response, action: str) -> None:
    """Make the next page say that an action was requested."""
    response.set_cookie(_COOKIE, action, max_age=_SECONDS, httponly=True, samesite="strict")


def take_notice(request: Request) -> str:
    """Return the notice of the page that a request asks for, empty when there is none."""
    return NOTICES.get(request.cookies.get(_COOKIE, ""), "")


def drop_notice(request: Request, response: Response) -> None:
    """Remove the notice: the page of this response shows it."""
    if _COOKIE in request.cookies:
        response.delete_cookie(_COOKIE, httponly=True, samesite="strict")
