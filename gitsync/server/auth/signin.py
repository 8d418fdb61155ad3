"""The sign-in page."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from gitsync.server.auth.access import Access
from gitsync.server.auth.security import check_form
from gitsync.server.auth.users import session_of
from gitsync.server.pages.templates import Pages


def router(pages: Pages, access: Access) -> APIRouter:
    """Return ``/sign-in`` and ``/sign-out``."""
    routes = APIRouter()

    @routes.get("/sign-in", response_class=HTMLResponse)
    def ask(request: Request, next: str = "/") -> HTMLResponse:
        return pages.show(request, "signin.html", next=next, wrong=False, is_local=access.is_local)

    @routes.post("/sign-in", dependencies=[Depends(check_form)])
    def sign_in(request: Request, secret: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
        if wait := access.wait(request):
            raise HTTPException(429, f"Too many wrong tokens from this address: try again in {wait} s.")
        session = session_of(secret)
        if access.attempt(request, session) is None:
            return pages.show(request, "signin.html", 401, next=next, wrong=True, is_local=access.is_local)
        response = RedirectResponse(own_path(next), 303)
        access.keep(request, response, session)
        return response

    @routes.post("/sign-out", dependencies=[Depends(check_form)])
    def sign_out() -> Response:
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(access.COOKIE, path="/")
        return response

    return routes


def own_path(path: str) -> str:
    """Return the path if it leads to a page of ours, else the overview: never to another site."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"
