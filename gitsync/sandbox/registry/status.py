"""ApiError: a refusal, as the Kubernetes Status that the client will see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause in ``details.causes``: ``reason`` such as FieldValueInvalid, the field's path, the text."""

    reason: str
    message: str
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the cause as the dict of ``details.causes`` in a Status."""
        members = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in members.items() if value}


@dataclass(eq=False)
class ApiError(Exception):
    """
    Refuse a request with an HTTP code and a Status body.

    ``details`` holds name, group, kind (the resource), uid and causes as the API server spells them.
    """

    code: int
    reason: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def to_status(self) -> dict[str, Any]:
        """Return the Status body."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status
