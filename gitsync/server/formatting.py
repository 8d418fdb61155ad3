"""Text of pages: invisible characters escaped, values, times, ages, links."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from gitsync.objects.change import ABSENT
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import APPLICATION

_KEPT = frozenset("\n\t")
# SHA-1 or SHA-256
_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHORT_ID = 7
# not before a digit, since a version is one word; not after an underscore, since LOG_LEVEL is one name
_SEPARATORS = re.compile(r"(?<=[^/:.@=][/:.@=])(?=[^/:.@=\d])|(?=\[)")
_ONE_LINE = 20
"""Characters that the narrowest column of a table has room for."""
_FOLDERS = {"Application": "/apps", "Agent": "/agents", "MultiAgentSystem": "/agents/systems"}
"""The folders of the pages of owners by their kind."""


def visible(text: object) -> str:
    """Return the text with control, bidirectional and other invisible characters escaped, so that it cannot mislead."""
    shown = str(text)
    # nearly every text: a pass over its characters costs a hundred times as much, and a page has thousands of texts
    if shown.isprintable():
        return shown
    return "".join(
        char
        # Cf has the bidirectional controls, by which text reads other than it is (CVE-2021-42574)
        if char in _KEPT or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else f"\\u{ord(char):04x}"
        for char in shown
    )


def breakable(text: str) -> list[str]:
    """
    Return a long name or path in the parts between which a line may break.

    Without them a browser breaks an image or a field path at any letter: ``suppo`` and ``rt/triage``.
    """
    shown = visible(text)
    return _SEPARATORS.split(shown) if len(shown) > _ONE_LINE else [shown]


def value(item: Any) -> str:
    """Return a value of a manifest as one readable text; nothing for one that is absent."""
    import orjson

    if item is ABSENT:
        return ""
    if isinstance(item, str):
        return visible(item)
    # equal objects must not differ by the order of their keys
    return visible(orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode())


def parse_time(text: str | None) -> datetime | None:
    """Return the time of an RFC 3339 text, None when it is not valid."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def iso(time: datetime | str | None) -> str:
    """Return a time as RFC 3339, empty when it is not known."""
    moment = parse_time(time) if isinstance(time, str) else time
    return moment.isoformat() if moment is not None else ""


def utc(time: datetime | str | None) -> str:
    """Return a time in the one format of all pages: ``2026-11-22 07:15:31 UTC``; empty when it is not known."""
    moment = parse_time(time) if isinstance(time, str) else time
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment is not None else ""


def short_revision(revision: str) -> str:
    """Return the first 7 digits of a commit id, and any other revision, such as ``generation-2``, as a whole."""
    return visible(revision[:_SHORT_ID] if _COMMIT_ID.fullmatch(revision) else revision)


def age(since: datetime | str | None, now: datetime | None = None) -> str:
    """Return how long ago something was: ``12s``, ``5m``, ``3h``, ``9d``; empty when unknown."""
    start = parse_time(since) if isinstance(since, str) else since
    if start is None:
        return ""
    # the clock of a node may be ahead
    seconds = max(int(((now or datetime.now(UTC)) - start).total_seconds()), 0)
    # up to two of the next unit, as kubectl does: 119s tells more than 1m
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "m"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // divisor}{unit}"
    return f"{seconds // 86400}d"


@lru_cache(4096)
def app_url(key: str) -> str:
    """Return the path of the page of an owner by its key: an Application, an Agent, a system or an ApplicationSet."""
    owner = OwnerKey.parse(key)
    path = f"{quote(owner.namespace, safe='')}/{quote(owner.name, safe='')}"
    folder = _FOLDERS.get(owner.of.kind)
    # a set has no page of its own: its Applications do
    return f"{folder}/{path}" if folder else f"/apps?q={quote(f'set:{owner.namespace}/{owner.name}', safe='')}"


def sync_url(key: str, id: int) -> str:
    """Return the path of the page of a sync, or of the syncs of an owner without pages of its own."""
    url = app_url(key)
    return url if "?" in url else f"{url}/history/{id}"


def object_url(key: str, path: str) -> str:
    """Return the path of an object's page; of a child of an Agent or a system, that of its owner, which lists it."""
    url = app_url(key)
    return f"{url}/object?ref={quote(path, safe='')}" if url.startswith("/apps/") else url


def owner_name(key: str) -> str:
    """Return the name of an owner, with its kind unless it is an Application."""
    owner = OwnerKey.parse(key)
    return visible(owner.name if owner.of == APPLICATION else f"{owner.of.kind} {owner.name}")


@dataclass(frozen=True, slots=True)
class YamlPart:
    """A member of a manifest that can be folded: its first line with the number of it, and the lines below it."""

    number: int
    head: str
    body: str = ""

    @property
    def numbers(self) -> str:
        """The numbers of the lines of the body, one a line."""
        last = self.number + self.body.count("\n") + 1
        return "\n".join(map(str, range(self.number + 1, last + 1)))


# the first line of a member: not indented, no item of a list (which may be as far to the left as its key), not empty
_MEMBER = re.compile(r"^[^\s-].*", re.MULTILINE)


def yaml_parts(text: str) -> list[YamlPart]:
    """Return the members of a mapping in YAML; their lines, in order, are those of the text."""
    starts = [match.start() for match in _MEMBER.finditer(text)] or [0]
    parts = []
    number = 1
    for start, end in pairwise([*starts, len(text)]):
        member = text[start:end].removesuffix("\n")
        parts.append(YamlPart(number, *member.split("\n", 1)))
        number += member.count("\n") + 1
    return parts


def day_and_time(moment: datetime, now: datetime) -> str:
    """Return a time to come as people name it: ``today 14:03 UTC``, ``tomorrow …``, ``2026-03-08 …``."""
    moment = moment.astimezone(UTC)
    days = (moment.date() - now.astimezone(UTC).date()).days
    day = {0: "today", 1: "tomorrow"}.get(days, f"{moment:%Y-%m-%d}")
    return f"{day} {moment:%H:%M} UTC"


def duration(milliseconds: int) -> str:
    """Return a duration in the unit that reads best: ``12 ms``, ``3.4 s``, ``5 min``, ``24 h``, ``7 days``."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes = milliseconds // 60_000
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2 * 24 * 60 else f"{minutes // (24 * 60)} days"
