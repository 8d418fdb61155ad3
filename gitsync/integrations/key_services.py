"""
Master keys of SOPS files: OpenPGP by gpg, and the key services of AWS, Google Cloud, Azure and Vault, each by an extra.

Credentials come from the Secrets of the Application alone, never from the environment of the controller or a metadata
service. A file names the key, not the server: the address is the provider's, or one that the Secret names too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import yaml

from gitsync.errors import InvalidInput, TransientError
from gitsync.integrations.http import Downloads, RequestFailed, WebAnswer
from gitsync.objects.urls import normalized_url
from gitsync.secrets import (
    AWS_MEMBER,
    AZURE_MEMBER,
    GCP_MEMBER,
    MASTER_KEYS,
    PGP_SUFFIX,
    VAULT_ADDRESS,
    VAULT_AUTHORITIES,
    VAULT_TOKEN,
    DecryptionKeys,
    WrappedKey,
)

_SECONDS: Final = 10.0
"""Seconds for one request or process: a worker waits for it."""
_KEPT_SECONDS: Final = 600.0
"""Seconds for which a data key is kept, so that a new commit does not ask for the keys of unchanged files again."""
_SILENT_SECONDS: Final = 30.0
"""Seconds for which a service that did not answer is not asked again: a commit may have many files for it."""
_MOST_KEPT: Final = 4096
_MAX_BYTES: Final = 1 << 20
_MOST_KEY_BYTES: Final = 64
"""A data key has 32 bytes, a share of one 33."""

# arn:PARTITION:kms:REGION:ACCOUNT:key/ID, or alias/NAME; the region is a label of the host
_ARN: Final = re.compile(
    r"arn:aws[a-z-]{0,16}:kms:([a-z]{2}(?:-[a-z]+){1,3}-\d{1,2}):\d{12}:(?:key|alias)/[\w/-]+", re.ASCII
)
_ROLE: Final = re.compile(r"arn:aws[a-z-]{0,16}:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_GCP_KEY: Final = re.compile(r"projects/[\w.:-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+", re.ASCII)
_GCP_SERVICE: Final = "https://cloudkms.googleapis.com/v1/"
_GCP_TOKENS: Final = "https://oauth2.googleapis.com/token"
_GCP_SCOPE: Final = "https://www.googleapis.com/auth/cloudkms"
_VAULT_HOST: Final = re.compile(r"[a-z0-9-]+", re.ASCII)
_KEY_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,127}", re.ASCII)
_AZURE_CLOUDS: Final = {
    "login.microsoftonline.com": ("vault.azure.net", "managedhsm.azure.net"),
    "login.microsoftonline.us": ("vault.usgovcloudapi.net", "managedhsm.usgovcloudapi.net"),
    "login.partner.microsoftonline.cn": ("vault.azure.cn", "managedhsm.azure.cn"),
}
"""The hosts that sign in to each cloud of Azure, and the domains of its key vaults."""
# without dot segments, which would lead to another API of Vault
_VAULT_PATH: Final = re.compile(r"(?:[\w-][\w.-]*)(?:/[\w-][\w.-]*)*", re.ASCII)
_CHANGED: Final = "the file was changed, or the key is another one: encrypt it again with sops"
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)


class _Unanswered(Exception):
    """A service did not answer, or refused for a reason that may pass without a new commit: a right, a quota."""


class _Kept(NamedTuple):
    """A data key, or why a service did not answer, and until when it counts, by the monotonic clock."""

    until: float
    key: bytes = b""
    failure: str = ""


class KeyServices:
    """
    Open data keys of SOPS files by the keys and credentials of an Application.

    ``is_plain`` returns whether credentials may be sent to an ``http://`` address.
    """

    def __init__(
        self,
        is_plain: Callable[[str], bool] = lambda url: False,
        web: Downloads | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_plain = is_plain
        self._web = web or Downloads(seconds=_SECONDS)
        self._monotonic = monotonic
        self._kept: dict[str, _Kept] = {}

    def open(self, wrapped: WrappedKey, keys: DecryptionKeys) -> bytes | None:
        """
        Return a data key, or a share of one, in the clear; None where no Secret has a key or credential for it.

        Raise InvalidInput where it cannot be opened by what was given, TransientError where the service does not
        answer or refuses, as rights may be given without a new commit. Neither quotes a credential.
        """
        open_by = _SERVICES.get(wrapped.kind)
        if open_by is None:
            return None
        for secret in keys.secrets:
            key = self._opened_by(open_by, wrapped, secret)
            if key is not None:
                return key
        return None

    def _opened_by(self, open_by: _Opening, wrapped: WrappedKey, secret: Mapping[str, str]) -> bytes | None:
        name = MASTER_KEYS[wrapped.kind]
        used = {member: text for member, text in secret.items() if open_by.uses(member)}
        if not used:
            return None
        text = json.dumps([wrapped.kind, wrapped.entry, used], sort_keys=True, default=str)
        # a digest, so that no credential is kept
        known_as = hashlib.sha256(text.encode()).hexdigest()
        server = f"{name} {open_by.server(wrapped)} {hashlib.sha256(repr(sorted(used.items())).encode()).hexdigest()}"
        kept = self._current(known_as) or self._current(server)
        if kept is not None and kept.key:
            return kept.key
        try:
            if kept is not None:
                raise _Unanswered(kept.failure)
            key = open_by.function(wrapped, used, self)
        except ImportError as error:
            raise InvalidInput(
                f"a data key is encrypted by {name}, for which the controller lacks a library",
                hint=f"install gitsync[{open_by.extra}]",
            ) from error
        except (_Unanswered, RequestFailed) as error:
            self._keep(server, _Kept(self._monotonic() + _SILENT_SECONDS, failure=str(error)))
            raise TransientError(
                f"{name} did not open the data key: {error}",
                hint=f"check {open_by.server(wrapped)} and the rights of the credentials; it is tried again",
            ) from error
        if key is not None:
            self._keep(known_as, _Kept(self._monotonic() + _KEPT_SECONDS, key))
        return key

    def _current(self, name: str) -> _Kept | None:
        kept = self._kept.get(name)
        return kept if kept is not None and self._monotonic() < kept.until else None

    def _keep(self, name: str, kept: _Kept) -> None:
        now = self._monotonic()
        if len(self._kept) >= _MOST_KEPT:
            # a copy: other workers keep keys too
            self._kept = {
                other: value for other, value in list(self._kept.items())[_MOST_KEPT // 2 :] if now < value.until
            }
        self._kept[name] = kept

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> WebAnswer:
        """Return the answer of a service; raise RequestFailed where there is none."""
        return self._web.send(method, url, headers, _MAX_BYTES, body)

    def check_plain(self, url: str) -> None:
        """Raise InvalidInput for an address to which no credentials may be sent."""
        if urlsplit(url).scheme != "https" and not self._is_plain(url):
            raise InvalidInput(
                f"Vault at {url} is not reached by https",
                location=VAULT_ADDRESS,
                hint="use https, or let the operator list the host in GITSYNC_GIT_HTTP_SIGN_IN",
            )


class _Opening(NamedTuple):
    """
    How the data keys of one kind are opened: by which extra, members of a Secret, server, and function.

    The libraries of the extras are imported by the functions: one takes up to 30 MiB, and few files need it.
    """

    extra: str
    uses: Callable[[str], bool]
    server: Callable[[WrappedKey], str]
    function: Callable[[WrappedKey, Mapping[str, str], KeyServices], bytes | None]


def _sealed(wrapped: WrappedKey) -> bytes:
    """Return the encrypted data key, which all but OpenPGP and Vault write in base64."""
    text = wrapped.text("enc")
    try:
        # Azure writes it for URLs, and without padding
        return base64.b64decode(text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("an encrypted data key is not base64", hint="encrypt the file again with sops") from None


def _plain(text: object) -> bytes:
    """Return a data key of an answer in base64; raise _Unanswered for another answer."""
    try:
        return base64.b64decode(str(text).translate(str.maketrans("-_", "+/")) + "==", validate=False)
    except binascii.Error:
        raise _Unanswered("it answered without a key") from None


def _named(wrapped: WrappedKey, member: str, form: re.Pattern[str]) -> str:
    """Return a name of an entry; raise InvalidInput where it is none, as it becomes a part of a URL."""
    text = wrapped.text(member)
    if not form.fullmatch(text):
        raise InvalidInput(f"{text[:80]!r} is not a key of {MASTER_KEYS[wrapped.kind]} ({member})", hint="correct it")
    return text


def _settings(text: str, member: str) -> dict[str, str]:
    """Return a member of a Secret that is JSON or YAML; raise InvalidInput, which quotes none of it."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError:
        values = None
    if not isinstance(values, dict):
        raise InvalidInput(f"{member} is not a JSON or YAML object", location=_WHERE, hint="see docs/secrets.md")
    return {str(name): str(value) for name, value in values.items() if value is not None}


