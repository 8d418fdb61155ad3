"""
What git and ssh need to sign in at a server: secrets are in no argument and in no file on the disk.

Keys and certificates are files in memory whose descriptors git inherits: under Landlock, it may not open those of the
controller.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from gitsync.errors import InvalidInput
from gitsync.ports import Credentials
from gitsync.source.git import REMOTE, environment

_PROXIES = ("https_proxy", "http_proxy", "all_proxy", "no_proxy")


class ServerAccess(NamedTuple):
    """How git talks to a server: its environment, and the descriptors of files in memory that it has to inherit."""

    env: dict[str, str]
    files: tuple[int, ...]


@contextlib.contextmanager
def server_access(
    url: str,
    credentials: Credentials,
    schemes: Sequence[str],
    ca_file: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[ServerAccess]:
    """Yield how git talks to a server, with the operator's proxies and further settings of git."""
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
    authorities = trusted_certificates(credentials, ca_file)
    with contextlib.ExitStack() as memory:
        files = [memory.enter_context(memory_descriptor("known_hosts", credentials.known_hosts))]
        if credentials.ssh_key:
            files.append(memory.enter_context(memory_descriptor("key", credentials.ssh_key.strip() + "\n")))
        command = ssh_command(*files)
        if authorities:
            files.append(memory.enter_context(memory_descriptor("ca.crt", authorities)))
            # of the program that git starts for https, which inherits it from git
            config["http.sslCAInfo"] = f"/proc/self/fd/{files[-1]}"
        elif system := os.environ.get("SSL_CERT_FILE"):
            config["http.sslCAInfo"] = system
        yield ServerAccess(environment(schemes, config) | proxies() | {"GIT_SSH_COMMAND": command}, tuple(files))


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


def ssh_command(known_hosts: int, key: int | None = None) -> str:
    """
    Return the value of GIT_SSH_COMMAND: only this key may authenticate, only these host keys are accepted.

    Both are descriptors of files in memory that git inherits. They end with this process, so that a kill leaves no key
    on the disk.
    """
    options = {
        **_OPTIONS,
        "UserKnownHostsFile": _of_git(known_hosts),
        # otherwise ssh tries the keys of the user that runs the controller
        "IdentityFile": "none" if key is None else _of_git(key),
    }
    arguments = " ".join(f"-o {name}={value}" for name, value in options.items())
    # -F: options of the user's configuration, such as ProxyCommand, run programs
    return f"ssh -F {os.devnull} {arguments}"


def _of_git(descriptor: int) -> str:
    """Return the path of an inherited file for ssh, which closes what it inherits itself."""
    # git runs the command by a shell, whose parent it is
    return f"/proc/$PPID/fd/{descriptor}"


def key_failure(key: str) -> str:
    """Return what ssh-keygen prints of a private key that ssh cannot use, empty for a good one or without ssh."""
    with memory_file("key", key.strip() + "\n") as path, contextlib.suppress(OSError, subprocess.TimeoutExpired):
        command = ["ssh-keygen", "-y", "-P", "", "-f", path]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10).stderr.decode()
    return ""


@contextlib.contextmanager
def memory_file(name: str, text: str) -> Iterator[str]:
    """Yield the path of a file in memory that only this user can read."""
    with memory_descriptor(name, text) as descriptor:
        yield f"/proc/{os.getpid()}/fd/{descriptor}"


@contextlib.contextmanager
def memory_descriptor(name: str, text: str) -> Iterator[int]:
    """Yield the descriptor of a file in memory that only this user can read."""
    descriptor = os.memfd_create(name)
    try:
        os.fchmod(descriptor, 0o600)  # ssh refuses a key that others could read
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield descriptor
    finally:
        os.close(descriptor)


class StayOnHost(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: credentials are for the first host only."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the redirect is the answer."""
