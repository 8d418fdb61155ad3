"""Code, documents and templates are in plain technical English: see CONTRIBUTING.md, "Words"."""

from __future__ import annotations

import pytest

from tests.idioms import findings, idioms


def test_the_project_contains_no_banned_idioms() -> None:
    assert not findings(), "\n".join(map(str, findings()))


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
