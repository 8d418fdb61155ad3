"""
Run git with fixed arguments, a clean environment, limits and a deadline.

GitPython's own runner hands the whole environment of this process to git and cannot limit what git writes, so
every command on a mirror goes through here; GitPython finds the repository around a folder, and makes the demo's.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, cast

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.runtime.guard import guarded
from gitsync.source.landlock import Confinement

_PASSED_ON = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")

# Nothing from Git content, the machine's configuration or the user's home may change what git does.
_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.symlinks": "false",
    "protocol.ext.allow": "never",
    "protocol.fd.allow": "never",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "transfer.fsckObjects": "false",
    # What a server sends must not decide how much memory git takes: files above 16 MiB are streamed instead of held,
    # and one thread resolves deltas, since each has a cache of its own.
    "core.bigFileThreshold": "16m",
    "core.deltaBaseCacheLimit": "32m",
    "pack.threads": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "credential.helper": "",
    "commit.gpgSign": "false",
}

REMOTE = "upstream"
"""The name of the Git server's repository in the environment for talking to it."""
# the first patch of a minor version of Git 2 that knows GIT_NO_LAZY_FETCH; all since 2.45 do (Git's release notes)
_WITHOUT_LAZY_FETCHES = {39: 4, 40: 2, 41: 1, 42: 2, 43: 4, 44: 1}


class GitFailed(Exception):
    """git ended with an error; the text is its own, without paths of this machine; ``printed`` has its output too."""

    def __init__(self, text: str, printed: str = "") -> None:
        super().__init__(text)
        self.printed = printed


class GitTimedOut(SourceUnavailable):
    """git was ended because it took too long; ``printed`` is its output until then."""

    printed: bytes = b""


class OutputTooLarge(Exception):
    """git printed more than its caller may keep in memory."""


def require_git() -> None:
    """Raise InvalidInput when the git executable is not found."""
    if shutil.which("git") is None:
        raise InvalidInput("git is not installed, or not on PATH", hint="install Git, or add its folder to PATH")


@cache
def can_leave_out_files() -> bool:
    """Return whether this git can be kept from fetching by itself, without end, what a server left out."""
    # Such as `git version 2.39.3 (Apple Git-146)`, or `git version 2.45.0.rc1`. Not by GitPython, which starts git
    # three times for it, and would stay in the memory of every controller.
    printed = run(Path(os.devnull), "version", env=environment(())).decode()
    major, minor, patch, *_ = (*map(int, re.findall(r"\d+", printed.split()[2])), 0, 0, 0)
    first_patch = _WITHOUT_LAZY_FETCHES.get(minor, 0 if minor >= 45 else None)
    return major > 2 or (major == 2 and first_patch is not None and patch >= first_patch)


def environment(schemes: Sequence[str], config: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment git runs in: nothing of ours but what reaching a server takes."""
    entries = {**_CONFIG, **(config or {})}
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env |= {
        "GIT_ALLOW_PROTOCOL": ":".join(schemes),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",  # never prompt, neither the terminal nor a program
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_NO_LAZY_FETCH": "1",  # each could start another
        "GIT_NO_REPLACE_OBJECTS": "1",
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_COUNT": str(len(entries)),
    }
    for index, (key, value) in enumerate(entries.items()):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return env


def run(
    git_dir: Path,
    *arguments: str,
    env: Mapping[str, str],
    timeout: float = 60.0,
    stdin: bytes = b"",
    max_file_bytes: int = 0,
    max_memory_bytes: int = 0,
    max_output: int = 0,
    is_guarded: bool = False,
    inherited: Sequence[int] = (),
    confinement: Confinement | None = None,
    fails_on: str = "",
) -> bytes:
    """
    Run one git command in a bare repository and return its output.

    No argument may start with outside text: callers pass options, full ref names and object ids only. Raise
    GitFailed with git's own words, GitTimedOut after ``timeout`` seconds, SourceUnavailable when it is killed. A file
    that git writes, such as a fetched pack, may be at most ``max_file_bytes``, what each of its processes allocates at
    most ``max_memory_bytes`` (0: no limit). Raise OutputTooLarge past ``max_output`` bytes of output. A guarded command
    has no input, and ends with all its children when this process is killed; it has the descriptors ``inherited``.
    Under a ``confinement`` git changes files of the repository only, and has no network unless it is guarded. A warning
    with the text ``fails_on`` is an error.
    """
    command = ["git", "--git-dir", str(git_dir), *arguments]
    with _started(command, env, git_dir, confinement, inherited, is_guarded=is_guarded) as process:
        if max_file_bytes:
            # after the start, since preexec_fn is not safe with threads; git writes its pack later than that
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
        if max_memory_bytes:
            # RLIMIT_DATA, not RLIMIT_AS: packs are mapped as a whole, and the pages of a file can be given back
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (max_memory_bytes, max_memory_bytes))
        try:
            if max_output:
                out, err = _limited_output(process, timeout, max_output)
            else:
                out, err = process.communicate(None if is_guarded else stdin, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            late = GitTimedOut(
                f"git {arguments[0]} took longer than {timeout:.0f} s", hint="is the Git server reachable?"
            )
            late.printed = error.output or b""
            raise late from None
    if process.returncode < 0:  # such as SIGKILL by the kernel where memory is short
        raise SourceUnavailable(
            f"git {arguments[0]} was ended by signal {-process.returncode}", hint="is the memory limit too low?"
        )
    if process.returncode != 0 or (fails_on and fails_on in err.decode(errors="replace")):
        text = err.decode(errors="replace").replace(str(git_dir), "the mirror").strip()
        raise GitFailed(
            text or f"git {arguments[0]} ended with {process.returncode}", (out + err).decode("utf-8", "replace")
        )
    return bytes(out)


def _limited_output(process: subprocess.Popen[bytes], timeout: float, limit: int) -> tuple[bytes, bytes]:
    """Return the output of a process and its errors; raise OutputTooLarge, TimeoutExpired as ``communicate`` does."""
    assert process.stdout is not None
    assert process.stderr is not None
    ends = time.monotonic() + timeout
    chunks: dict[IO[bytes], list[bytes]] = {process.stdout: [], process.stderr: []}
    size = 0
    with selectors.DefaultSelector() as selector:
        for stream in chunks:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(ends - time.monotonic(), 0.0))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, timeout, b"".join(chunks[process.stdout]))
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                size += len(chunk)
                if size > limit:
                    raise OutputTooLarge
                if not chunk:
                    selector.unregister(key.fileobj)
                chunks[cast("IO[bytes]", key.fileobj)].append(chunk)
    process.wait(max(ends - time.monotonic(), 0.0))
    return b"".join(chunks[process.stdout]), b"".join(chunks[process.stderr])


@contextlib.contextmanager
def _started(
    command: Sequence[str],
    env: Mapping[str, str],
    git_dir: Path,
    confinement: Confinement | None,
    inherited: Sequence[int],
    *,
    is_guarded: bool,
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process in a group of its own; at the end the whole group is killed, also when this process is."""
    # the guard waits on this pipe: the system closes our end however this process ends
    guard_end, our_end = os.pipe()

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            guarded(command) if is_guarded else command,
            stdin=guard_end if is_guarded else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            pass_fds=inherited,
            start_new_session=True,  # git starts ssh, curl helpers and index-pack: all are killed as one group
        )

    try:
        process = begin() if confinement is None else confinement.start(begin, git_dir, has_network=is_guarded)
        try:
            yield process
        finally:
            if is_guarded or process.returncode is None:  # otherwise the id may be that of another process by now
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    finally:
        os.close(guard_end)
        os.close(our_end)
