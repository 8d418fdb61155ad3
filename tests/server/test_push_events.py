"""Which repository the push events of each Git server name."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gitsync.server.push_events import normal, repository_urls

AZURE = {
    "eventType": "git.push",
    "resource": {
        "refUpdates": [{"name": "refs/heads/main"}],
        "repository": {
            "name": "shop",
            "url": "https://dev.azure.com/acme/_apis/git/repositories/278d5cd2",
            "remoteUrl": "https://acme@dev.azure.com/acme/My%20Project/_git/shop",
            "project": {"name": "My Project"},
        },
    },
}
CODECOMMIT = {
    "source": "aws.codecommit",
    "region": "eu-central-1",
    "detail": {"event": "referenceUpdated", "repositoryName": "shop", "referenceType": "branch"},
}
GOGS = {"ref": "refs/heads/main", "repository": {"clone_url": "http://gogs.example.com:3000/acme/shop.git"}}


def bitbucket(**links: Any) -> dict[str, Any]:
    return {"repository": {"slug": "shop", "links": links}}


@pytest.mark.parametrize(
    ("payload", "url"),
    [
        pytest.param(AZURE, "https://dev.azure.com/acme/My%20Project/_git/shop", id="Azure DevOps"),
        pytest.param(AZURE, "git@ssh.dev.azure.com:v3/acme/My%20Project/shop", id="Azure DevOps by SSH"),
        pytest.param(
            AZURE, "https://acme.visualstudio.com/DefaultCollection/My%20Project/_git/shop", id="its old host"
        ),
        pytest.param(AZURE, "acme@vs-ssh.visualstudio.com:v3/acme/My%20Project/shop", id="its old host by SSH"),
        pytest.param(CODECOMMIT, "https://git-codecommit.eu-central-1.amazonaws.com/v1/repos/shop", id="CodeCommit"),
        pytest.param(
            {"Type": "Notification", "Message": orjson.dumps(CODECOMMIT).decode()},
            "ssh://APKAEIBAERJR@git-codecommit.eu-central-1.amazonaws.com/v1/repos/shop",
            id="CodeCommit through SNS, by SSH",
        ),
        pytest.param(
            CODECOMMIT | {"region": "cn-north-1"},
            "https://git-codecommit.cn-north-1.amazonaws.com.cn/v1/repos/shop",
            id="CodeCommit in China",
        ),
        pytest.param(GOGS, "http://gogs.example.com:3000/acme/shop", id="Gogs"),
        pytest.param(
            bitbucket(self=[{"href": "https://git.example.com/projects/TEAM/repos/shop/browse"}]),
            "https://git.example.com/scm/team/shop.git",
            id="Bitbucket Data Center, its page only",
        ),
        pytest.param(
            bitbucket(self=[{"href": "https://git.example.com/bitbucket/users/ada/repos/shop/browse"}]),
            "https://git.example.com/bitbucket/scm/~ada/shop.git",
            id="Bitbucket Data Center, a user's, below a path",
        ),
        pytest.param(
            bitbucket(self=[{"href": "https://git.example.com/projects/TEAM/repos/shop/browse"}]),
            "ssh://git@git.example.com:7999/team/shop.git",
            id="Bitbucket Data Center by SSH",
        ),
        pytest.param(
            bitbucket(self={"href": "https://api.bitbucket.org/2.0/repositories/team/shop"}),
            "git@bitbucket.org:team/shop.git",
            id="Bitbucket Cloud, its API only",
        ),
    ],
)
def test_a_payload_names_its_repository(payload: Any, url: str) -> None:
    assert normal(url) in repository_urls(payload)


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("ssh://git@ssh.github.com:443/acme/shop.git", "https://github.com/acme/shop"),
        ("ssh://git@altssh.gitlab.com:443/acme/shop.git", "https://gitlab.com/acme/shop"),
        ("ssh://git@altssh.bitbucket.org:443/acme/shop.git", "git@bitbucket.org:acme/shop.git"),
        ("https://dev.azure.com/acme/_git/shop", "https://dev.azure.com/acme/shop/_git/shop"),
        ("https://dev.azure.com/acme/My%20Project/_git/shop", "https://dev.azure.com/acme/my project/_git/shop"),
    ],
)
def test_spellings_of_one_repository_are_equal(url: str, other: str) -> None:
    assert normal(url) == normal(other)


@pytest.mark.parametrize(
    "payload",
    [
        AZURE | {"resource": {"repository": {"id": "1"}}},
        {"resource": {"repository": "shop"}},
        {"source": "aws.codecommit"},
        CODECOMMIT | {"region": "eu central\n1"},
        {"Message": "[]"},
        {"Message": "{"},
        {"Message": "null"},
        bitbucket(self=[{"href": "https://git.example.com/other"}]),
        bitbucket(self="https://git.example.com/projects/A/repos/b/browse"),
        bitbucket(self=[{"href": 5}, None]),
    ],
)
def test_a_payload_without_a_repository_is_an_error(payload: Any) -> None:
    with pytest.raises(ValueError, match=r".*"):
        repository_urls(payload)
