"""Audit what the operator configures in files: policies and users."""

from __future__ import annotations

import logging
import pwd
from collections.abc import Iterator, Mapping
from pathlib import Path

from gitsync.errors import RecordUnavailable
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.ports import Clock, Records

POLICY = "policy"
USERS = "users"
"""The actions of the records."""
_log = logging.getLogger(__name__)


class ConfigurationAudit:
    """
    Record which entries of a configuration were added, changed and removed since the last record of the action.

    So a change that was made while the controller was stopped is recorded too, and each one once.
    """

    def __init__(self, records: Records, clock: Clock, action: str) -> None:
        self._records = records
        self._clock = clock
        self._action = action

    def record(self, entries: Mapping[str, str], by: str) -> bool:
        """Record a change of the entries (name and hash of the content); return False while the database fails."""
        try:
            last = self._records.audit_records(action=self._action, limit=1)
            recorded = last[0].details.get("entries", {}) if last else {}
            # compared with the last record, not with memory: a restart must not record it again
            if recorded != entries:
                self._records.audit([self._change(recorded, entries, by)])
        except RecordUnavailable as error:
            _log.warning("the change of the %s is not recorded yet: %s", self._action, error)
            return False
        return True

    def _change(self, recorded: Mapping[str, str], entries: Mapping[str, str], by: str) -> AuditRecord:
        message = "; ".join(_differences(recorded, entries))
        details = {"entries": dict(entries)}
        now = self._clock.now()
        return AuditRecord(
            "", self._action, "", Outcome.SUCCEEDED, now, "", message=message, approver=by, details=details
        )


def _differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for word, names in (
        ("added", new.keys() - old.keys()),
        ("changed", {name for name in new.keys() & old.keys() if new[name] != old[name]}),
        ("removed", old.keys() - new.keys()),
    ):
        if names:
            yield f"{word} {', '.join(sorted(names))}"


def owner_of(path: Path) -> str:
    """Return the owner of a file or folder, by whose right it was changed; the user id where that has no name."""
    try:
        id = path.stat().st_uid
    except OSError:
        # lost: only the name; a change is recorded in any case
        return "unknown"
    try:
        return f"{pwd.getpwuid(id).pw_name} (owner of {path.name})"
    except KeyError:
        return f"user {id} (owner of {path.name})"
