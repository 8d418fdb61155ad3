"""
Data keys of SOPS files are opened by OpenPGP and key services, with the credentials of the Secret and at its addresses.

AWS KMS is the server of moto, OpenPGP is gpg itself. Vault is a fake of its transit API, and the exchanges with Google
and Azure are written down by their public documentation: none of these can be had in a test.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from moto.server import ThreadedMotoServer

from gitsync.errors import GitsyncError, InvalidInput, TransientError
from gitsync.integrations.http import RequestFailed, WebAnswer
from gitsync.integrations.key_services import KeyServices
from gitsync.secrets import DecryptionKeys, WrappedKey
from tests.http_service import serve_http
from tests.waiting import until

KEY = bytes(range(32))
TOKEN = "hvs.the-token-canary"


def opened(services: KeyServices, kind: str, entry: Mapping[str, Any], **members: str) -> bytes | None:
    secret = {name.replace("__", ".").replace("_", "-"): text for name, text in members.items()}
    return services.open(WrappedKey(kind, entry), DecryptionKeys((secret,)))


def refusal(action: Callable[[], object], kind: type[GitsyncError] = InvalidInput) -> str:
    with pytest.raises(kind) as caught:
        action()
    assert TOKEN not in str(caught.value)
    return str(caught.value)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# OpenPGP

needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")


class Keyring:
    """A keyring of gpg with one key, in a folder."""

    def __init__(self, folder: Path, passphrase: str = "") -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        self._loopback = ("--pinentry-mode", "loopback", "--passphrase", passphrase)
        self.gpg(*self._loopback, "--quick-generate-key", "team@example.com", "future-default", "default", "never")

    def gpg(self, *arguments: str, text: bytes = b"") -> str:
        command = ["gpg", "--batch", "--no-tty", "--quiet", "--homedir", str(self.folder), *arguments]
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode()

    def exported(self) -> str:
        return self.gpg(*self._loopback, "--armor", "--export-secret-keys")

    def sealed(self, content: bytes) -> dict[str, str]:
        recipient = ("--trust-model", "always", "--recipient", "team@example.com")
        return {"fp": "x", "enc": self.gpg("--armor", *recipient, "--encrypt", text=content)}

    def close(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.folder), "--kill", "all"], capture_output=True, check=False)


@pytest.fixture
def keyring(tmp_path: Path) -> Iterator[Keyring]:
    ring = Keyring(tmp_path / "ring")
    yield ring
    ring.close()


@needs_gpg
def test_openpgp_opens_what_is_encrypted_to_a_key_of_the_secret(keyring: Keyring, tmp_path: Path) -> None:
    other = Keyring(tmp_path / "other")
    services = KeyServices()
    assert opened(services, "pgp", keyring.sealed(KEY), team__asc=keyring.exported()) == KEY
    both = {"a__asc": other.exported(), "b__asc": keyring.exported()}
    assert opened(services, "pgp", keyring.sealed(KEY), **both) == KEY
    assert opened(services, "pgp", keyring.sealed(KEY), team__asc=other.exported()) is None
    assert opened(services, "pgp", keyring.sealed(KEY), me__agekey="x") is None
    assert opened(services, "pgp", {"enc": "no message"}, team__asc=keyring.exported()) is None
    other.close()


@needs_gpg
def test_no_agent_of_openpgp_stays_behind(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="k-") as short:
        monkeypatch.setattr("tempfile.tempdir", short)
        check_nothing_stays(keyring, Path(short))


@needs_gpg
def test_an_agent_of_openpgp_that_cannot_start_is_named(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    text = refusal(
        lambda: opened(KeyServices(), "pgp", keyring.sealed(KEY), team__asc=keyring.exported()), TransientError
    )
    assert "gpg-agent does not start below" in text


def check_nothing_stays(keyring: Keyring, folder: Path) -> None:
    assert opened(KeyServices(), "pgp", keyring.sealed(KEY), team__asc=keyring.exported()) == KEY
    assert not list(folder.glob("gitsync-pgp-*"))
    # the agent is ended by a signal, and may take a moment
    until(lambda: not any(f"{folder}/gitsync-pgp-".encode() in line for line in _command_lines()), 10)


def _command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # of a process that has ended
            yield path.read_bytes()


@needs_gpg
def test_an_openpgp_message_of_any_size_is_bounded(keyring: Keyring) -> None:
    bomb = keyring.sealed(bytes(64 << 20))
    assert opened(KeyServices(), "pgp", bomb, team__asc=keyring.exported()) is None


@needs_gpg
def test_an_openpgp_key_with_a_passphrase_is_named(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "ring", "secret")
    text = refusal(lambda: opened(KeyServices(), "pgp", ring.sealed(KEY), team__asc=ring.exported()))
    assert "has a passphrase" in text
    ring.close()


# AWS


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


class Kms:
    """A key of AWS KMS, and the credentials for it."""

    def __init__(self, url: str) -> None:
        session = boto3.session.Session("AK", "SK", region_name="eu-west-1")
        self._client = session.client("kms", endpoint_url=url)
        self.arn = self._client.create_key()["KeyMetadata"]["Arn"]
        self.secret = "aws_access_key_id: AK\naws_secret_access_key: SK\n"

    def sealed(self, **context: str) -> dict[str, Any]:
        sealed = self._client.encrypt(KeyId=self.arn, Plaintext=KEY, EncryptionContext=context)
        enc = base64.b64encode(sealed["CiphertextBlob"]).decode()
        return {"arn": self.arn, "enc": enc, **({"context": context} if context else {})}


@pytest.fixture
def kms(aws: str, monkeypatch: pytest.MonkeyPatch) -> Kms:
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    return Kms(aws)


def test_aws_kms_opens_by_the_credentials_of_the_secret(kms: Kms) -> None:
    assert opened(KeyServices(), "kms", kms.sealed(), sops__aws_kms=kms.secret) == KEY
    assert opened(KeyServices(), "kms", kms.sealed(team="shop"), sops__aws_kms=kms.secret) == KEY
    role = kms.sealed() | {"role": "arn:aws:iam::123456789012:role/sops"}
    assert opened(KeyServices(), "kms", role, sops__aws_kms=kms.secret) == KEY


def test_a_context_of_aws_kms_that_was_changed_opens_nothing(kms: Kms) -> None:
    entry = kms.sealed(team="shop") | {"context": {"team": "bank"}}
    assert "InvalidCiphertextException" in refusal(
        lambda: opened(KeyServices(), "kms", entry, sops__aws_kms=kms.secret)
    )


def test_the_credentials_of_the_controller_are_not_used(kms: Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    monkeypatch.setenv("VAULT_TOKEN", "t")
    assert opened(KeyServices(), "kms", kms.sealed(), me__agekey="x") is None
    incomplete = refusal(lambda: opened(KeyServices(), "kms", kms.sealed(), sops__aws_kms="aws_access_key_id: AK"))
    assert "sops.aws-kms lacks aws_secret_access_key" in incomplete
    assert "object" in refusal(lambda: opened(KeyServices(), "kms", kms.sealed(), sops__aws_kms=TOKEN))
    assert opened(KeyServices(), "hc_vault", {"vault_address": "https://v.example"}, me__agekey="x") is None


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:kms:evil.example/:123456789012:key/x",
        "arn:aws:kms:eu-west-1.evil:123456789012:key/x",
        "arn:aws:s3:eu-west-1:123456789012:key/x",
        "",
    ],
)
def test_an_arn_names_a_region_and_no_host(kms: Kms, arn: str) -> None:
    entry = kms.sealed() | {"arn": arn}
    assert "is not a key of AWS KMS" in refusal(lambda: opened(KeyServices(), "kms", entry, sops__aws_kms=kms.secret))


def test_a_service_that_does_not_answer_is_asked_again_later(kms: Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    services = KeyServices(monotonic=clock)
    entry = kms.sealed()

    def attempt() -> bytes | None:
        return opened(services, "kms", entry, sops__aws_kms=kms.secret)

    url = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "AWS KMS did not open the data key" in refusal(attempt, TransientError)
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    refusal(attempt, TransientError)
    clock.now += 31
    assert attempt() == KEY


def test_a_missing_extra_is_named(kms: Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    text = refusal(lambda: opened(KeyServices(), "kms", kms.sealed(), sops__aws_kms=kms.secret))
    assert text.endswith("for which the controller lacks a library; install gitsync[aws]")


# Vault


class Transit(BaseHTTPRequestHandler):
    """The transit API of Vault in small: a ciphertext is the key after a mark."""

    requests: list[tuple[str, str]]
    location = ""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, self.headers.get("X-Vault-Token", "")))
        status, answer = self._answer(body)
        self.send_response(status)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def _answer(self, body: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if self.location:
            return 307, {}
        if self.headers.get("X-Vault-Token") != TOKEN:
            return 403, {"errors": ["permission denied"]}
        if not body["ciphertext"].startswith("vault:v1:"):
            return 400, {"errors": ["invalid ciphertext: no prefix"]}
        return 200, {"data": {"plaintext": body["ciphertext"].removeprefix("vault:v1:")}}


@pytest.fixture
def transit() -> Iterator[tuple[type[Transit], str]]:
    handler = type("Handler", (Transit,), {"requests": []})
    with serve_http(handler) as port:
        yield handler, f"http://127.0.0.1:{port}"


def entry_of(url: str, **members: str) -> dict[str, str]:
    enc = f"vault:v1:{base64.b64encode(KEY).decode()}"
    return {"vault_address": url, "engine_path": "sops", "key_name": "team", "enc": enc, **members}


def by_vault(services: KeyServices, url: str, allowed: str = "", token: str = TOKEN, **members: str) -> bytes | None:
    secret = {"sops__vault_token": f"{token}\n", "sops__vault_address": allowed or url}
    return opened(services, "hc_vault", entry_of(url, **members), **secret)


PLAIN = KeyServices(lambda url: url.startswith("http://127.0.0.1:"))


def test_vault_opens_at_an_address_of_the_secret(transit: tuple[type[Transit], str]) -> None:
    handler, url = transit
    clock = Clock()
    services = KeyServices(lambda url: True, monotonic=clock)
    assert by_vault(services, url, f"https://vault.example\n{url}/") == KEY
    assert handler.requests == [("/v1/sops/decrypt/team", TOKEN)]
    assert by_vault(services, url, f"https://vault.example\n{url}/") == KEY
    assert len(handler.requests) == 1, "a data key is kept for some minutes"
    by_vault(services, url, url)
    assert len(handler.requests) == 2, "another Secret proves its right again"
    clock.now += 601
    by_vault(services, url, url)
    assert len(handler.requests) == 3


@pytest.mark.parametrize("allowed", ["https://vault.example", "http://127.0.0.1", "-"])
def test_a_commit_does_not_choose_where_the_token_is_sent(transit: tuple[type[Transit], str], allowed: str) -> None:
    handler, url = transit
    assert "is not an address in sops.vault-address" in refusal(lambda: by_vault(PLAIN, url, allowed))
    assert handler.requests == []


def test_a_token_is_not_sent_without_tls(transit: tuple[type[Transit], str]) -> None:
    handler, url = transit
    assert "GITSYNC_GIT_HTTP_SIGN_IN" in refusal(lambda: by_vault(KeyServices(), url))
    assert handler.requests == []


def test_a_redirect_of_vault_is_not_followed(transit: tuple[type[Transit], str]) -> None:
    handler, url = transit
    other = type("Other", (Transit,), {"requests": []})
    with serve_http(other) as port:
        handler.location = f"http://127.0.0.1:{port}/v1/sops/decrypt/team"
        refusal(lambda: by_vault(KeyServices(lambda url: True), url), TransientError)
    assert other.requests == []


@pytest.mark.parametrize(
    "members", [{"engine_path": "../sys"}, {"engine_path": "a//b"}, {"key_name": "x?y"}, {"key_name": ""}]
)
def test_names_of_vault_stay_in_their_path(transit: tuple[type[Transit], str], members: dict[str, str]) -> None:
    handler, url = transit
    assert "is not a key of Vault" in refusal(lambda: by_vault(PLAIN, url, **members))
    assert handler.requests == []


def test_a_refusal_of_vault_may_pass_and_a_changed_key_does_not(transit: tuple[type[Transit], str]) -> None:
    _, url = transit
    services = KeyServices(lambda url: True)
    assert "it answered Forbidden" in refusal(lambda: by_vault(services, url, token="other"), TransientError)
    assert "sops/team" in refusal(lambda: by_vault(services, url, enc="xx"))


# Google and Azure: exchanges by their documentation


class Exchanges:
    """Answers to requests in order, each by method and URL; keeps what was sent."""

    def __init__(self, *answers: tuple[str, int, Mapping[str, Any]]) -> None:
        self._answers = list(answers)
        self.sent: list[tuple[Mapping[str, str], bytes]] = []

    def send(
        self, method: str, url: str, headers: Mapping[str, str], max_bytes: int, body: bytes | None = None
    ) -> WebAnswer:
        assert self._answers, f"not expected: {method} {url}"
        expected, status, answer = self._answers.pop(0)
        assert f"{method} {url}" == expected
        self.sent.append((headers, body or b""))
        if status == 0:
            raise RequestFailed("cannot be reached", retryable=True)
        return WebAnswer(status, Message(), json.dumps(answer).encode())

    def services(self) -> KeyServices:
        web: Any = self
        return KeyServices(web=web)


PRIVATE = (
    rsa.generate_private_key(65537, 2048)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)
ACCOUNT = {
    "type": "service_account",
    "client_email": "sops@team.iam.gserviceaccount.com",
    "private_key": PRIVATE,
    "private_key_id": "1",
    # chosen by the author of the Secret: not used
    "token_uri": "https://evil.example/token",
}
RESOURCE = "projects/team/locations/global/keyRings/sops/cryptoKeys/shop"
GCP_TOKENS = ("POST https://oauth2.googleapis.com/token", 200, {"access_token": "at", "expires_in": 3599})
GCP_DECRYPT = f"POST https://cloudkms.googleapis.com/v1/{RESOURCE}:decrypt"
PLAINTEXT = base64.b64encode(KEY).decode()


def by_gcp(web: Exchanges, resource: str = RESOURCE, **account: str) -> bytes | None:
    entry = {"resource_id": resource, "enc": base64.b64encode(b"sealed").decode()}
    return opened(web.services(), "gcp_kms", entry, sops__gcp_kms=json.dumps(ACCOUNT | account))


def test_gcp_kms_opens_by_the_key_of_a_service_account() -> None:
    web = Exchanges(GCP_TOKENS, (GCP_DECRYPT, 200, {"plaintext": PLAINTEXT, "plaintextCrc32c": "1"}))
    assert by_gcp(web) == KEY
    (_, form), (headers, body) = web.sent
    assert parse_qs(form.decode())["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert headers["Authorization"] == "Bearer at"
    assert json.loads(body) == {"ciphertext": base64.b64encode(b"sealed").decode()}


def test_gcp_kms_signs_in_by_nothing_that_reads_files_or_addresses() -> None:
    assert "not the key of a service account" in refusal(lambda: by_gcp(Exchanges(), type="external_account"))
    assert "is not a key of GCP KMS" in refusal(lambda: by_gcp(Exchanges(), "projects/x/../y"))
    assert "no valid private key" in refusal(lambda: by_gcp(Exchanges(), private_key="x"))


@pytest.mark.parametrize(
    ("status", "kind"), [(403, TransientError), (429, TransientError), (0, TransientError), (400, InvalidInput)]
)
def test_what_gcp_kms_refuses_is_told_apart(status: int, kind: type[GitsyncError]) -> None:
    refusal(lambda: by_gcp(Exchanges(GCP_TOKENS, (GCP_DECRYPT, status, {}))), kind)


def test_gcp_kms_without_a_token_is_tried_again() -> None:
    denied = (GCP_TOKENS[0], 400, {"error": "invalid_grant", "error_description": "x"})
    assert "was not accepted" in refusal(lambda: by_gcp(Exchanges(denied)), TransientError)


TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
PRINCIPAL = {"tenantId": TENANT, "clientId": "c", "clientSecret": TOKEN}
VAULT = "https://shop.vault.azure.net"
AZURE_KEY = "0123456789abcdef0123456789abcdef"
MICROSOFT = "https://login.microsoftonline.com"
DISCOVERY = (
    f"GET {MICROSOFT}/{TENANT}/v2.0/.well-known/openid-configuration",
    200,
    {
        "issuer": f"{MICROSOFT}/{TENANT}/v2.0",
        "authorization_endpoint": f"{MICROSOFT}/{TENANT}/oauth2/v2.0/authorize",
        "token_endpoint": f"{MICROSOFT}/{TENANT}/oauth2/v2.0/token",
    },
)
AZURE_TOKENS = (
    f"POST {MICROSOFT}/{TENANT}/oauth2/v2.0/token",
    200,
    {"token_type": "Bearer", "access_token": "at", "expires_in": 3599},
)
AZURE_DECRYPT = f"POST {VAULT}/keys/sops/{AZURE_KEY}/decrypt?api-version=7.4"


def urlsafe(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def by_azure(web: Exchanges, principal: Mapping[str, str] = PRINCIPAL, **members: str) -> bytes | None:
    entry = {"vault_url": VAULT, "name": "sops", "version": AZURE_KEY, "enc": urlsafe(b"\xfb\xffsealed"), **members}
    return opened(web.services(), "azure_kv", entry, sops__azure_kv=json.dumps(principal))


@pytest.mark.parametrize(
    "principal", [PRINCIPAL, {"tenant": TENANT, "appId": "c", "password": TOKEN, "displayName": "sops"}]
)
def test_a_key_vault_of_azure_opens_by_a_service_principal(principal: dict[str, str]) -> None:
    web = Exchanges(DISCOVERY, AZURE_TOKENS, (AZURE_DECRYPT, 200, {"kid": "x", "value": urlsafe(KEY)}))
    assert by_azure(web, principal) == KEY
    _, (_, form), (headers, body) = web.sent
    values = parse_qs(form.decode())
    assert (values["client_secret"], values["scope"]) == ([TOKEN], ["https://vault.azure.net/.default"])
    assert headers["Authorization"] == "Bearer at"
    assert json.loads(body) == {"alg": "RSA-OAEP-256", "value": urlsafe(b"\xfb\xffsealed")}


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example",
        "https://shop.vault.azure.net.evil.example",
        "https://evil.example/?.vault.azure.net",
        "https://a@evil.example#.vault.azure.net",
        "https://shop.vault.azure.cn",
        "http://169.254.169.254",
        "https://x.y.vault.azure.net",
        "",
    ],
)
def test_a_commit_names_a_key_vault_of_azure_and_no_other_host(url: str) -> None:
    assert "is not a key vault of the cloud" in refusal(lambda: by_azure(Exchanges(), vault_url=url))


@pytest.mark.parametrize(
    "host", ["https://evil.example", "http://169.254.169.254", "https://login.microsoftonline.com.x"]
)
def test_a_service_principal_signs_in_at_azure_alone(host: str) -> None:
    assert "is not one of Azure" in refusal(lambda: by_azure(Exchanges(), PRINCIPAL | {"authorityHost": host}))


def test_the_identity_of_the_controller_in_azure_is_not_used() -> None:
    assert "lacks tenantId and clientSecret" in refusal(lambda: by_azure(Exchanges(), {"clientId": "c"}))


def test_a_service_principal_that_azure_rejects_is_tried_again() -> None:
    denied = (AZURE_TOKENS[0], 401, {"error": "invalid_client", "error_description": TOKEN})
    assert "invalid_client" in refusal(lambda: by_azure(Exchanges(DISCOVERY, denied)), TransientError)
