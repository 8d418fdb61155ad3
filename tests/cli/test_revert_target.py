"""Which source of several a rollback reverts, and to which commit."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.cli.requests import find_revert_target
from gitsync.errors import GitsyncError
from gitsync.objects.application import parse_application
from gitsync.objects.manifest import Manifest
from gitsync.services.revert import revert_target

CHART = {"name": "web", "repoURL": "https://charts.example.com/stable", "chart": "web", "revision": "1.x"}
VALUES = {"name": "values", "repoURL": "https://git.example.com/values.git"}
EXTRA = {"name": "extra", "repoURL": "https://git.example.com/deploy.git", "path": "prod"}


def joined(number: int, **commits: str) -> dict[str, Any]:
    """Return the entry of a sync of these commits, each of one letter."""
    names = [{"name": name, "commit": letter * 40} for name, letter in commits.items()]
    return {"id": number, "revision": f"{number}" * 40, "sources": names}


FIRST = joined(1, web="a", values="a", extra="a")
VALUES_CHANGED = joined(2, web="a", values="b", extra="a")
EXTRA_CHANGED = joined(3, web="a", values="b", extra="b")
CHART_CHANGED = joined(4, web="b", values="b", extra="b")
SYNCS = (FIRST, VALUES_CHANGED, EXTRA_CHANGED, CHART_CHANGED)


def manifest(syncs: int) -> Manifest:
    """Return an Application after a number of syncs."""
    done = [*reversed(SYNCS[:syncs])]
    revision = {"fetched": done[0]["revision"], "sources": done[0]["sources"]} if done else {}
    return {
        "metadata": {"name": "shop", "namespace": "x"},
        "spec": {"sources": [dict(CHART), dict(VALUES), dict(EXTRA)]},
        "status": {"revision": revision, "history": done},
    }


@pytest.mark.parametrize(
    ("syncs", "source", "to", "target"),
    [
        pytest.param(3, "", "", ("extra", ""), id="the source that changed last"),
        pytest.param(2, "", "1", ("values", "a" * 40), id="the source that changed since a sync"),
        pytest.param(3, "values", "1", ("values", "a" * 40), id="one of those that changed since a sync"),
        pytest.param(3, "values", "", ("values", ""), id="another source"),
        pytest.param(3, "values", "a" * 7, ("values", "a" * 7), id="a commit of a source"),
        pytest.param(3, "extra", "2" * 8, ("extra", "a" * 40), id="the joined commit of a sync"),
    ],
)
def test_one_source_is_reverted(syncs: int, source: str, to: str, target: tuple[str, str]) -> None:
    assert find_revert_target(manifest(syncs), source, to) == (*target, "")


@pytest.mark.parametrize(
    ("syncs", "source", "to", "message"),
    [
        pytest.param(3, "", "1", "values, extra changed since that sync; name the source", id="two changed"),
        pytest.param(1, "", "", "no source is known to have changed", id="the first sync"),
        pytest.param(0, "", "", "no source is known to have changed", id="none yet"),
        pytest.param(4, "", "", "web is an artifact of a registry, which has no commits", id="the chart changed"),
        pytest.param(3, "other", "", "no source is named 'other'; name one of spec.sources", id="unknown source"),
        pytest.param(3, "", "main", "names no sync in the history", id="a branch without a source"),
    ],
)
def test_what_cannot_be_reverted_is_named(syncs: int, source: str, to: str, message: str) -> None:
    with pytest.raises(GitsyncError, match=message):
        find_revert_target(manifest(syncs), source, to)


def test_a_commit_of_a_sync_is_reverted_in_the_source_that_it_changed() -> None:
    made = manifest(4)
    app = parse_application(made)
    assert revert_target(app, made["status"], commit="3" * 40) == ("extra", "", "b" * 40)
    assert revert_target(app, made["status"], commit="2" * 40) == ("values", "", "b" * 40)
    # what it has is a commit of the source itself
    assert revert_target(app, made["status"], "values", commit="a" * 8) == ("values", "", "a" * 8)
    with pytest.raises(GitsyncError, match="web is an artifact"):
        revert_target(app, made["status"], commit="4" * 40)


def test_two_sources_of_one_repository_change_together() -> None:
    made = manifest(3)
    made["spec"]["sources"][2]["repoURL"] = VALUES["repoURL"]
    made["status"]["history"][0]["sources"] = made["status"]["revision"]["sources"] = [
        {"name": "web", "commit": "a" * 40},
        {"name": "values", "commit": "c" * 40},
        {"name": "extra", "commit": "c" * 40},
    ]
    assert find_revert_target(made, "", "") == ("values", "", "")


def test_the_only_source_needs_no_name() -> None:
    app: Manifest = {
        "metadata": {"name": "shop", "namespace": "x"},
        "spec": {"source": {"repoURL": "https://git.example.com/shop.git"}},
        "status": {"history": [{"id": 7, "revision": "c" * 40}]},
    }
    assert find_revert_target(app, "", "7") == ("", "c" * 40, "")
    with pytest.raises(GitsyncError, match="no source is named 'web'"):
        find_revert_target(app, "web", "7")
