"""Text from outside is shown as text, wherever it stands."""

from __future__ import annotations

import re
from urllib.parse import quote

import orjson
import pytest

from gitsync.objects.health import Health
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from tests.conformance_data import suite
from tests.review_factories import keep, rejection
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, changed, resource

REPOSITORY = "https://git.example.com/shop.git"
"""The one address of another host that a page links: that of the source, which its Application declares."""
OWN = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "javascript:alert(1)",
    "\x1b[31mred",
    "safe\u202egnp.exe",
    "{{7*7}}",
    "a\u0000b",
]
PAGES = ("", "?view=tree", "?view=graph", "/plan", "/diff", "/diff?mode=unified", "/history", "/history/1", "/events")


def check(open_site: Open, text: str) -> None:
    """Put the text into every field that Git, the cluster or a user controls, and check every page."""
    differences = (changed(text, text, text),)
    trouble = {"health": Health.DEGRADED, "message": text, "problem": text}
    bad = resource(text, sync="OutOfSync", differences=differences, **trouble)
    view = application("shop", [bad], message=text, author=text, ready=text, held=(text,))
    opened = open_site([view])
    failed, commit = Outcome.FAILED, Commit("c" * 40, author=text, message=text)
    step = Step("/ConfigMap/shop/a", "update", "Safe", text, failed, text, ({"path": text, "live": text},))
    people = {"initiator": text, "approver": text, "explanation": text, "message": text, "steps": (step,)}
    opened.engine.records.save(SyncRecord(view.key, commit, "commit", NOW, 5, failed, "Safe", "d", **people))
    link = AuditRecord(
        view.key, "update", f"/ConfigMap/shop/{text}", failed, NOW, "s", text, approver=text, message=text
    )
    opened.engine.records.audit([link])
    opened.engine.view.happen(view.key)
    keep(opened.engine.records, view.key, "d" * 64, rejection(text, text))
    query = quote(text)
    wide = [
        "/changes",
        "/changes/compare",
        "/drift",
        "/objects",
        "/wall",
        "/agents",
        "/agents/environments",
        f"/search?q={query}",
    ]
    of_object = [f"/object?ref={quote(bad.ref.path)}", "/suspend"]
    paths = [
        "/",
        "/apps",
        "/approvals",
        "/audit",
        *wide,
        *(f"/apps/gitsync/shop{page}" for page in (*PAGES, *of_object)),
    ]
    for path in paths:
        answer = opened.get(path)
        assert answer.status == 200, path
        assert "49" not in re.findall(r">(\d+)<", answer.text) or "{{" not in text
        for mark in ("<img src=x", "<script>alert", 'onmouseover="', "\x1b", "\u202e", "\x00"):
            assert mark not in answer.text, (path, mark)
        for link in re.findall(r'(?:href|action|formaction|src)="([^"]*)"', answer.text):
            assert link.startswith(("/", "?", "#")) or link == REPOSITORY, (path, link)


@pytest.mark.parametrize("text", OWN)
def test_hostile_text_is_only_text(site: Open, text: str) -> None:
    check(site, text)


def test_the_hostile_texts_of_the_bad_inputs_are_only_text(site: Open) -> None:
    cases = orjson.loads((suite("badinput") / "cases.json").read_bytes())["cases"]
    case = next(case for case in cases if case["name"] == "web-hostile-text")
    for text in case["values"]:
        check(site, text)


def test_hostile_addresses_are_only_text(site: Open) -> None:
    opened = site([application()])
    for path in ("/apps?q=%3Cscript%3Ealert(1)", "/audit?app=%22%3E%3Cscript%3Ealert(1)", "/%3Cscript%3Ealert(1)"):
        assert "<script>alert" not in opened.get(path).text
    assert opened.get("/apps?q=%E2%80%AE").text.count("\u202e") == 0
