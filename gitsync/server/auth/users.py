"""The users file: who may sign in with a token of their own, and to which groups they belong."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.files import PRIVATE, write_file
from gitsync.objects.manifest import content_hash
from gitsync.objects.user import User
from gitsync.record.configuration_audit import ConfigurationAudit, owner_of
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write
from gitsync.runtime.clock import Periodic

_MEMBERS = {"name", "groups", "tokenHash", "tokenName", "expires"}
_LONGEST = 100
_log = logging.getLogger(__name__)


def session_of(token: str) -> str:
    """Return the session id that a browser holds; the token cannot be derived from it."""
    return hmac.new(token.encode(), b"gitsync session", hashlib.sha256).hexdigest()


def account_of(token: str) -> str:
    """Return the name of the account in a generated token, which wrong secrets of that account have too."""
    name, dot, _ = token.rpartition(".")
    # Attempts keeps accounts as keys: a client must not choose how long they are
    return name if dot and len(name) <= _LONGEST else ""


def hash_of(session: str) -> str:
    """Return the hash stored in the users file; neither token nor session can be derived from it."""
    # without salt or stretching: a generated token has 256 random bits, which no list of passwords contains
    return hashlib.sha256(session.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a token, and until when it is valid."""

    user: User
    expires: datetime | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether the token is no longer valid."""
        return self.expires is not None and self.expires <= now


class Users:
    """
    The users of a file, which is read again when it changes. While it cannot be read, all sign-ins are refused.

    Raise InvalidInput when it cannot be used at first.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._stamp = self._file_version()
        self._people: Mapping[str, Holder] = people(read(file), str(file))

    def find(self, key: str, now: datetime | None = None) -> User | None:
        """Return who has the token with this hash, None for an unknown or expired one."""
        with self._lock:
            stamp = self._file_version()
            # by a stat at each sign-in: a removed user is refused at once
            if stamp != self._stamp:
                # before the file is read: a change in between differs from this version again
                self._stamp = stamp
                self._people = self._again()
            holder = self._people.get(key)
        return holder.user if holder is not None and not holder.is_expired(now or datetime.now(UTC)) else None

    def _file_version(self) -> tuple[int, int, int]:
        try:
            stat = self._file.stat()
        except OSError:
            # differs from every version of a file: its loss is a change
            return (0, 0, 0)
        # write_file replaces the file: the inode differs where time and size do not
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _again(self) -> Mapping[str, Holder]:
        try:
            return people(read(self._file), str(self._file))
        except InvalidInput as error:
            _log.error("the users file cannot be read; all sign-ins are refused: %s", error)
            # not the users of before: one of them may have been removed
            return {}


def read(file: Path) -> list[dict[str, Any]]:
    """Return the entries of a users file; raise InvalidInput when it is not valid."""
    try:
        documents = read_all(file.read_bytes(), str(file))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", location=str(file)) from error
    entries = documents[0].get("users") if len(documents) == 1 else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidInput("has no list of users", location=str(file), hint="make it with: gitsync users add NAME")
    return entries


def people(entries: Iterable[Mapping[str, Any]], location: str) -> dict[str, Holder]:
    """Return the holder of each token hash; raise InvalidInput with the place of an invalid entry."""
    holders: dict[str, Holder] = {}
    names: set[tuple[str, str]] = set()
    for index, entry in enumerate(entries):
        place = f"{location}: users[{index}]"
        # a mistyped "expires" would make a token valid for ever
        if unknown := sorted(map(str, entry.keys() - _MEMBERS)):
            raise InvalidInput(f"{unknown[0]} is unknown", location=place, hint=f"write {', '.join(sorted(_MEMBERS))}")
        person = person_of(entry.get("name"), entry.get("groups", []), place, entry.get("tokenName", ""))
        key = entry.get("tokenHash")
        # compared as text: a hash in capitals would match no token
        if not isinstance(key, str) or len(key) != 64 or not set(key) <= set("0123456789abcdef"):
            raise InvalidInput(
                "tokenHash is not a valid hash", location=place, hint="make it with: gitsync users add NAME"
            )
        # of two users with one hash, the audit would name only the last
        if (person.name, person.token) in names or key in holders:
            token = f" with the token {person.token}" if person.token else ""
            raise InvalidInput(f"duplicate user {person.name}{token}", location=place)
        names.add((person.name, person.token))
        holders[key] = Holder(person, _expiry(entry.get("expires"), place))
    return holders


