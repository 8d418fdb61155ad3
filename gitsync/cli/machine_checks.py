"""Findings of ``gitsync doctor``, and the checks of the controller's machine: git and the data folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_OLDEST_GIT = (2, 31)
"""The first version that takes configuration from the environment (``GIT_CONFIG_COUNT``)."""
_FREE_BYTES = 1 << 30


class CheckState(StrEnum):
    """How a check ended."""

    OK = "OK"
    WARNING = "Warning"
    """It works, with the limit that the detail names."""
    MISSING = "Missing"
    """It does not work until the fix is applied."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, how that ended, and what to do."""

    check: str
    result: CheckState
    detail: str = ""
    fix: str = ""


def ok(check: str, detail: str = "") -> Finding:
    """Return a finding without a problem."""
    return Finding(check, CheckState.OK, detail)


def warning(check: str, detail: str, fix: str) -> Finding:
    """Return a finding that limits what works."""
    return Finding(check, CheckState.WARNING, detail, fix)


def missing(check: str, detail: str, fix: str) -> Finding:
    """Return a finding that prevents something."""
    return Finding(check, CheckState.MISSING, detail, fix)


def machine_findings(data: Path) -> Iterator[Finding]:
    """Yield the findings about git, ssh and the data folder."""
    yield _git()
    if shutil.which("ssh") is None:
        yield warning(
            "ssh", "ssh is not on PATH: only repositories over HTTPS can be read", "install an OpenSSH client"
        )
    yield from _data(data)


def _git() -> Finding:
    if shutil.which("git") is None:
        return missing("git", "git is not on PATH", "install Git 2.31 or newer, or add its folder to PATH")
    # a git that fails prints no version, which is reported below
    text = subprocess.run(["git", "version"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.search(r"(\d+)\.(\d+)", text)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST_GIT:
        return missing("git", f"{text or 'git version printed nothing'} is too old", "install Git 2.31 or newer")
    return ok("git", text)


def _data(data: Path) -> Iterator[Finding]:
    check = f"data folder {data}"
    fix = "name a folder that this user may write with --data or GITSYNC_DATA; in a pod, mount a volume on /data"
    try:
        data.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=data):  # the mode alone does not show a read-only file system
            pass
        free = shutil.disk_usage(data).free
    except OSError as error:
        yield missing(check, f"cannot be written by user {os.getuid()}: {error.strerror}", fix)
        return
    text = f"{free / (1 << 30):.1f} GiB free"
    yield ok(check, text) if free >= _FREE_BYTES else warning(check, text, "mirrors and history need 1 GiB; enlarge it")
