"""Backups of an Agent's volumes."""

from __future__ import annotations

from typing import Annotated

from croniter import croniter
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from gitsync.agents.model.base import ObjectName, Seconds
from gitsync.agents.model.runtime import Arguments, Image
from gitsync.objects.parsing import Section


class Backup(Section):
    """When and how the data of volumes is copied; copies outlive the Agent."""

    schedule: Annotated[str, Field(max_length=100, pattern=r"^\S+ \S+ \S+ \S+ \S+$")] | None = Field(
        None, description="Cron expression in UTC: minute, hour, day, month, weekday; absent: not by time."
    )
    before_dangerous: bool = Field(
        True, description="Whether a dangerous change of the Agent waits for a backup that succeeded."
    )
    keep: Annotated[int, Field(ge=1, le=100)] = Field(7, description="How many succeeded backups are kept.")
    volume_snapshot_class_name: ObjectName | None = Field(
        None, description="VolumeSnapshotClass; absent: the cluster's default."
    )
    command: Arguments = Field(
        (),
        description="Command that copies `/backup/<claim>`, and databases by the variables of the agent, where"
        " VolumeSnapshot is not served; it gets `BACKUP_ID`.",
    )
    image: Image | None = Field(None, description="Image of the command; absent: that of the runtime.")
    timeout_seconds: Seconds = Field(3600, description="How long the command may take.")

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, schedule: str | None) -> str | None:
        if schedule is not None and not croniter.is_valid(schedule):
            hint = 'write minute, hour, day, month, weekday: "0 3 * * *"'
            raise PydanticCustomError("cron", "not a cron expression", {"hint": hint})
        return schedule
