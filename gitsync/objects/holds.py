"""
Holds: fields of live objects that a user keeps as they are for some time, whatever Git declares.

Each is an annotation of the Application, with a field manager of its own: two users who hold fields at once overwrite
nothing of each other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from gitsync.objects.keys import HOLD_PREFIX
from gitsync.objects.manifest import Manifest, annotations_of, content_hash
from gitsync.objects.ref import ObjectRef

LONGEST_HOLD: Final = timedelta(hours=24)
"""How long a hold lasts at most: what stays longer belongs into Git, or into ``spec.sync.ignoreDifferences``."""

_QUOTED: Final = re.compile(r'\.?\["((?:[^"\\]|\\.)*)"\]')
_SELECTOR: Final = re.compile(r"\[([^\[\]]*=[^\[\]]*)\]")
_SEPARATOR: Final = re.compile(r',(?=[\w"]*=)')


@dataclass(frozen=True, slots=True)
class FieldHold:
    """A field of an object, ``.spec.replicas``, that is left as it is until a time, by whom, and why."""

    ref: ObjectRef
    field: str
    until: datetime
    by: str
    reason: str

    @classmethod
    def of_field(cls, ref: ObjectRef, field: str, until: datetime, by: str, reason: str) -> FieldHold:
        """Return the hold of a field as a user names it, with or without the dot in front."""
        return cls(ref, f".{field.removeprefix('.')}", until, by, reason)

    @property
    def name(self) -> str:
        """The name of the annotation, which is the same for the same field: holding it again replaces the hold."""
        return HOLD_PREFIX + content_hash([self.ref.path, field_key(self.field)])[:10]

    def to_annotation(self) -> str:
        """Return the value of the annotation."""
        members = {"object": self.ref.path, "field": self.field, "until": self.until.isoformat(timespec="seconds")}
        return orjson.dumps({**members, "by": self.by, "reason": self.reason}).decode()

    def is_active(self, now: datetime) -> bool:
        """Whether it is in force: an end that is too far away was not written by a request, and holds nothing."""
        return now < self.until <= now + LONGEST_HOLD

    @property
    def text(self) -> str:
        """The field and its object in one line."""
        return f"{self.ref.kind} {self.ref.name} {self.field}"


def hold_manager(name: str) -> str:
    """Return the field manager of the annotation of a hold."""
    return name.replace("gitsync.dev/", "gitsync-")


def holds_of(application: Manifest) -> tuple[FieldHold, ...]:
    """Return the holds of an Application, also those that have ended; annotations of another form are left out."""
    annotations = annotations_of(application)
    holds = (_parsed(text) for name, text in sorted(annotations.items()) if name.startswith(HOLD_PREFIX))
    return tuple(hold for hold in holds if hold is not None)


def _parsed(text: str) -> FieldHold | None:
    try:
        members: dict[str, Any] = orjson.loads(text)
        until = datetime.fromisoformat(str(members["until"]))
        ref = ObjectRef.from_path(str(members["object"]))
        field = str(members["field"])
    # a user who may annotate an Application can write any text
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if until.tzinfo is None or not field_key(field):
        return None
    return FieldHold(ref, field, until, str(members.get("by", "")), str(members.get("reason", "")))


def active_holds(holds: Iterable[FieldHold], now: datetime) -> tuple[FieldHold, ...]:
    """Return the holds that are in force."""
    return tuple(hold for hold in holds if hold.is_active(now))


def held_fields(holds: Collection[FieldHold], ref: ObjectRef) -> frozenset[str]:
    """Return the keys of the fields of an object that are held."""
    return frozenset(field_key(hold.field) for hold in holds if hold.ref == ref) if holds else frozenset()


@functools.lru_cache(maxsize=4096)
def field_key(path: str) -> str:
    r"""
    Return one spelling for all that name the same field.

    ``spec.ports[port=80]``, ``.spec.ports[port="80"]`` and, of names with dots, ``["a.b"]``, ``.a\.b`` and ``.a.b``.
    """
    plain = _QUOTED.sub(lambda match: f".{match[1]}", path)
    plain = _SELECTOR.sub(lambda match: f"[{','.join(sorted(_SEPARATOR.split(match[1])))}]", plain)
    return plain.replace('"', "").replace("\\", "").lstrip(".")
