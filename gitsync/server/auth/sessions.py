"""Sessions of browsers: encrypted cookies that expire, whose sessions all replicas keep in one store."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import orjson
from cryptography.fernet import Fernet, InvalidToken

from gitsync.errors import InvalidInput, RecordUnavailable
from gitsync.files import PRIVATE, create_file
from gitsync.objects.user import BrowserSession, User
from gitsync.ports import SessionStore

_KEY_FILE: Final = "session.key"
_KNOWN: Final = 10_000
"""Sessions that a process remembers for while the database fails."""
_PAUSE: Final = 5.0
"""Seconds until a database that failed is asked again."""
_TEXT: Final = 100
"""Characters of what a client says of itself."""
_log = logging.getLogger(__name__)


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


_BROWSERS: Final = (
    # what each calls itself; all but Firefox call themselves Chrome or Safari too, so the order matters
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chrome", "Chrome"),
    ("HeadlessChrome", "Chrome"),
    ("Version", "Safari"),
)
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)


def browser_of(agent: str) -> str:
    """Return browser and system by the header ``User-Agent``, as "Firefox 145 on Linux"; else what it says."""
    products = {name: version.partition(".")[0] for name, version in _PRODUCT.findall(agent)}
    browser = next((f"{name} {products[product]}" for product, name in _BROWSERS if product in products), "")
    system = next((name for word, name in _SYSTEMS if word in agent), "")
    return f"{browser} on {system}" if browser and system else _text(agent)


_PRODUCT: Final = re.compile(r"([A-Za-z]+)/(\d[\d.]*)")


def _text(text: str) -> str:
    """Return what a client said as a short line, which PostgreSQL takes: it refuses NUL in text."""
    return "".join(filter(str.isprintable, text))[:_TEXT]


def stored_id(session: Session) -> str:
    """Return the id of a session in the store: the cookie cannot be made from it."""
    return hashlib.sha256(session.id.encode()).hexdigest()


class MemorySessions:
    """The sessions of one process without a database, as ``SessionStore``."""

    def __init__(self) -> None:
        self._sessions: dict[str, BrowserSession] = {}

    def start(self, session: BrowserSession) -> None:
        """Keep a session."""
        self._sessions[session.id] = session

    def is_open(self, id: str) -> bool:
        """Return whether a session was started and not ended since."""
        return id in self._sessions

    def of(self, owner: str) -> tuple[BrowserSession, ...]:
        """Return the sessions of a user, newest first."""
        return tuple(session for session in reversed(self._sessions.values()) if session.owner == owner)

    def end(self, ids: Collection[str]) -> None:
        """End sessions."""
        for id in ids:
            self._sessions.pop(id, None)


class Sessions:
    """
    Issue and read sessions; ``seconds`` is how long one is valid.

    A cookie alone is not enough: its session has to be in the store, at each request (decision 0067).
    """

    def __init__(
        self,
        key: str = "",
        seconds: float = 12 * 3600.0,
        clock: Callable[[], float] = time.time,
        store: SessionStore | None = None,
    ) -> None:
        # Fernet takes exactly 32 bytes; without a key, sessions end with the process
        secret = hashlib.sha256(key.encode()).digest() if key else secrets.token_bytes(32)
        self._fernet = Fernet(base64.urlsafe_b64encode(secret))
        self.seconds = seconds
        self.store = store or MemorySessions()
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, bool] = OrderedDict()
        """Whether sessions were valid when they were last looked up."""
        self._failing_until = 0.0

    def issue(self, session: Session, owner: str = "", address: str = "", browser: str = "") -> str:
        """Return the value of a cookie for a user (``owner``, empty for the shared token) and what the client said."""
        # the sessions of one token differ: each is ended alone
        session = replace(session, id=secrets.token_hex(16))
        started = datetime.fromtimestamp(self._clock(), UTC)
        ends = started + timedelta(seconds=self.seconds)
        id = stored_id(session)
        try:
            self.store.start(BrowserSession(id, owner, started, ends, _text(address), browser_of(browser)))
        except RecordUnavailable as error:
            # people may still view what happens: here, until the database answers and does not know the session
            _log.warning("a session of %s could not be stored: %s", owner or "the shared token", error)
        self._remember(id, is_open=True)
        return self.seal(asdict(session))

    def read(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None where it is invalid, expired or was ended."""
        session = self._opened(cookie)
        return session if session is not None and self._is_open(stored_id(session)) else None

    def id_of(self, cookie: str) -> str:
        """Return the id in the store of the session of a cookie, empty for a cookie that is not valid."""
        session = self._opened(cookie)
        return stored_id(session) if session is not None else ""

    def _opened(self, cookie: str) -> Session | None:
        content = self.open(cookie, self.seconds)
        # other texts are sealed with the same key, such as the plan of a form
        if content is None or "token" not in content:
            return None
        return Session(content["token"], content["name"], tuple(content["groups"]), content["id"])

    def _is_open(self, id: str) -> bool:
        """Return whether a session was not ended; while the database fails, whether it was valid before."""
        if time.monotonic() < self._failing_until:
            return self._known.get(id, False)
        try:
            is_open = self.store.is_open(id)
        except RecordUnavailable as error:
            _log.warning("sessions cannot be looked up: %s", error)
            # each request would wait for a database that does not answer
            self._failing_until = time.monotonic() + _PAUSE
            return self._known.get(id, False)
        self._remember(id, is_open=is_open)
        return is_open

    def _remember(self, id: str, *, is_open: bool) -> None:
        with self._lock:
            self._known[id] = is_open
            self._known.move_to_end(id)
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def of(self, owner: str) -> tuple[BrowserSession, ...]:
        """Return the sessions of a user that have not expired, newest first; raise RecordUnavailable."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        return tuple(session for session in self.store.of(owner) if session.ends > now)

    def end(self, ids: Collection[str]) -> None:
        """Make sessions invalid, on every replica; raise RecordUnavailable where only this process could."""
        # first: this process refuses them also where the database does not
        for id in ids:
            self._remember(id, is_open=False)
        self.store.end(ids)

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
