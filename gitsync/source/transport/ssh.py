"""The ssh command line for git: the credentials of one Application, and nothing of the controller's user."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator

from gitsync.ports import Credentials

_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ConnectTimeout": "15",
    "ServerAliveInterval": "15",
    "PreferredAuthentications": "publickey",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "ControlPath": "none",
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
