"""Events and logs of one object, read from the API server when a user opens them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gitsync.objects.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """A Kubernetes Event about an object; ``last`` is RFC 3339, empty when unknown."""

    type: str
    reason: str
    message: str
    count: int = 1
    last: str = ""
    source: str = ""


class ObjectDetails(Protocol):
    """
    Read what no watch keeps: the Events of an object and the log of a container, by one request each.

    Called by the dashboard and its API when a user opens them. Raises ClusterUnavailable, and Rejected where the
    controller has no permission (``list`` events, ``get`` pods/log).
    """

    def events(self, ref: ObjectRef) -> tuple[KubernetesEvent, ...]:
        """Return the latest Events about an object, newest first."""
        ...

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 200) -> str:
        """Return the last lines of the log of a container, of the one before its restart if ``previous``."""
        ...


class EventWriter(Protocol):
    """Write Kubernetes Events about Applications. Called by the notifier; raises a GitsyncError where that fails."""

    def write_event(self, application: str, type: str, reason: str, message: str) -> None:
        """Write one Event about the Application ``namespace/name``; ``type`` is Normal or Warning."""
        ...