_WHERE: Final = "spec.source.decryption.secretRef.name"


def _lacking(member: str, names: Iterable[str]) -> InvalidInput:
    return InvalidInput(f"{member} lacks {' and '.join(names)}", location=_WHERE, hint="see docs/secrets.md")


# OpenPGP


def _by_pgp(wrapped: WrappedKey, members: Mapping[str, str], services: KeyServices) -> bytes | None:
    """Return what the gpg program opens with the keys of a Secret, in a keyring that is gone afterwards."""
    gpg = shutil.which("gpg")
    if gpg is None:
        raise InvalidInput("a data key is encrypted by OpenPGP, and gpg is not installed", hint="install gnupg")
    with tempfile.TemporaryDirectory(prefix="gitsync-pgp-") as folder:
        environment = {"GNUPGHOME": folder, "HOME": folder, "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        # neither asks for a passphrase, nor requests keys from servers
        command = (gpg, "--batch", "--no-tty", "--status-fd", "2", "--disable-dirmngr", "--pinentry-mode", "error")

        def run(arguments: tuple[str, ...], text: str) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                arguments, env=environment, input=text.encode(), capture_output=True, timeout=_SECONDS, check=False
            )

        try:
            imported = run((*command, "--import"), "\n".join(members.values()))
            # a message may decompress to any size
            done = run((*command, "--max-output", str(_MOST_KEY_BYTES), "--decrypt"), wrapped.text("enc"))
        except subprocess.TimeoutExpired:
            raise InvalidInput("an OpenPGP message took too long", hint="encrypt the file again with sops") from None
        finally:
            _end_agent(run)
    if b"can't connect to the agent" in imported.stderr:
        # such as below a folder whose name is too long for a socket
        raise _Unanswered(f"gpg-agent does not start below {tempfile.gettempdir()}")
    if b"pkdecrypt_failed" in done.stderr:
        raise InvalidInput(
            f"an OpenPGP key in a member that ends in {PGP_SUFFIX} has a passphrase, which the controller lacks",
            location=_WHERE,
            hint="put it in without: gpg --export-secret-keys --armor of a key that has none",
        )
    return done.stdout if done.returncode == 0 and done.stdout else None


