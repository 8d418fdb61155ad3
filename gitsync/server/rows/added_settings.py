"""Dangerous fields that others added to an object and Git does not declare, such as a model. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.objects.change import Risk
from gitsync.plan.risk.drift import added_risk
from gitsync.ports import ResourceView
from gitsync.server.rows.objects import foreign_fields


@dataclass(frozen=True, slots=True)
class AddedSettings:
    """Who added what, as text of a cluster, and the newest time (RFC 3339) at which a field was set."""

    reason: str
    since: str


def added_settings(view: ResourceView) -> AddedSettings | None:
    """Return what others added to an object where that is Dangerous, else None."""
    fields = foreign_fields(view) if view.foreign else []
    risk = added_risk(fields)
    if risk is None or risk.risk is not Risk.DANGEROUS:
        return None
    owners = [owner for each in fields for owner in each.owners]
    managers = ", ".join(sorted({owner.manager for owner in owners}))
    since = max((owner.time for owner in owners), default="")
    return AddedSettings(f"{managers} {risk.reason}, which Git does not declare", since)
