"""What git needs to sign in at a server: secrets are in no argument and in no file on the disk."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from gitsync.errors import InvalidInput
from gitsync.ports import Credentials
from gitsync.source.git import REMOTE, environment
from gitsync.source.transport.ssh import memory_file, ssh_command

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
        config["http.extraHeader"] = f"Authorization: {authorization}"
        config[f"remote.{REMOTE}.url"] = _without_user(url)
    with ssh_command(credentials) as command, certificates(credentials, ca_file) as trusted:
        if trusted:
            config["http.sslCAInfo"] = trusted
        yield environment(schemes, config) | _proxies() | {"GIT_SSH_COMMAND": command}


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
    if not credentials.ca and ca_file is None:
        yield os.environ.get("SSL_CERT_FILE", "")
        return
    try:
        text = credentials.ca or "\n".join(file.read_text() for file in (ca_file, _system_file()) if file)
    except OSError as error:
        raise InvalidInput(f"cannot read {ca_file}: {error.strerror}", location="GITSYNC_GIT_CA") from error
    with memory_file("ca.crt", text) as path:
        yield path


def _system_file() -> Path | None:
    name = ssl.get_default_verify_paths().cafile  # of SSL_CERT_FILE where it is set
    return Path(name) if name else None


def _proxies() -> dict[str, str]:
    """Return the proxies in the spelling that curl reads for every scheme."""
    found = {name: os.environ.get(name) or os.environ.get(name.upper(), "") for name in _PROXIES}
    return {name: value for name, value in found.items() if value}


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
