"""A dashboard of two replicas behind one address is used as one is; ``make replicas`` runs the whole suites so."""

from __future__ import annotations

from gitsync.objects.change import Risk
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, resource

TOKEN = "a token of many characters, which people share"
PLAN = "/apps/gitsync/shop/plan"
DIGEST = "d" * 64
TRIES = 12
"""Requests, of which each replica answers some."""


def signed_in(opened: Site) -> dict[str, str]:
    """Sign in as a browser does, and return its cookies."""
    cookie = opened.post("/sign-in", {"secret": TOKEN}).headers["set-cookie"].partition(";")[0]
    return {"Cookie": f"{opened.form_cookie}; {cookie}"}


def test_a_session_is_valid_at_both(site: Open) -> None:
    opened = site([application()], token=TOKEN, are_two=True)
    assert opened.get("/").status == 401
    headers = signed_in(opened)
    assert {opened.get("/", **headers).status for _ in range(TRIES)} == {200}


def test_a_page_and_its_form_may_be_of_different_replicas(site: Open) -> None:
    changed = resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)
    opened = site([application(resources=[changed], held=("1 step waits",))], token=TOKEN, are_two=True)
    headers = signed_in(opened)
    assert {"Submit review" in opened.get(PLAN, **headers).text for _ in range(TRIES)} == {True}
    fields = {"decision": "approve", "digest": DIGEST, "by": "ada"}
    assert opened.post("/apps/gitsync/shop/review", fields, **headers).status == 303
    review = opened.engine.records.review("gitsync/shop", DIGEST, NOW)
    assert review is not None
    assert review.approves