def _expiry(text: Any, location: str) -> datetime | None:
    if text is None:
        return None
    try:
        expiry = datetime.fromisoformat(text)
        # an aware time: Python does not compare it with one without an offset
        return expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)
    # TypeError: YAML may hold a number here
    except (TypeError, ValueError):
        raise InvalidInput(
            f"expires: {text!r} is not a time", location=location, hint='write "2026-12-31T00:00:00+00:00"'
        ) from None


def person_of(name: Any, groups: Any, location: str, token: Any = "") -> User:
    """Return a signed-in user; raise InvalidInput when a name or a group is not valid."""
    # no list: fails as an invalid name below
    names: list[Any] = groups if isinstance(groups, list) else [None]
    for text in (name, *names, *([token] if token != "" else [])):
        # the header of the proxy divides groups by commas; a line break would forge lines of a log
        is_name = isinstance(text, str) and text == text.strip() and text.isprintable() and "," not in text
        if not is_name or not 0 < len(text) <= _LONGEST:
            raise InvalidInput(
                f"{text!r} is not a valid name",
                location=location,
                hint=f"write 1 to {_LONGEST} printable characters without comma",
            )
    return User(name, tuple(names), is_authenticated=True, token=token)


def add(file: Path, name: str, groups: Iterable[str], token_name: str = "", expires: datetime | None = None) -> str:
    """
    Add a token of a user to the file, or replace the one of that name, and return it; only its hash is kept.

    All tokens of the user get these groups.
    """
    person = person_of(name, list(groups), str(file), token_name)
    others = read(file) if file.exists() else []
    kept = [entry for entry in others if (entry.get("name"), entry.get("tokenName", "")) != (name, token_name)]
    kept = [{**entry, "groups": list(person.groups)} if entry.get("name") == name else entry for entry in kept]
    # the name in front lets wrong secrets delay this account only, see account_of
    token = f"{name}.{secrets.token_urlsafe(32)}"
    entry: dict[str, Any] = {"name": person.name, "groups": list(person.groups)}
    entry |= {"tokenHash": hash_of(session_of(token))}
    entry |= {"tokenName": token_name} if token_name else {}
    entry |= {"expires": expires.isoformat(timespec="seconds")} if expires is not None else {}
    # before the file is replaced: with an invalid one every sign-in fails
    people([*kept, entry], str(file))
    _replace(file, write({"users": [*kept, entry]}))
    return token


def remove(file: Path, name: str) -> bool:
    """Remove a user from the file; return whether it had one of that name."""
    entries = read(file)
    kept = [entry for entry in entries if entry.get("name") != name]
    if len(kept) < len(entries):
        _replace(file, write({"users": kept}))
    return len(kept) < len(entries)


def _replace(file: Path, text: str) -> None:
    """Write the file whole or not at all, readable for its owner only."""
    try:
        write_file(file, text, PRIVATE)
    except OSError as error:
        raise InvalidInput(f"cannot be written: {error.strerror}", location=str(file)) from error


_EVERY = 2.0
"""Seconds between two reads of the file."""
_HASH = 16


class UserAudit(Periodic):
    """Audit each change of the users file, also one that was made while the controller was stopped."""

    def __init__(self, file: Path, audit: ConfigurationAudit) -> None:
        super().__init__("users", self.check, _EVERY)
        self._file = file
        self._audit = audit
        self._recorded: dict[str, str] | None = None

    def check(self) -> None:
        """Record that the file changed since it was read before; an invalid one, with which sign-in fails, is not."""
        try:
            entries = entries_of(read(self._file))
        except InvalidInput:
            return
        # record() is False while the database fails: the next check tries again
        if entries != self._recorded and self._audit.record(entries, owner_of(self._file)):
            self._recorded = entries


def entries_of(users: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the tokens of users by user and name of the token, each with a hash of groups, token hash and expiry."""
    return {
        str(user.get("name")) + (f" ({user['tokenName']})" if user.get("tokenName") else ""): content_hash(user)[:_HASH]
        for user in users
    }