def _end_agent(run: Callable[[tuple[str, ...], str], subprocess.CompletedProcess[bytes]]) -> None:
    """End the agent of a keyring, which gpg starts as a daemon and which has the keys in memory."""
    try:
        answer = run(("gpg-connect-agent", "--no-autostart", "GETINFO pid", "/bye"), "").stdout
        pid = int(answer.removeprefix(b"D ").split()[0])
        os.kill(pid, signal.SIGTERM)
        if os.getpid() == 1:
            os.waitpid(pid, 0)  # the first process of a container inherits what daemons leave behind
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return  # none was started, or it has ended


# AWS


def _by_aws(wrapped: WrappedKey, members: Mapping[str, str], services: KeyServices) -> bytes | None:
    """Return what AWS KMS opens in the region of the key's ARN, as a role where the entry names one."""
    import boto3
    from botocore import exceptions
    from botocore.config import Config

    config = Config(connect_timeout=_SECONDS / 2, read_timeout=_SECONDS, retries={"total_max_attempts": 1})
    credentials = _settings(members[AWS_MEMBER], AWS_MEMBER)
    names = ("aws_access_key_id", "aws_secret_access_key")
    if missing := [name for name in names if not credentials.get(name)]:
        raise _lacking(AWS_MEMBER, missing)
    arn = _named(wrapped, "arn", _ARN)
    context = wrapped.entry.get("context") or {}
    session = boto3.session.Session(
        **{name: credentials.get(name) for name in (*names, "aws_session_token")}, region_name=_region(wrapped)
    )
    try:
        if wrapped.text("role"):
            role = _named(wrapped, "role", _ROLE)
            answer = session.client("sts", config=config).assume_role(RoleArn=role, RoleSessionName="gitsync-sops")
            temporary = answer["Credentials"]
            session = boto3.session.Session(
                temporary["AccessKeyId"],
                temporary["SecretAccessKey"],
                temporary["SessionToken"],
                region_name=_region(wrapped),
            )
        opened = session.client("kms", config=config).decrypt(
            KeyId=arn,
            CiphertextBlob=_sealed(wrapped),
            EncryptionContext={str(name): str(value) for name, value in dict(context).items()},
        )
    except exceptions.ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in _AWS_FINAL:
            raise InvalidInput(f"AWS KMS does not open the data key with {arn}: {code}", hint=_CHANGED) from error
        raise _Unanswered(code or "it refused") from error
    except exceptions.BotoCoreError as error:
        raise _Unanswered(type(error).__name__) from error
    return bytes(opened["Plaintext"])


