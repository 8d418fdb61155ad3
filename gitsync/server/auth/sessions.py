"""Sessions of browsers: encrypted cookies that expire, so that every replica with the same key knows them."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
from cryptography.fernet import Fernet, InvalidToken

from gitsync.errors import InvalidInput
from gitsync.files import PRIVATE, create_file
from gitsync.objects.user import User

_KEY_FILE: Final = "session.key"
_ENDED: Final = 10_000
"""Sessions whose sign-out is remembered."""


@dataclass(frozen=True, slots=True)
class Session:
    """Who signed in: by a token, whose hash is ``token``, or at a provider that named a user."""

    token: str = ""
    name: str = ""
    groups: tuple[str, ...] = ()
    id: str = ""

    @property
    def user(self) -> User:
        """The user that the provider named."""
        return User(self.name, self.groups, is_authenticated=True)


class Sessions:
    """Issue and read sessions; ``seconds`` is how long one is valid."""

    def __init__(self, key: str = "", seconds: float = 12 * 3600.0, clock: Callable[[], float] = time.time) -> None:
        # Fernet takes exactly 32 bytes; without a key, sessions end with the process
        secret = hashlib.sha256(key.encode()).digest() if key else secrets.token_bytes(32)
        self._fernet = Fernet(base64.urlsafe_b64encode(secret))
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def issue(self, session: Session) -> str:
        """Return the value of a cookie."""
        # the sessions of one token differ: a sign-out ends one of them
        return self.seal({**asdict(session), "id": secrets.token_hex(16)})

    def read(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None where it is invalid, expired or was ended."""
        session = self.open(cookie, self.seconds)
        if session is None or session.get("id") in self._ended:
            return None
        return Session(session["token"], session["name"], tuple(session["groups"]), session["id"])

    def end_of(self, cookie: str) -> datetime | None:
        """Return when the session of a cookie expires, None for one that is not valid."""
        if self.read(cookie) is None:
            return None
        return datetime.fromtimestamp(self._fernet.extract_timestamp(cookie.encode()) + self.seconds, UTC)

    def end(self, cookie: str) -> None:
        """Make the session of a cookie invalid here; without this it would be valid until it expires."""
        session = self.read(cookie)
        if session is None:
            return
        with self._lock:
            self._ended[session.id] = None
            # the oldest first: it also expires first
            while len(self._ended) > _ENDED:
                self._ended.popitem(last=False)

    def seal(self, content: dict[str, object]) -> str:
        """Return content as text that only a holder of the key can make or read."""
        return self._fernet.encrypt_at_time(orjson.dumps(content), int(self._clock())).decode()

    def open(self, text: str, seconds: float) -> dict[str, str] | None:
        """Return the content of a sealed text that is at most so old; None where it is not valid."""
        try:
            content: dict[str, str] = orjson.loads(
                self._fernet.decrypt_at_time(text.encode(), int(seconds), int(self._clock()))
            )
        # ValueError: orjson's own, and text that cannot be encoded
        except (InvalidToken, ValueError):
            return None
        return content


def session_key(data: Path) -> str:
    """Return the key of sessions in the data folder, made at the first start: sessions outlast a restart."""
    file = data / _KEY_FILE
    try:
        # does nothing where the file exists: two processes at once agree on one key
        create_file(file, secrets.token_urlsafe(32), PRIVATE)
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot be read or written: {error.strerror}", location=str(file)) from error
