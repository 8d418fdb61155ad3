"""Tags and digests of registries, over real HTTP; ``GITSYNC_TEST_REGISTRY=USER:PASSWORD@HOST/NAME`` is a real one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gitsync.errors import InvalidInput, SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.integrations.registry import Registries, docker_passwords, speaks_tls
from tests.http_service import serve_http
from tests.integrations.test_prometheus import certificate

MANIFEST = b'{"schemaVersion": 2}'
DIGEST = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()
REAL = os.environ.get("GITSYNC_TEST_REGISTRY", "")


@dataclass
class Registry:
    """A registry with two pages of tags that requires a token."""

    host: str = ""
    status: int = 200
    body: bytes = b""
    manifest: bytes = MANIFEST
    blob: bytes = b""
    named: str = DIGEST
    """The digest that the registry says its manifest has."""
    challenge: str = 'Bearer realm="{base}/token",service="reg"'
    authorizations: list[tuple[str, str]] = field(default_factory=list)

    @property
    def image(self) -> str:
        return f"{self.host}/team/web"


@pytest.fixture
def registry() -> Iterator[Registry]:
    served = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            authorization = self.headers.get("Authorization", "")
            served.authorizations.append((url.path, authorization))
            if url.path == "/token":
                token = f"for {parse_qs(url.query)['scope'][0]}"
                return self._answer(200, json.dumps({"token": token}).encode())
            if authorization not in ("Bearer for repository:team/web:pull", "Basic Ym90OnNlY3JldA=="):
                challenge = served.challenge.replace("{base}", f"http://{served.host}")
                return self._answer(401, b"", {"WWW-Authenticate": challenge})
            if served.status != 200:
                return self._answer(served.status, b"", {"Retry-After": "7", "Location": "http://elsewhere.example/"})
            if "/manifests/" in url.path:
                return self._answer(200, served.manifest, {"Docker-Content-Digest": served.named})
            if "/blobs/" in url.path:
                return self._answer(200, served.blob)
            page = parse_qs(url.query).get("last")
            link = {} if page else {"Link": '</v2/team/web/tags/list?n=1000&last=1.0>; rel="next"'}
            return self._answer(
                200, served.body or json.dumps({"tags": ["2.0", 3] if page else ["1.0"]}).encode(), link
            )

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with serve_http(Handler) as port:
        served.host = f"127.0.0.1:{port}"
        yield served


def test_tags_of_all_pages_with_a_token_of_the_repository(registry: Registry) -> None:
    registries = Registries(lambda host: ("bot", "secret"))
    assert registries.tags(registry.image) == ("1.0", "2.0")
    assert registries.digest(registry.image, "2.0") == DIGEST
    basic = f"Basic {base64.b64encode(b'bot:secret').decode()}"
    # the password goes to the token server alone
    assert [path for path, sent in registry.authorizations if sent == basic] == ["/token"]


@pytest.mark.parametrize(
    ("named", "content"),
    [
        pytest.param("sha256:" + "0" * 64, MANIFEST, id="another digest"),
        pytest.param(DIGEST, b'{"schemaVersion": 2, "evil": true}', id="another content"),
        pytest.param("sha256:$(id)\x27: {a: b}", MANIFEST, id="shell and YAML"),
    ],
)
def test_a_digest_that_its_content_has_not_is_an_error(registry: Registry, named: str, content: bytes) -> None:
    registry.named = named
    registry.manifest = content
    with pytest.raises(InvalidInput, match=r"with other content|something else than a digest"):
        Registries(lambda host: ("bot", "secret")).digest(registry.image, "2.0")


def test_the_digest_that_is_named_costs_one_request_without_content(registry: Registry) -> None:
    registries = Registries(lambda host: ("bot", "secret"))
    assert registries.named_digest(registry.image, "2.0") == DIGEST
    sent = len(registry.authorizations)
    assert registries.named_digest(registry.image, "2.0") == DIGEST
    # the content would be another one: it is not read
    registry.manifest = b"other"
    assert registries.named_digest(registry.image, "2.0") == DIGEST
    assert len(registry.authorizations) == sent + 2


def test_a_registry_without_the_header_gets_the_digest_of_its_content(registry: Registry) -> None:
    registry.named = ""
    assert Registries(lambda host: ("bot", "secret")).digest(registry.image, "2.0") == DIGEST


@pytest.mark.parametrize(
    ("configuration", "created"),
    [
        pytest.param(b'{"created": "2026-11-20T10:00:00Z"}', "2026-11-20T10:00:00Z", id="a time"),
        pytest.param(b'{"os": "linux"}', "", id="none"),
        pytest.param(b"not JSON", "", id="not a configuration"),
    ],
)
def test_an_image_tells_when_it_was_built(registry: Registry, configuration: bytes, created: str) -> None:
    registry.blob = configuration
    digest = "sha256:" + hashlib.sha256(configuration).hexdigest()
    registry.manifest = json.dumps({"config": {"digest": digest}}).encode()
    assert Registries(lambda host: ("bot", "secret")).created(registry.image, "2.0") == created


def test_basic_authentication(registry: Registry) -> None:
    registry.challenge = 'Basic realm="test"'
    assert Registries(lambda host: ("bot", "secret")).tags(registry.image) == ("1.0", "2.0")
    with pytest.raises(SourceDenied, match="401"):
        Registries(lambda host: None).tags(registry.image)


def test_a_token_server_without_tls_gets_no_password(registry: Registry) -> None:
    registry.challenge = 'Bearer realm="http://evil.example/token"'
    with pytest.raises(SourceDenied, match="without TLS"):
        Registries(lambda host: ("bot", "secret")).tags(registry.image)


@pytest.mark.parametrize(
    ("status", "error"), [(429, SourceThrottled), (403, SourceDenied), (404, InvalidInput), (307, InvalidInput)]
)
def test_another_answer_is_an_error_and_no_redirect_is_followed(
    registry: Registry, status: int, error: type[Exception]
) -> None:
    registry.status = status
    with pytest.raises(error) as raised:
        Registries(lambda host: None).tags(registry.image)
    assert getattr(raised.value, "retry_after", None) == (7 if status == 429 else None)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"tags": 3}'])
def test_what_is_no_list_of_tags_is_an_error(registry: Registry, body: bytes) -> None:
    registry.body = body
    with pytest.raises(SourceUnavailable):
        Registries(lambda host: None).tags(registry.image)


@pytest.mark.parametrize("image", ["a b", "127.0.0.1:1/../x", "127.0.0.1:1/A", "", "127.0.0.1:1/"])
def test_a_name_that_is_no_image_is_refused_before_a_request(image: str) -> None:
    with pytest.raises(InvalidInput):
        Registries(lambda host: None).tags(image)


def test_passwords_are_read_from_the_file_of_an_engine(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    entry = {"auth": base64.b64encode(b"bot:secret").decode()}
    file.write_text(
        json.dumps({"auths": {"ghcr.io": entry, "https://index.docker.io/v1/": entry, "broken": {"auth": "%"}}})
    )
    passwords = docker_passwords(file)
    assert passwords("ghcr.io") == passwords("registry-1.docker.io") == ("bot", "secret")
    assert passwords("broken") is passwords("quay.io") is docker_passwords(tmp_path / "absent")("ghcr.io") is None


@pytest.mark.skipif(not REAL, reason="GITSYNC_TEST_REGISTRY names no registry")
def test_a_real_registry() -> None:
    password, _, image = REAL.rpartition("@")
    user, _, secret = password.partition(":")
    registries = Registries(lambda host: (user, secret))
    tags = registries.tags(image)
    assert tags
    assert registries.digest(image, tags[0]).startswith("sha256:")


def test_a_server_with_tls_is_told_from_one_without(tmp_path: Path) -> None:
    with serve_http(BaseHTTPRequestHandler, certificate(tmp_path)) as port:
        assert speaks_tls("127.0.0.1", port)
    with serve_http(BaseHTTPRequestHandler) as port:
        assert not speaks_tls("127.0.0.1", port)
