"""Repository URLs: one normal form, and nothing that a server could read as another repository."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.objects.urls import (
    chart_url,
    is_artifact,
    joined_source,
    matches_url,
    normalized_url,
    repository_key,
    revisions_of,
)

HTTPS, SSH = "https://git.example/team-a/demo", "ssh://git.example/team-a/demo"


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://git.example/team-a/demo", HTTPS),
        ("https://GIT.Example/team-a/demo", HTTPS),
        ("HTTPS://git.example/team-a/demo", HTTPS),
        ("https://git.example:443/team-a/demo", HTTPS),
        ("https://git.example/team-a/demo.git", HTTPS),
        ("https://git.example/team-a/demo/", HTTPS),
        ("https://git.example/team-a/demo.git/", HTTPS),
        ("https://someone@git.example/team-a/demo", HTTPS),
        ("https://git.example./team-a/demo", HTTPS),
        ("https://git.example/team%2Da/%64emo", HTTPS),
        ("git@git.example:team-a/demo.git", SSH),
        ("git@git.example:/team-a/demo", SSH),
        ("ssh://git@git.example:22/team-a/demo.git", SSH),
        ("https://git.example:8443/x", "https://git.example:8443/x"),
        ("https://[2001:DB8::1]/x", "https://[2001:db8::1]/x"),
        ("/srv/x.git", "file:///srv/x"),
    ],
)
def test_urls_of_one_repository_have_one_form(url, normal):
    assert normalized_url(url) == normal
    assert normalized_url(normal) == normal


AMBIGUOUS = [
    "https://git.example/team-a/../team-b/demo",
    "https://git.example/team-a/%2e%2e/team-b/demo",
    "https://git.example/team-a/.%2E/team-b/demo",
    "https://git.example/team-a/%252e%252e/team-b/demo",
    "https://git.example/team-a/..%2fteam-b/demo",
    "https://git.example/team-a/./demo",
    "https://git.example//team-a/demo",
    "https://git.example/team-a//demo",
    "https://git.example/team-a\\..\\team-b/demo",
    "https://git.example/team-a/demo?x=/team-a/",
    "https://git.example/team-b/demo#/team-a/",
    "git@git.example:team-a/../team-b/demo",
    "ssh://git@git.example/team-a/../team-b/demo",
    "file:///srv/team-a/../team-b",
    "https://git.example/team-a/%ff",
]


@pytest.mark.parametrize("url", AMBIGUOUS)
def test_a_url_that_changes_in_meaning_has_no_normal_form_and_matches_nothing(url):
    with pytest.raises(ValueError, match=r"path|query|codec"):
        normalized_url(url)
    assert not matches_url("*", url)


@pytest.mark.parametrize(
    "pattern",
    ["https://git.example/team-a/*", "https://GIT.example:443/team-a/*", "https://git.example/team-a/demo.git/", "*",
     "https://*", "https://*.example/*", "*://git.example/*", "https://git.example*"],
)  # fmt: skip
def test_a_pattern_matches_however_it_is_written(pattern):
    assert matches_url(pattern, "https://Git.Example:443/team-a/demo.git")


def test_a_pattern_in_the_short_form_matches_ssh():
    assert matches_url("git@git.example:team-a/*", "ssh://git@git.example:22/team-a/demo.git")
    assert matches_url("ssh://git.example/team-a/*", "git@git.example:team-a/demo")
    assert not matches_url("git@git.example:team-a/*", "git@git.example:team-b/demo")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.test/x.example/demo",
        "https://git.example.evil.test/team-a/demo",
        "https://git.example:8443/team-a/demo",
        "https://git.example@evil.test/team-a/demo",
        "https://evil.test/https://git.example/team-a/demo",
        "http://git.example/team-a/demo",
        "https://git.example/team-ab/demo",
    ],
)
def test_a_pattern_matches_no_other_host_or_path(url):
    assert not matches_url("https://git.example/team-a/*", url)
    assert not matches_url("https://*.example/team-a/*", url)


@given(st.text(alphabet="ab./%2eE5cf\\@:?#", max_size=30))
def test_no_spelling_leaves_the_allowed_folder(rest):
    url = f"https://git.example/team-a/{rest}"
    if matches_url("https://git.example/team-a/*", url):
        normal = normalized_url(url)
        assert normal.startswith("https://git.example/team-a")
        assert ".." not in normal.split("/")
        assert normalized_url(normal) == normal


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://GIT.Example:443/team/demo/", "https://git.example/team/demo"),
        ("ssh://git@Git.Example:22/team/demo.git/", "ssh://git@git.example/team/demo.git"),
        ("https://ada@git.example/demo", "https://ada@git.example/demo"),
        ("https://github.com/team/demo.git", "https://github.com/team/demo"),
        ("https://git.example/team/demo.git", "https://git.example/team/demo.git"),
        ("https://git.example:8443/Team", "https://git.example:8443/Team"),
        ("git@git.example:team/demo", "git@git.example:team/demo"),
        ("file:///srv/demo.git", "file:///srv/demo.git"),
    ],
)
def test_urls_of_one_repository_have_the_same_key(url: str, key: str) -> None:
    assert repository_key(url) == repository_key(key) == key


@pytest.mark.parametrize(
    ("repository", "url"),
    [
        ("https://charts.example.com", "helm+https://charts.example.com/web"),
        ("https://charts.example.com/stable/", "helm+https://charts.example.com/stable/web"),
        ("http://charts.lan", "helm+http://charts.lan/web"),
        ("oci://registry.example.com/charts", "oci://registry.example.com/charts/web"),
    ],
)
def test_the_url_of_a_chart_names_its_repository_too(repository: str, url: str) -> None:
    assert chart_url(repository, "web") == url
    assert is_artifact(url)
    assert not is_artifact(repository.replace("oci:", "https:"))


@pytest.mark.parametrize(
    "repository", ["git@git.example:team/charts", "ssh://git.example/charts", "file:///charts", ""]
)
def test_a_chart_is_in_no_repository_of_git(repository: str) -> None:
    with pytest.raises(ValueError, match="neither an https:// nor an oci:// URL"):
        chart_url(repository, "web")


@pytest.mark.parametrize(
    ("pattern", "url", "is_match"),
    [
        ("https://charts.example.com/*", "helm+https://charts.example.com/stable/web", True),
        ("https://charts.example.com/stable/web", "helm+https://charts.example.com/stable/web", True),
        ("https://charts.example.com/stable/db", "helm+https://charts.example.com/stable/web", False),
        ("https://*", "helm+http://charts.example.com/web", False),
        ("https://*", "oci://registry.example.com/web", False),
        ("oci://registry.example.com/team/*", "oci://registry.example.com/team/web", True),
        ("oci://registry.example.com/team/*", "oci://registry.example.com:5000/team/web", False),
    ],
)
def test_patterns_match_charts_and_artifacts(pattern: str, url: str, is_match: bool) -> None:
    assert matches_url(pattern, url) is is_match


def test_charts_of_one_repository_have_keys_of_their_own() -> None:
    urls = ["helm+https://Charts.example.com/web", "helm+https://charts.example.com/web/"]
    assert len({repository_key(url) for url in urls}) == 1
    others = ["https://charts.example.com/web", "helm+https://charts.example.com/db", "oci://charts.example.com/web"]
    assert len({repository_key(url) for url in (urls[0], *others)}) == 4


def test_the_revisions_of_several_sources_are_read_back() -> None:
    _, revision = joined_source([("web", "u", ">=1 <2 || ~3"), ("values", "v", "a=b;c"), ("x-1", "w", "main")])
    assert revisions_of(revision) == {"web": ">=1 <2 || ~3", "values": "a=b;c", "x-1": "main"}
    for single in ("main", "a=b", ">=1 <2", "a" * 40, "a=b;c", ""):
        assert revisions_of(single) == {}