_AWS_FINAL: Final = ("InvalidCiphertextException", "IncorrectKeyException", "NotFoundException")


def _region(wrapped: WrappedKey) -> str:
    match = _ARN.fullmatch(wrapped.text("arn"))
    return match[1] if match else ""


# Google Cloud


def _by_gcp(wrapped: WrappedKey, members: Mapping[str, str], services: KeyServices) -> bytes | None:
    """Return what Cloud KMS opens, signed in by the key of a service account."""
    from google.auth import exceptions
    from google.oauth2 import service_account

    account = _settings(members[GCP_MEMBER], GCP_MEMBER)
    # other types read files, run programs, or ask addresses that they name
    if account.get("type", "service_account") != "service_account":
        raise InvalidInput(f"{GCP_MEMBER} is not the key of a service account", location=_WHERE, hint="create one")
    if missing := [name for name in ("client_email", "private_key") if not account.get(name)]:
        raise _lacking(GCP_MEMBER, missing)
    name = _named(wrapped, "resource_id", _GCP_KEY)
    information = {key: account[key] for key in ("client_email", "private_key", "private_key_id") if key in account}
    try:
        # not the address in the key, which a tenant may choose
        credentials = service_account.Credentials.from_service_account_info(
            information | {"token_uri": _GCP_TOKENS}, scopes=[_GCP_SCOPE]
        )
        credentials.refresh(_GoogleTransport(services))
    except exceptions.TransportError as error:
        raise _Unanswered("the server of tokens does not answer") from error
    except exceptions.GoogleAuthError as error:
        raise _Unanswered("the service account was not accepted") from error
    except ValueError as error:
        raise InvalidInput(f"{GCP_MEMBER} has no valid private key", location=_WHERE, hint="create another") from error
    body = json.dumps({"ciphertext": base64.b64encode(_sealed(wrapped)).decode()}).encode()
    answer = services.send("POST", f"{_GCP_SERVICE}{name}:decrypt", _bearer(credentials.token), body)
    return _plain(_member_of(answer, wrapped, "plaintext"))


