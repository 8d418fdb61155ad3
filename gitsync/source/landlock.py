"""
Landlock and seccomp: what a process may no longer do with files and the network, for itself and what it starts.

By ctypes: the C library has no functions for these system calls. Source: ``include/uapi/linux/landlock.h``,
https://docs.kernel.org/userspace-api/landlock.html and https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import platform
import stat
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

# The numbers are the same on all architectures.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_PATH_BENEATH: Final = 1
_ASK_VERSION: Final = 1
_NO_NEW_PRIVS: Final = 38
"""``PR_SET_NO_NEW_PRIVS``, without which only root may restrict itself."""

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REMOVE_AND_MAKE: Final = sum(1 << bit for bit in range(4, 13))
_MOVE: Final = 1 << 13
_NEWER_RIGHTS: Final = {2: _MOVE, 3: 1 << 14, 5: 1 << 15}
"""Moving between folders, truncating, and commands of devices, by the version that can restrict them."""
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_BIND: Final = 0b01
_TCP: Final = 0b11
"""Binding and connecting, from version 4 on."""
_SCOPES: Final = 0b11
"""Abstract Unix sockets of others, and signals to them, from version 6 on."""
T = TypeVar("T")


_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_SOCKET_CALLS: Final = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""``AUDIT_ARCH`` and the number of ``socket`` of an architecture. Source: ``include/uapi/linux/audit.h``."""
_IO_URING_SETUP: Final = 425
"""It makes sockets without the system call ``socket``; the number is the same on all architectures."""
_UNIX: Final = 1
"""``AF_UNIX``."""
_X32: Final = 0x40000000
"""The first number of the x32 calls of x86_64, which have the same architecture."""
_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_DENY: Final = 0x00050000 | errno.EACCES
_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_FAMILY_AT: Final = 16
"""Where ``struct seccomp_data`` has the first argument, in little-endian order."""

_PROCESSES: Final = Path("/proc")
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@cache
def landlock_version() -> int:
    """Return the version of Landlock that this kernel has, 0 where it has none or it is off."""
    return max(_call(_CREATE_RULESET, None, 0, _ASK_VERSION), 0)


@dataclass(frozen=True, slots=True)
class Concealed:
    """Files and folders that a process may not read, and those in them that it may."""

    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()

    @classmethod
    def but(cls, hidden: Iterable[Path], shown: Iterable[Path]) -> Concealed:
        """Return what conceals some paths, but not the program itself and those that it starts."""
        # A data folder may be anywhere, also around the program; the checkout may have one.
        programs = map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))
        own = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).resolve().parent.parent)
        return cls(tuple(hidden), (*shown, *own, *programs))

    def readable(self, *own: Path) -> Iterator[Path]:
        """
        Yield the folders and files that together have all but what is hidden and what processes show in ``/proc``.

        ``own`` are folders of processes that are not hidden.
        """
        # Landlock lets a process read the environment of others, which the controller has its tokens in.
        concealed = {path.resolve() for path in self.hidden}
        above = {parent for path in (*concealed, _PROCESSES / "1") for parent in path.parents}
        yield from _roots(Path("/"), concealed, above)
        yield from own
        yield from (path.resolve() for path in self.shown)


def restrict(hidden: Iterable[Path] = (), shown: Iterable[Path] = ()) -> bool:
    """
    Forbid this process to change files, to use TCP, and to read what is hidden; return whether the kernel can.

    What other processes show in ``/proc`` is hidden too. ``shown`` are readable although they are in a hidden folder.
    What is open stays open. A folder that has a hidden one below it cannot be listed, and what appears in it later
    cannot be read.
    """
    version = landlock_version()
    ruleset = _new_ruleset(version, _READ | _changes(version), _TCP)
    if ruleset < 0:
        return False
    try:
        for path in Concealed(tuple(hidden), tuple(shown)).readable(_PROCESSES / str(os.getpid())):
            _allow(ruleset, path, _READ)
        # git discards output there
        _allow(ruleset, Path(os.devnull), _READ_FILE | _WRITE_FILE)
        return _enforce(ruleset)
    finally:
        os.close(ruleset)


