"""Record changes of the users file: who has a token, in which groups, and until when."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import content_hash
from gitsync.record.configuration_audit import ConfigurationAudit, owner_of
from gitsync.server.auth.users import read

_EVERY = 2.0
"""Seconds between two reads of the file."""
_HASH = 16


class UserAudit:
    """Audit each change of the users file, also one that was made while the controller was stopped."""

    def __init__(self, file: Path, audit: ConfigurationAudit) -> None:
        self._file = file
        self._audit = audit
        self._recorded: dict[str, str] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="users", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def check(self) -> None:
        """Record that the file changed since it was read before; an invalid one, with which sign-in fails, is not."""
        try:
            found = entries_of(read(self._file))
        except InvalidInput:
            return
        if found != self._recorded and self._audit.record(found, owner_of(self._file)):
            self._recorded = found

    def _run(self) -> None:
        while True:
            self.check()
            if self._stopped.wait(_EVERY):
                return


def entries_of(users: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the tokens of users by user and name of the token, each with a hash of groups, token hash and expiry."""
    return {
        str(user.get("name")) + (f" ({user['tokenName']})" if user.get("tokenName") else ""): content_hash(user)[:_HASH]
        for user in users
    }
