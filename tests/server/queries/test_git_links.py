"""Links to the files of a commit."""

from __future__ import annotations

import pytest

from gitsync.server.queries.fields import file_url


@pytest.mark.parametrize(
    ("repository", "url"),
    [
        ("https://github.com/acme/shop.git", "https://github.com/acme/shop/blob/abc/k/a%20b.yaml#L12"),
        ("https://user:secret@github.com/acme/shop", "https://github.com/acme/shop/blob/abc/k/a%20b.yaml#L12"),
        ("git@github.com:acme/shop.git", "https://github.com/acme/shop/blob/abc/k/a%20b.yaml#L12"),
        ("ssh://git@gitlab.acme.org:2222/x/y/shop.git", "https://gitlab.acme.org/x/y/shop/-/blob/abc/k/a%20b.yaml#L12"),
        ("https://gitlab.acme.org:8443/shop", "https://gitlab.acme.org:8443/shop/-/blob/abc/k/a%20b.yaml#L12"),
        ("https://bitbucket.org/acme/shop.git", "https://bitbucket.org/acme/shop/src/abc/k/a%20b.yaml#lines-12"),
        ("https://codeberg.org/acme/shop", "https://codeberg.org/acme/shop/src/commit/abc/k/a%20b.yaml#L12"),
    ],
)
def test_a_known_host_shows_the_line(repository: str, url: str) -> None:
    assert file_url(repository, "abc", "k/a b.yaml:12") == url


@pytest.mark.parametrize(
    ("repository", "where"),
    [
        ("https://git.acme.org/shop.git", "a.yaml:1"),
        ("file:///srv/github.git", "a.yaml:1"),
        ("http://github.com/acme/shop", "a.yaml:1"),
        ("javascript://github.com/x", "a.yaml:1"),
        ("git@github.com\\@evil:x", "a.yaml:1"),
        ("https://[github", "a.yaml:1"),
        ("https://github.com/acme/shop", "a.yaml"),
        ("https://github.com/acme/shop", ""),
    ],
)
def test_anything_else_has_no_link(repository: str, where: str) -> None:
    assert file_url(repository, "abc", where) == ""


def test_a_name_that_is_no_text_is_still_a_link() -> None:
    assert file_url("https://github.com/a/b", "abc", "\udcff.yaml:1").endswith("/%FF.yaml#L1")
