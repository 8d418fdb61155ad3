"""ApplicationSets on the dashboard: those that wait or failed on the home page, and a filter of their Applications."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.server.rows.applicationsets.problems import set_problems
from gitsync.server.visibility import VisibleSets
from tests.server.conftest import Open
from tests.server.fakes import StillSets, application

HELD = {"since": "2026-03-01T10:00:00Z"}


def stored(name: str, reason: str, status: str = "False", **more: Any) -> Manifest:
    ready = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": f"{reason} of <{name}>",
        "lastTransitionTime": "2026-03-01T11:00:00Z",
    }
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": name, "namespace": "gitsync"},
        "spec": {"generators": [{"git": {"repoURL": "https://git.example.com/shop.git"}}]},
        "status": {"conditions": [ready], **more},
    }


def test_sets_that_wait_or_failed_need_attention(site: Open) -> None:
    opened = site([application()])
    opened.engine.sets.known = [
        stored("good", "Current", "True"),
        stored("busy", "Writing"),
        stored("failed", "InvalidInput"),
        stored("held", "AwaitingApproval", heldDeletions=HELD),
    ]
    page = opened.get("/").text
    assert re.findall(r"/apps\?q=(set%3A[a-z]+)", page) == ["set%3Aheld", "set%3Afailed"]
    assert "AwaitingApproval of &lt;held&gt;" in page
    assert 'datetime="2026-03-01T10:00:00' in page
    assert "matches Git" not in page


def test_applications_are_filtered_by_their_set(site: Open) -> None:
    mine, other = application("mine"), application("other")
    assert mine.application is not None
    opened = site([replace(mine, application=replace(mine.application, set="shops")), other])
    page = opened.get("/apps?q=set:shops").text
    assert set(re.findall(r'href="/apps/gitsync/([a-z]+)"', page)) == {"mine"}


@pytest.mark.parametrize(("name", "count"), [("shops", 1), ("others", 0)])
def test_a_user_sees_the_sets_that_policies_show(name: str, count: int) -> None:
    sets = VisibleSets(StillSets([stored(name, "InvalidInput")]), lambda key: key == "gitsync/applicationset:shops")
    assert len(set_problems(sets.sets())) == count
