"""Volumes and databases of an Agent, and the backups of its volumes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import Cron, Key, Name, ObjectName, Port, Seconds, SecretKeyRef, not_one_of
from gitsync.agents.model.runtime import Arguments, Image
from gitsync.kube.model import Rule, Ruled
from gitsync.objects.parsing import Keyed, Section, Text

_KEPT = "cannot be changed; rename the volume to get another one"


class Volume(Ruled):
    """A volume that outlives Pods."""

    RULES = (
        Rule("self.scope == oldSelf.scope", _KEPT, "scope"),
        # These fields of a claim are immutable in Kubernetes: a change could only fail later.
        Rule("self.accessModes == oldSelf.accessModes", _KEPT, "accessModes"),
        Rule(
            "has(self.storageClassName) == has(oldSelf.storageClassName)"
            " && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            _KEPT,
            "storageClassName",
        ),
        Rule("!has(self.restoreFrom) || self.scope == 'Shared'", "is for a Shared volume", "restoreFrom"),
        not_one_of(("agent-config", "agent-card", "agent-topology", "agent-databases")),
        Rule(
            "self.mountPath != '/etc/agent' && !self.mountPath.startsWith('/etc/agent/')",
            "/etc/agent has what the operator mounts",
            "mountPath",
        ),
        # Kubernetes only lets a claim grow.
        Rule("quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0", "a volume only grows", "size"),
    )

    name: Name = Field(description="Name of the volume, unique in the Agent.")
    mount_path: Annotated[str, Field(max_length=512, pattern=r"^/[^:]*$")] = Field(
        description="Where the runtime finds it."
    )
    scope: Literal["Shared", "PerReplica"] = Field(
        "Shared", description="`Shared`: one claim for all replicas; `PerReplica`: one for each, of a StatefulSet."
    )
    size: Annotated[str, Field(max_length=20, pattern=r"^[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$")] = Field(
        description="Requested size; it only grows."
    )
    access_modes: Annotated[
        tuple[Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"], ...],
        Field(strict=False, min_length=1, max_length=4),
    ] = Field(("ReadWriteOnce",), description="Access modes of the claim.")
    storage_class_name: ObjectName | None = Field(None, description="StorageClass; absent: the cluster's default.")
    restore_from: ObjectName | None = Field(
        None, description="VolumeSnapshot that a new claim starts from; without effect while the claim exists."
    )
    on_delete: Literal["Retain", "Delete"] = Field(
        "Retain", description="What happens to the data when the Agent is deleted."
    )


class Tls(Section):
    """How a database connection is encrypted."""

    mode: Literal["Disable", "Require", "VerifyCA", "VerifyFull"] = Field(
        "VerifyFull", description="What of the server's certificate is verified."
    )
    ca_secret_key_ref: SecretKeyRef | None = Field(
        None, description="Secret member with the CA certificates; absent: those of the system."
    )


class DatabaseSecret(Section):
    """A Secret with user name and password."""

    name: ObjectName = Field(description="Name of a Secret in the namespace of the Agent.")
    username_key: Key | None = Field(None, description="Its member with the user name; absent: none is sent.")
    password_key: Key = Field("password", description="Its member with the password.")


class DatabaseCredentials(Section):
    """How the Agent signs in at a database."""

    secret_ref: DatabaseSecret = Field(description="Secret with user name and password.")


class Database(Section):
    """A database that exists already."""

    name: Name = Field(description="Name of the database, unique in the Agent; it becomes `DB_<NAME>_…`.")
    engine: Literal["PostgreSQL", "MySQL", "Redis", "MongoDB", "Qdrant"] = Field(description="What the server is.")
    host: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$")] = Field(
        description="Host name or address of the server."
    )
    port: Port = Field(description="Its port.")
    database: Annotated[Text, Field(max_length=128)] | None = Field(None, description="Name of the database there.")
    tls: Tls | None = Field(None, description="How the connection is encrypted; absent: it is not.")
    credentials: DatabaseCredentials | None = Field(None, description="How the Agent signs in.")


class State(Ruled):
    """What an Agent keeps outside its Pods."""

    RULES = (
        Rule(
            "!has(self.volumes)"
            " || self.volumes.all(one, self.volumes.exists_one(other, other.mountPath == one.mountPath))",
            "two volumes have the same mountPath",
            "volumes",
        ),
    )

    volumes: Annotated[tuple[Volume, ...], Field(strict=False, max_length=16), Keyed("name")] = Field(
        (), description="Volumes that outlive Pods."
    )
    databases: Annotated[tuple[Database, ...], Field(strict=False, max_length=16), Keyed("name")] = Field(
        (), description="Databases that the Agent uses."
    )


class Backup(Section):
    """When and how the data of volumes is copied; copies outlive the Agent."""

    schedule: Cron | None = Field(
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
