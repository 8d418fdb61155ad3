"""A GitHub App reads its repositories with tokens that its key is exchanged for."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from gitsync.errors import InvalidInput, SourceDenied, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.github_app import InstallationTokens, api_of
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC_KEY = (
    KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
)
UNENCRYPTED = serialization.NoEncryption()


def pem(key: Any, encryption: serialization.KeySerializationEncryption = UNENCRYPTED) -> str:
    kind = serialization.PrivateFormat.TraditionalOpenSSL
    return str(key.private_bytes(serialization.Encoding.PEM, kind, encryption).decode())


APP = Credentials(app_id="7", app_installation="42", app_key=pem(KEY))


class GitHub:
    """The API beside a Git server: it checks each JSON Web Token and issues tokens that the server accepts."""

    def __init__(self, server: GitServer, now: float) -> None:
        self.server, self.now = server, now
        self.issued: list[dict[str, Any]] = []
        self.code = 201
        server.accepted, server.api = set(), self.answer

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        head, claims, signature = authorization.removeprefix("Bearer ").split(".")
        KEY.public_key().verify(decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        given = json.loads(decoded(claims))
        assert given["iss"] == "7"
        assert given["iat"] < self.now < given["exp"] <= self.now + 600
        if self.code != 201 or path != "/api/v3/app/installations/42/access_tokens":
            return self.code if self.code != 201 else 404, b"{}"
        self.issued.append(json.loads(body))
        token = f"ghs_{len(self.issued)}"
        self.server.accepted = {f"x-access-token:{token}"}
        ends = datetime.fromtimestamp(self.now + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 201, json.dumps({"token": token, "expires_at": ends}).encode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        yield made


def test_a_repository_is_read_with_a_token_for_it_alone(tmp_path: Path, server: GitServer) -> None:
    github = GitHub(server, datetime.now(UTC).timestamp())
    commit = GitRepo(tmp_path / "git").commit({"a.yaml": "a: 1"})
    source = GitSource(repo_url=server.url("origin.git"), revision="main")
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",)))

    assert repositories.resolve(source, APP) == commit
    assert repositories.snapshot(source, APP, commit).commit.id == commit
    assert github.issued == [{"repositories": ["origin"]}]


def test_a_token_is_renewed_before_its_end(server: GitServer) -> None:
    github = GitHub(server, 1_000_000.0)
    tokens, url = InstallationTokens(lambda: github.now), server.url("origin.git")
    first = tokens.signed_in(url, APP, None)
    assert (first.username, first.password) == ("x-access-token", "ghs_1")
    github.now += 3200
    assert tokens.signed_in(url, APP, None).password == "ghs_1"
    github.now += 200
    assert tokens.signed_in(url, APP, None).password == "ghs_2"


@pytest.mark.parametrize(
    ("code", "fix"),
    [(401, "must belong to one App"), (404, "githubAppInstallationID"), (422, "access to the repository")],
)
def test_what_github_rejects_is_reported_with_the_fix(server: GitServer, code: int, fix: str) -> None:
    GitHub(server, 1_000_000.0).code = code
    with pytest.raises(SourceDenied, match=f"answers {code} for a token of the GitHub App; .*{fix}"):
        InstallationTokens(lambda: 1_000_000.0).signed_in(server.url("origin.git"), APP, None)


def test_an_api_that_fails_is_tried_again(server: GitServer) -> None:
    github = GitHub(server, 1_000_000.0)
    github.code = 502
    tokens = InstallationTokens(lambda: github.now)
    with pytest.raises(SourceUnavailable, match="answers 502"):
        tokens.signed_in(server.url("origin.git"), APP, None)
    github.code = 201
    assert tokens.signed_in(server.url("origin.git"), APP, None).password == "ghs_1"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("SECRET", id="no key"),
        pytest.param(pem(ec.generate_private_key(ec.SECP256R1())), id="not RSA"),
        pytest.param(pem(KEY, serialization.BestAvailableEncryption(b"x")), id="with a passphrase"),
        pytest.param(PUBLIC_KEY, id="public"),
    ],
)
def test_an_unusable_key_is_reported_without_it(key: str) -> None:
    credentials = Credentials(app_id="7", app_installation="42", app_key=key)
    with pytest.raises(InvalidInput, match="is not an RSA private key in PEM") as caught:
        InstallationTokens().signed_in("https://github.com/acme/shop.git", credentials, None)
    assert key not in str(caught.value)


def test_the_api_is_the_one_beside_the_repository() -> None:
    assert api_of("https://github.com/acme/shop.git") == "https://api.github.com"
    assert api_of("https://user@git.example.com:8443/acme/shop") == "https://git.example.com:8443/api/v3"


def test_other_credentials_stay_as_they_are() -> None:
    ssh = Credentials(ssh_key="key", known_hosts="hosts")
    assert InstallationTokens().signed_in("ssh://git@github.com/acme/shop.git", ssh, None) is ssh