class _GoogleResponse(NamedTuple):
    """An answer in the form of google.auth.transport.Response."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _GoogleTransport:
    """Requests of google-auth, by the way that all others take: with limits and without the environment."""

    def __init__(self, services: KeyServices) -> None:
        self._services = services

    def __call__(
        self, url: str, method: str = "GET", body: bytes | None = None, headers: Any = None, **_: Any
    ) -> _GoogleResponse:
        from google.auth.exceptions import TransportError

        try:
            answer = self._services.send(method, url, headers or {}, body)
        except RequestFailed as error:
            raise TransportError(str(error)) from error
        return _GoogleResponse(answer.status, dict(answer.headers.items()), answer.body)


# Azure


def _by_azure(wrapped: WrappedKey, members: Mapping[str, str], services: KeyServices) -> bytes | None:
    """Return what a key vault of Azure opens, signed in by a service principal."""
    import msal

    principal = _settings(members[AZURE_MEMBER], AZURE_MEMBER)
    # the names of Flux, and those that `az ad sp create-for-rbac` prints
    tenant = principal.get("tenantId") or principal.get("tenant", "")
    client = principal.get("clientId") or principal.get("appId", "")
    secret = principal.get("clientSecret") or principal.get("password", "")
    certificate = principal.get("clientCertificate", "")
    values = {"tenantId": tenant, "clientId": client, "clientSecret or clientCertificate": secret or certificate}
    if missing := [name for name, value in values.items() if not value]:
        raise _lacking(AZURE_MEMBER, missing)
    host = urlsplit(principal.get("authorityHost") or "https://login.microsoftonline.com").hostname or ""
    domains = _AZURE_CLOUDS.get(host)
    if domains is None or not _TENANT.fullmatch(tenant):
        raise InvalidInput(
            f"{AZURE_MEMBER}: authorityHost or tenantId is not one of Azure",
            location=_WHERE,
            hint=f"authorityHost is https:// and one of {', '.join(_AZURE_CLOUDS)}",
        )
    vault = (urlsplit(wrapped.text("vault_url")).hostname or "").lower()
    name, _, domain = vault.partition(".")
    if domain not in domains or not _VAULT_HOST.fullmatch(name):
        raise InvalidInput(f"{vault[:80]!r} is not a key vault of the cloud that {host} signs in to", hint="correct it")
    path = f"keys/{_named(wrapped, 'name', _KEY_NAME)}/{_named(wrapped, 'version', _KEY_NAME)}"
    private = _PEM.search(certificate)
    credential = secret or {"private_key": private[0] if private else "", "public_certificate": certificate}
    try:
        application = msal.ConfidentialClientApplication(
            client,
            client_credential=credential,
            authority=f"https://{host}/{tenant}",
            instance_discovery=False,
            http_client=_MicrosoftTransport(services),
        )
        answer = application.acquire_token_for_client([f"https://{domain}/.default"])
    except ValueError as error:
        raise InvalidInput(f"{AZURE_MEMBER} is not accepted by msal", location=_WHERE, hint="correct it") from error
    token = answer.get("access_token")
    if not token:
        raise _Unanswered(f"{host} did not sign in the service principal: {str(answer.get('error', ''))[:40]}")
    sealed = base64.urlsafe_b64encode(_sealed(wrapped)).decode().rstrip("=")
    body = json.dumps({"alg": "RSA-OAEP-256", "value": sealed}).encode()
    url = f"https://{vault}/{path}/decrypt?api-version=7.4"
    return _plain(_member_of(services.send("POST", url, _bearer(token), body), wrapped, "value"))


_TENANT: Final = re.compile(r"[A-Za-z0-9.-]{1,253}", re.ASCII)


class _MicrosoftResponse(NamedTuple):
    """An answer in the form that msal reads: that of requests."""

    status_code: int
    headers: Mapping[str, str]
    text: str

    def raise_for_status(self) -> None:
        """Raise for an error of the server, as requests does."""
        if self.status_code >= 400:
            raise RequestFailed(f"answered {self.status_code}", retryable=True)


class _MicrosoftTransport:
    """Requests of msal, by the way that all others take."""

    def __init__(self, services: KeyServices) -> None:
        self._services = services

    def get(self, url: str, params: Any = None, headers: Any = None, **_: Any) -> _MicrosoftResponse:
        """Return the answer to a GET."""
        query = f"?{urlencode(params)}" if params else ""
        return self._sent("GET", f"{url}{query}", headers, None)

    def post(self, url: str, params: Any = None, data: Any = None, headers: Any = None, **_: Any) -> _MicrosoftResponse:
        """Return the answer to a form."""
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        query = f"?{urlencode(params)}" if params else ""
        return self._sent("POST", f"{url}{query}", form | dict(headers or {}), urlencode(data or {}).encode())

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def _sent(self, method: str, url: str, headers: Any, body: bytes | None) -> _MicrosoftResponse:
        answer = self._services.send(method, url, headers or {}, body)
        return _MicrosoftResponse(answer.status, dict(answer.headers.items()), answer.body.decode(errors="replace"))


# Vault


def _by_vault(wrapped: WrappedKey, members: Mapping[str, str], services: KeyServices) -> bytes | None:
    """Return what the transit engine of Vault opens, at an address that both file and Secret name."""
    token = members.get(VAULT_TOKEN, "").strip()
    if not token:
        return None
    import hvac
    import requests

    address = _allowed_address(wrapped, members)
    services.check_plain(address)
    engine = _named(wrapped, "engine_path", _VAULT_PATH)
    key = _named(wrapped, "key_name", _VAULT_PATH)
    with tempfile.NamedTemporaryFile("w", prefix="gitsync-ca-", suffix=".pem") as authorities:
        authorities.write(members.get(VAULT_AUTHORITIES, ""))
        authorities.flush()
        session = requests.Session()
        # neither a token nor a netrc of the controller's environment; its proxies count, as for other requests
        session.trust_env = False
        client = hvac.Client(
            url=address,
            token=token,
            verify=authorities.name if members.get(VAULT_AUTHORITIES) else True,
            timeout=_SECONDS,
            proxies=requests.utils.get_environ_proxies(address),
            # the header with the token would be sent along
            allow_redirects=False,
            session=session,
        )
        try:
            answer = client.secrets.transit.decrypt_data(key, wrapped.text("enc"), mount_point=engine)
        except (hvac.exceptions.InvalidRequest, hvac.exceptions.InvalidPath) as error:
            raise InvalidInput(f"Vault does not open the data key with {engine}/{key}", hint=_CHANGED) from error
        except hvac.exceptions.VaultError as error:
            raise _Unanswered(f"it answered {type(error).__name__}") from error
        except requests.exceptions.RequestException as error:
            raise _Unanswered(f"{address} cannot be reached: {type(error).__name__}") from error
        finally:
            session.close()
    if not isinstance(answer, dict):
        raise _Unanswered("it answered without a key")
    return _plain((answer.get("data") or {}).get("plaintext"))


def _allowed_address(wrapped: WrappedKey, members: Mapping[str, str]) -> str:
    """Return the address of Vault; raise InvalidInput unless the Secret with the token names it."""
    written = wrapped.text("vault_address")
    listed = members.get(VAULT_ADDRESS, "").split()
    try:
        address = normalized_url(written)
        allowed = {normalized_url(text) for text in listed}
    except ValueError:
        raise InvalidInput(
            f"the address of Vault is not a URL without a query: {written[:80]!r}", hint="correct it"
        ) from None
    if address not in allowed:
        raise InvalidInput(
            f"the file names Vault at {written[:80]}, which is not an address in {VAULT_ADDRESS} of the Secret",
            location=_WHERE,
            hint=f"put the address into {VAULT_ADDRESS}, if the token is for it",
        )
    return address


# Answers in JSON


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _member_of(answer: WebAnswer, wrapped: WrappedKey, name: str) -> str:
    """Return a member of an answer; raise InvalidInput for what no retry helps, else _Unanswered."""
    kind = MASTER_KEYS[wrapped.kind]
    if answer.status in (400, 404):
        raise InvalidInput(f"{kind} does not open the data key: it answered {answer.status}", hint=_CHANGED)
    if answer.status != 200:
        raise _Unanswered(f"it answered {answer.status}")
    try:
        value = json.loads(answer.body)[name]
    except (ValueError, KeyError, TypeError) as error:
        raise _Unanswered("it answered without a key") from error
    return str(value)


_SERVICES: Final = {
    "pgp": _Opening("", lambda member: member.endswith(PGP_SUFFIX), lambda wrapped: "gpg", _by_pgp),
    "kms": _Opening("aws", AWS_MEMBER.__eq__, _region, _by_aws),
    "gcp_kms": _Opening("gcp", GCP_MEMBER.__eq__, lambda wrapped: "cloudkms.googleapis.com", _by_gcp),
    "azure_kv": _Opening("azure", AZURE_MEMBER.__eq__, lambda wrapped: wrapped.text("vault_url"), _by_azure),
    "hc_vault": _Opening(
        "vault",
        (VAULT_TOKEN, VAULT_ADDRESS, VAULT_AUTHORITIES).__contains__,
        lambda wrapped: wrapped.text("vault_address"),
        _by_vault,
    ),
}
