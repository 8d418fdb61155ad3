"""Parse commit objects."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from gitsync.objects.record import Commit

_PERSON = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^>]*)>(?: (?P<time>-?\d+) (?P<sign>[+-])(?P<zone>\d{4}))?")


def parse_commit(id: str, content: bytes) -> tuple[Commit, str]:
    """Return the metadata of a commit object and the id of its tree; text that is not valid is replaced."""
    head, _, message = content.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        fields.setdefault(name, value)  # a line of a signature starts with a space: its name is empty
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    author, committer = (_decoded(fields.get(name, b""), encoding) for name in (b"author", b"committer"))
    found = _PERSON.match(author)
    commit = Commit(
        id=id,
        author=found["name"].strip() if found else "",
        email=found["email"] if found else "",
        message=_decoded(message, encoding).strip(),
        time=_time(committer),
    )
    return commit, fields[b"tree"].decode()


def _decoded(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding, "replace")
    except LookupError:
        return text.decode("utf-8", "replace")


def _time(committer: str) -> datetime:
    """Return the time of a commit with its zone; the epoch where it is not valid."""
    found = _PERSON.match(committer)
    if found is None or found["time"] is None:
        return datetime.fromtimestamp(0, UTC)
    minutes = int(found["zone"][:2]) * 60 + int(found["zone"][2:])
    try:
        offset = timezone(timedelta(minutes=-minutes if found["sign"] == "-" else minutes))
        return datetime.fromtimestamp(int(found["time"]), offset)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
