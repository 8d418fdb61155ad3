"""Code, documents and templates are in plain technical English: see CONTRIBUTING.md, "Words"."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.idioms import findings, idioms, package_of

NOT_CLEAN = frozenset(
    {
        "docs",
        "gitsync",
        "gitsync/apply",
        "gitsync/cli",
        "gitsync/cluster",
        "gitsync/controllers",
        "gitsync/gate",
        "gitsync/health",
        "gitsync/integrations",
        "gitsync/merge",
        "gitsync/objects",
        "gitsync/plan",
        "gitsync/record",
        "gitsync/render",
        "gitsync/runtime",
        "gitsync/sandbox",
        "gitsync/server",
        "gitsync/services",
        "gitsync/source",
        "gitsync/sync",
        "gitsync/workers",
        "tests/apply",
        "tests/badinput",
        "tests/browser",
        "tests/cli",
        "tests/cluster",
        "tests/controllers",
        "tests/flow",
        "tests/gate",
        "tests/health",
        "tests/integrations",
        "tests/merge",
        "tests/plan",
        "tests/record",
        "tests/render",
        "tests/runtime",
        "tests/sandbox",
        "tests/secrets",
        "tests/server",
        "tests/services",
        "tests/sync",
        "web/templates",
    }
)
"""Packages that still contain idioms. Take a package out when it is clean; add none."""


def test_no_package_contains_banned_idioms() -> None:
    found = [str(finding) for finding in findings() if package_of(finding.path) not in NOT_CLEAN]
    assert not found, "\n".join(found)


def test_packages_that_are_clean_leave_the_list() -> None:
    counts: dict[str, int] = defaultdict(int)
    for finding in findings():
        counts[package_of(finding.path)] += 1
    assert not {package for package in NOT_CLEAN if not counts[package]}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("The status is looked at again.", ["looked at"]),
        ("Nobody holds the lease.", ["Nobody"]),
        ("'3x' is no number", ["is no number"]),
        ("The lease is no longer held.", []),
        ("NOBODY = Credentials()", []),
        ("class Turn:", ["Turn"]),
        ("Turn the page.", []),
    ],
)
def test_idioms_are_found(line: str, found: list[str]) -> None:
    assert list(idioms(line)) == found
