"""Record changes of the users file: who has a token, in which groups, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import content_hash
from gitsync.record.configuration_audit import ConfigurationAudit, owner_of
from gitsync.runtime.clock import Periodic
from gitsync.server.auth.users import read

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
            found = entries_of(read(self._file))
        except InvalidInput:
            return
        if found != self._recorded and self._audit.record(found, owner_of(self._file)):
            self._recorded = found


def entries_of(users: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the tokens of users by user and name of the token, each with a hash of groups, token hash and expiry."""
    return {
        str(user.get("name")) + (f" ({user['tokenName']})" if user.get("tokenName") else ""): content_hash(user)[:_HASH]
        for user in users
    }
