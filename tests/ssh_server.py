"""A real sshd on loopback for tests, which admits one key of the user that runs the tests."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.git_repository import ssh_key
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class SshServer:
    """A running server: its port, the line of its host key for ``known_hosts``, and the private key that it admits."""

    port: int
    known_hosts: str
    key: str
    key_file: Path
    pid: int

    def url(self, repository: Path) -> str:
        """Return the URL of a bare repository on this machine."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run sshd until the block ends; skip the test where sshd cannot run."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("sshd is not installed")
    try:
        Path("/run/sshd").mkdir(exist_ok=True)
    except OSError:
        pytest.skip("sshd needs the folder /run/sshd")
    folder.mkdir()
    host, user = ssh_key(folder, "host"), ssh_key(folder, "user")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": host,
        "AuthorizedKeysFile": user.with_suffix(".pub"),
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "PidFile": "none",
    }
    config = folder / "sshd_config"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    process = subprocess.Popen([program, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _accepts(port) or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip("sshd does not start here")
        public = " ".join(host.with_suffix(".pub").read_text().split()[:2])
        yield SshServer(port, f"[127.0.0.1]:{port} {public}\n", user.read_text(), user, process.pid)
    finally:
        process.terminate()
        process.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