class Confinement:
    """
    Start programs that read what others wrote: they change files of one folder, and do not read what is concealed.

    Where the kernel has no Landlock or no seccomp filters, what they would forbid is allowed. Which paths are concealed
    is determined once, since that takes milliseconds; without ``concealed``, all can be read.
    """

    def __init__(self, concealed: Concealed | None = None) -> None:
        self._readable = -1 if concealed is None else _of_readable(concealed)
        if self._readable >= 0:
            weakref.finalize(self, os.close, self._readable)

    def start(self, begin: Callable[[], T], changed: Path | None, *, has_network: bool) -> T:
        """
        Return what ``begin`` returns, which starts a program that may change files at and below ``changed`` only.

        Without network it has no socket but Unix ones; with it, it accepts no TCP connections.
        """

        def begin_confined() -> T:
            self._restrict(changed, has_network)
            return begin()

        started: Future[T] = Future()
        # Both restrict the thread that asks, and what it starts; a thread never gets rights back, so that it ends here.
        thread = threading.Thread(target=_settle, args=(started, begin_confined), name="confined")
        with _COLLECTIONS.paused():
            thread.start()
            thread.join()
        return started.result()

    def _restrict(self, changed: Path | None, has_network: bool) -> None:
        version = landlock_version()
        if self._readable >= 0:
            _enforce(self._readable)
        ruleset = _new_ruleset(version, _changes(version), _BIND if has_network else _TCP)
        if ruleset >= 0:
            try:
                if changed is not None:
                    _allow(ruleset, changed, _changes(version))
                _allow(ruleset, Path(os.devnull), _WRITE_FILE)
                _enforce(ruleset)
            finally:
                os.close(ruleset)
        if not has_network:
            forbid_sockets()


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # the caller's, who waits for the thread
        future.set_exception(error)


class _Collections:
    """
    Python's collections of garbage, which any thread may make.

    In a confined one, finalizers of objects of others would lack the right to remove files or to end processes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._was_on = False

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Make no automatic collection until the block ends, and no other one does."""
        with self._lock:
            self._was_on = gc.isenabled() if not self._pauses else self._was_on
            self._pauses += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._was_on and not self._pauses:
                    gc.enable()


_COLLECTIONS: Final = _Collections()


def _of_readable(concealed: Concealed) -> int:
    """Return a ruleset by which all but what is concealed can be read, negative where the kernel has none."""
    version = landlock_version()
    # A ruleset that does not name moves between folders forbids them: include/uapi/linux/landlock.h.
    move = _changes(version) & _MOVE
    ruleset = _new_ruleset(version, _READ | move, 0)
    for path in concealed.readable() if ruleset >= 0 else ():
        _allow(ruleset, path, _READ | move)
    return ruleset


def _changes(version: int) -> int:
    """Return the rights to change files that a version knows."""
    return _WRITE_FILE | _REMOVE_AND_MAKE | sum(right for since, right in _NEWER_RIGHTS.items() if since <= version)


def _new_ruleset(version: int, files: int, tcp: int) -> int:
    """Return a ruleset that forbids these rights, and signals to other processes; negative without Landlock."""
    if not version:
        return -1
    # Older kernels know a shorter structure, and reject members that they do not know.
    attributes = struct.pack("=QQQ", files, tcp, _SCOPES)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    return _call(_CREATE_RULESET, attributes, len(attributes), 0)


def _enforce(ruleset: int) -> bool:
    """Restrict this thread and what it starts; return whether the kernel did."""
    return _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and _call(_RESTRICT_SELF, ruleset, 0) == 0


def forbid_sockets() -> bool:
    """
    Forbid this process any socket but a Unix one, UDP and raw ones too; return whether the kernel can.

    Also calls of another architecture and ``io_uring``, by which a program would go around that.
    """
    known = _SOCKET_CALLS.get(platform.machine())
    if known is None:
        return False
    architecture, socket_call = known
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 0, 7, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_AT_LEAST, 5, 0, _X32),
        (_IF_EQUAL, 4, 0, _IO_URING_SETUP),
        (_IF_EQUAL, 1, 0, socket_call),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FAMILY_AT),
        (_IF_EQUAL, 1, 0, _UNIX),
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program, len(program))
    # ``struct sock_fprog``: a count, padded to the pointer behind it
    filters = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    if _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(_LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.c_char_p(filters), 0, 0) == 0)


def _roots(folder: Path, hidden: set[Path], above: set[Path]) -> Iterator[Path]:
    """Yield the folders and files at or below a folder that together have all but processes and what is hidden."""
    if folder in hidden or (folder.parent == _PROCESSES and folder.name.isdecimal()):
        return
    if folder not in above:
        yield folder
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # what cannot be listed cannot be allowed either
        return
    for entry in entries:
        # the target of a link is allowed where it is, unless it is hidden
        if not entry.is_symlink():
            yield from _roots(entry, hidden, above)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Allow rights at and below a path; one that is gone or cannot be opened stays forbidden."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        # The kernel rejects the rights of folders on a file.
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= ~(_READ_DIR | _REMOVE_AND_MAKE | _MOVE)
        # ``struct landlock_path_beneath_attr`` is packed
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call; return -1 where it fails."""
    typed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    return int(_LIBC.syscall(ctypes.c_long(number), *typed))
