"""
Landlock and seccomp: what a process may no longer do with files and the network, for itself and what it starts.

By ctypes: the C library has no functions for these system calls. Source: ``include/uapi/linux/landlock.h``,
https://docs.kernel.org/userspace-api/landlock.html and https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

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
_NEWER_RIGHTS: Final = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Moving between folders, truncating, and commands of devices, by the version that can restrict them."""
_TCP: Final = 0b11
"""Binding and connecting, from version 4 on."""
_SCOPES: Final = 0b11
"""Abstract Unix sockets of others, and signals to them, from version 6 on."""


_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_SOCKET_CALLS: Final = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""``AUDIT_ARCH`` and the number of ``socket`` of an architecture. Source: ``include/uapi/linux/audit.h``."""
_IO_URING_SETUP: Final = 425
"""It makes sockets without the system call ``socket``; the number is the same on all architectures."""
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


def landlock_version() -> int:
    """Return the version of Landlock that this kernel has, 0 where it has none or it is off."""
    return max(_call(_CREATE_RULESET, None, 0, _ASK_VERSION), 0)


def restrict(hidden: Iterable[Path] = (), shown: Iterable[Path] = ()) -> bool:
    """
    Forbid this process to change files, to use TCP, and to read what is hidden; return whether the kernel can.

    What other processes show in ``/proc`` is hidden too. ``shown`` are readable although they are in a hidden folder.
    What is open stays open. A folder that has a hidden one below it cannot be listed, and what appears in it later
    cannot be read.
    """
    version = landlock_version()
    if not version:
        return False
    rights = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _REMOVE_AND_MAKE
    rights |= sum(right for since, right in _NEWER_RIGHTS.items() if since <= version)
    # Older kernels know a shorter structure, and reject members that they do not know.
    attributes = struct.pack("=QQQ", rights, _TCP, _SCOPES)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        # Landlock lets a process read the environment of others, which the controller has its tokens in.
        own = _PROCESSES / str(os.getpid())
        concealed = {path.resolve() for path in hidden}
        above = {parent for path in (*concealed, own) for parent in path.parents}
        for path in (*_roots(Path("/"), concealed, above), own, *(path.resolve() for path in shown)):
            _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
        # git discards output there
        _allow(ruleset, Path(os.devnull), _READ_FILE | _WRITE_FILE)
        is_final = _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        return is_final and _call(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


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
        (_IF_EQUAL, 1, 0, socket.AF_UNIX),
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
            rights &= ~_READ_DIR
        # ``struct landlock_path_beneath_attr`` is packed
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call; return -1 where it fails."""
    typed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    return int(_LIBC.syscall(ctypes.c_long(number), *typed))
