"""The running analysis of a newly applied commit, kept in the status so that it survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """
    The start of the analysis, since when each metric limit has been exceeded, and since when health is Degraded.

    ``failure`` is why the commit failed, where ``onDegraded`` is ``Ignore``.
    """

    commit: str
    since: datetime
    exceeded_since: Mapping[str, datetime] = field(default_factory=dict)
    failure: str = ""
    degraded_since: datetime | None = None

    @classmethod
    def from_status(cls, status: Any) -> AnalysisRun | None:
        """Return the analysis that a status keeps, None when it keeps none."""
        if not isinstance(status, dict) or "since" not in status:
            return None
        over = {str(entry["name"]): datetime.fromisoformat(str(entry["since"])) for entry in status.get("over") or ()}
        since = datetime.fromisoformat(str(status["since"]))
        degraded = datetime.fromisoformat(str(status["degradedSince"])) if status.get("degradedSince") else None
        return cls(str(status.get("commit", "")), since, over, str(status.get("verdict", "")), degraded)

    def to_status(self) -> dict[str, Any]:
        """Return what the status keeps."""
        kept: dict[str, Any] = {"commit": self.commit, "since": _text(self.since)}
        if self.exceeded_since:
            kept["over"] = [{"name": name, "since": _text(since)} for name, since in self.exceeded_since.items()]
        if self.degraded_since is not None:
            kept["degradedSince"] = _text(self.degraded_since)
        return kept | ({"verdict": self.failure} if self.failure else {})


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
