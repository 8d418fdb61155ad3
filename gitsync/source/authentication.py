"""What git and ssh need to sign in at a server: secrets are in no argument and in no file on the disk."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from gitsync.errors import InvalidInput
from gitsync.ports import Credentials
from gitsync.source.git import REMOTE, environment

_PROXIES = ("https_proxy", "http_proxy", "all_proxy", "no_proxy")


@contextlib.contextmanager
def authenticated_env(
    url: str,
    credentials: Credentials,
    schemes: Sequence[str],
    ca_file: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[dict[str, str]]:
    """Yield the environment for talking to a server, with the operator's proxies and further settings of git."""
    config = {
        **(settings or {}),
        "http.lowSpeedLimit": "1000",  # bytes per second
        "http.lowSpeedTime": "30",  # seconds
        f"remote.{REMOTE}.url": url,  # not in the mirror, whose configuration may be damaged
        "http.followRedirects": "false",  # or the header would go to whatever host is named
    }
    authorization = authorization_of(url, credentials)
    if authorization:
        # a header: with a password in the URL, git makes each first request twice, once without it
        config["http.extraHeader"] = f"Authorization: {authorization}"
        config[f"remote.{REMOTE}.url"] = without_user(url)
    with ssh_command(credentials) as command, certificates(credentials, ca_file) as trusted:
        if trusted:
            config["http.sslCAInfo"] = trusted
        yield environment(schemes, config) | proxies() | {"GIT_SSH_COMMAND": command}


def authorization_of(url: str, credentials: Credentials) -> str:
    """Return the value of the header Authorization for a URL, empty without a password."""
    parts = urlsplit(url)
    if not credentials.password or parts.scheme not in ("http", "https"):
        return ""
    user = credentials.username or parts.username or "git"
    return f"Basic {base64.b64encode(f'{user}:{credentials.password}'.encode()).decode()}"


@contextlib.contextmanager
def certificates(credentials: Credentials, ca_file: Path | None) -> Iterator[str]:
    """
    Yield the path of the trusted certificates, empty for those of the system.

    Those of the Application replace all others; those of the operator are trusted beside the system's.
    """
    text = trusted_certificates(credentials, ca_file)
    if not text:
        yield os.environ.get("SSL_CERT_FILE", "")
        return
    with memory_file("ca.crt", text) as path:
        yield path


def trusted_certificates(credentials: Credentials, ca_file: Path | None) -> str:
    """Return the trusted certificates (PEM), empty for those of the system; see ``certificates``."""
    if not credentials.ca and ca_file is None:
        return ""
    try:
        return credentials.ca or "\n".join(file.read_text() for file in (ca_file, _system_file()) if file)
    except OSError as error:
        raise InvalidInput(f"cannot read {ca_file}: {error.strerror}", location="GITSYNC_GIT_CA") from error


def _system_file() -> Path | None:
    name = ssl.get_default_verify_paths().cafile  # of SSL_CERT_FILE where it is set
    return Path(name) if name else None


def proxies() -> dict[str, str]:
    """Return the proxies in the spelling that curl reads for every scheme."""
    values = {name: os.environ.get(name) or os.environ.get(name.upper(), "") for name in _PROXIES}
    return {name: value for name, value in values.items() if value}


def without_user(url: str) -> str:
    """Return a URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


_OPTIONS = {
    "BatchMode": "yes",  # a passphrase or an unknown host key fails at once instead of waiting for a terminal
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": "15",
    "ServerAliveInterval": "15",  # or a connection that a firewall dropped would hang until our own deadline
    "PreferredAuthentications": "publickey",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",  # an agent of the user offers keys that the Application was not given
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "ControlPath": "none",  # a shared connection would be signed in with the key of another Application
    "PermitLocalCommand": "no",
}


@contextlib.contextmanager
def ssh_command(credentials: Credentials) -> Iterator[str]:
    """
    Yield the value of GIT_SSH_COMMAND: only this key may authenticate, only these host keys are accepted.

    Key and host keys are files in memory that end with this process, so a kill leaves no key on the disk.
    """
    with contextlib.ExitStack() as files:
        known = files.enter_context(memory_file("known_hosts", credentials.known_hosts))
        key = "none"  # otherwise ssh tries the keys of the user that runs the controller
        if credentials.ssh_key:
            key = files.enter_context(memory_file("key", credentials.ssh_key.strip() + "\n"))
        options = {**_OPTIONS, "UserKnownHostsFile": known, "IdentityFile": key}
        arguments = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        # -F: options of the user's configuration, such as ProxyCommand, run programs
        yield shlex.join(["ssh", "-F", os.devnull, *arguments])


def key_failure(key: str) -> str:
    """Return what ssh-keygen prints of a private key that ssh cannot use, empty for a good one or without ssh."""
    with memory_file("key", key.strip() + "\n") as path, contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command = ["ssh-keygen", "-y", "-P", "", "-f", path]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10).stderr.decode()
    return ""


@contextlib.contextmanager
def memory_file(name: str, text: str) -> Iterator[str]:
    """Yield the path of a file in memory that only this user can read."""
    descriptor = os.memfd_create(name)
    try:
        os.fchmod(descriptor, 0o600)  # ssh refuses a key that others could read
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


class StayOnHost(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: credentials are for the first host only."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the redirect is the answer."""
