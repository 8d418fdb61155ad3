"""
Write files that another process may wait for or read at any moment: each appears complete, or not at all; and find the
folders that are shipped beside the program.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o600
"""Mode of a file that only its owner may read: keys, tokens, kubeconfigs."""
PUBLIC = 0o644
"""Mode of a file that every user of the machine may read."""


def write_file(path: Path, content: str | bytes, mode: int) -> None:
    """
    Write a file with this mode by a rename in its folder, so that a reader finds the old content or the new one.

    A symbolic link stays, and its target is replaced. What is not a regular file (``/dev/stdout``, a pipe) is written
    in place. Raise OSError; the old content is then untouched.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(_bytes(content))
        return
    target = Path(os.path.realpath(path))
    with _draft(target, content, mode) as draft:
        draft.replace(target)


def create_file(path: Path, content: str | bytes, mode: int) -> None:
    """Write a file as ``write_file`` unless it exists; of two processes at once, both keep one content."""
    if path.exists():
        return
    with _draft(path, content, mode) as draft:
        try:
            os.link(draft, path)  # a rename would replace the file of a process that was faster
        except FileExistsError:
            return
        except OSError:
            draft.replace(path)  # a file system without hard links, such as FAT or a SMB share


@contextlib.contextmanager
def _draft(target: Path, content: str | bytes, mode: int) -> Iterator[Path]:
    """Yield a complete file beside the target; it is gone afterwards, whatever happened."""
    # in the same folder, because a rename across file systems is a copy
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_bytes(content))
            os.fchmod(stream.fileno(), mode)  # mkstemp makes it private, and the umask does not apply
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


_PACKAGE = Path(__file__).resolve().parent


def shipped_folder(name: str) -> Path:
    """Return a folder of the root of a checkout, or where a wheel has it; see ``force-include`` in pyproject.toml."""
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
