"""Heads of the audit chain outside the database: in memory, and in an append-only file where one is configured."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import orjson

from gitsync.errors import RecordUnavailable
from gitsync.objects.record import AuditHead, AuditRecord

# bytes at the end of the file that are read for its last line
_TAIL = 4096


class AuditHeads:
    """
    Keep the newest link that this process wrote, and append each to a file with one JSON object a line.

    The file may lack links (a crash before it was written, or other replicas), but never has one that the chain has
    not. Thread-safe.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._written: AuditHead | None = None

    def add(self, link: AuditRecord) -> None:
        """Keep the head of a chain that ends with this link; raise RecordUnavailable when the file is not writable."""
        head = AuditHead.of(link, "what this process wrote")
        with self._lock:
            # threads may arrive in another order than their links were appended
            if self._written is None or self._written.id < head.id:
                self._written = head
            if self._file is not None:
                _append(self._file, orjson.dumps(head.to_json()) + b"\n")

    def last(self) -> tuple[AuditHead, ...]:
        """Return the newest head of each place."""
        with self._lock:
            written = (self._written,) if self._written is not None else ()
        return (*written, *deque(self.kept(_TAIL), maxlen=1))

    def kept(self, tail: int = 0) -> Iterator[AuditHead]:
        """Yield the heads in the file, oldest first: all, or those in its last ``tail`` bytes."""
        if self._file is None or not self._file.exists():
            return
        with self._file.open("rb") as file:
            if tail:
                # the first line of the tail may be cut, which _parsed leaves out
                file.seek(max(0, file.seek(0, os.SEEK_END) - tail))
            for line in file:
                head = AuditHead.from_json(_parsed(line), str(self._file))
                if head is not None:
                    yield head


def _append(file: Path, line: bytes) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)  # O_APPEND: one write, so that lines of two processes do not mix
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RecordUnavailable(
            f"the head of the audit chain cannot be kept: {error.strerror}",
            location=str(file),
            hint="correct GITSYNC_AUDIT_HEADS or the permissions of its folder; nothing is applied meanwhile",
        ) from error


def _parsed(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # a line that was cut by a crash or by reading only the tail
