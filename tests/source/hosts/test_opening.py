"""The API of a repository's host is found by the URL of the repository alone."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.hosts.opening import ApiHosts, page_url
from gitsync.source.remote import Transport
from gitsync.source.validation import PlainHosts


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://git.example.com/team/shop.git", "https://git.example.com/team/shop"),
        ("https://ada@git.example.com:8443/git/team/shop/", "https://git.example.com:8443/git/team/shop"),
        ("git@git.example.com:team/shop.git", "https://git.example.com/team/shop"),
        ("ssh://git@git.example.com:2222/team/shop", "https://git.example.com/team/shop"),
        ("http://127.0.0.1:3000/team/shop", "http://127.0.0.1:3000/team/shop"),
    ],
)
def test_the_page_of_a_repository_is_at_its_own_host(url: str, page: str) -> None:
    assert page_url(url) == page


@pytest.mark.parametrize("url", ["file:///srv/shop.git", "https://git.example.com/shop", "https://git.example.com"])
def test_a_url_without_owner_and_name_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"no Git host|no owner and name"):
        ApiHosts().host_of(GitSource(repo_url=url), "Gitea", Credentials())


@pytest.mark.parametrize("kind", ["Gitea", "GitHub"])
@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(password="password"),
        Credentials(token="for the API alone"),
        Credentials(app_id="1", app_installation="2", app_key="a key"),
    ],
    ids=["password", "token", "GitHub App"],
)
def test_no_credentials_go_to_an_api_without_tls(kind: str, credentials: Credentials) -> None:
    anonymous = Transport(plain=PlainHosts(frozenset({"127.0.0.1:9"})))
    host = ApiHosts(anonymous).host_of(GitSource(repo_url="http://127.0.0.1:9/team/shop"), kind, credentials)

    with pytest.raises(InvalidInput, match=r"credentials are not sent to 127\.0\.0\.1 without TLS"):
        host.pull_requests()


def test_an_unknown_kind_of_host_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'SourceForge' is not a known Git host"):
        ApiHosts().host_of(GitSource(repo_url="https://git.example.com/team/shop"), "SourceForge", Credentials())
