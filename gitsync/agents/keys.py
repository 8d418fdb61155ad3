"""Labels, annotations and names of an Agent's children."""

from __future__ import annotations

from typing import Final

AGENT_LABEL: Final = "agents.gitsync.dev/agent"
"""Label on every child and Pod: the name of the Agent."""
TRACK_LABEL: Final = "agents.gitsync.dev/track"
"""Label on Pods: the workload that they belong to, such as ``stable`` or ``canary``."""
REVISION_LABEL: Final = "agents.gitsync.dev/revision"
"""Label on Pods and revisions: the hash of the revision."""
SERVING_LABEL: Final = "agents.gitsync.dev/serving"
"""Label on Pods that the Service selects; those of a preview do not have it."""
CHECK_LABEL: Final = "agents.gitsync.dev/check"
"""Label on the Pods of checks: the name of the Agent that they check."""
SYSTEM_LABEL: Final = "agents.gitsync.dev/system"
"""Label on the Agents of a MultiAgentSystem: its name."""

REFERENCES_ANNOTATION: Final = "agents.gitsync.dev/references"
"""Annotation on Pods: a hash of the Secrets and ConfigMaps that the Agent names, which rolls them when one changes."""
RESTARTED_AT: Final = "agents.gitsync.dev/restarted-at"
"""Annotation on an Agent, and from there on Pods: when a user restarted it."""
PROMOTE: Final = "agents.gitsync.dev/promote"
"""Annotation on an Agent: the revision that a user promotes."""
APPROVE: Final = "agents.gitsync.dev/approve"
"""Annotation on an Agent: the id of the held plan that a user approves."""
ABORT: Final = "agents.gitsync.dev/abort"
"""Annotation on an Agent: the revision that a user aborts."""
BACKUP: Final = "agents.gitsync.dev/backup-request"
"""Annotation on an Agent: the id of a backup that a user requests."""
BACKUP_LABEL: Final = "agents.gitsync.dev/backup"
"""Label on the objects of a backup: its id."""

EVALUATION: Final = "agents.gitsync.dev/evaluation"
"""Annotation on a kept revision: the verdict of its evaluation, as JSON."""

ORDERED_DELETION: Final = "agents.gitsync.dev/ordered-deletion"
"""Finalizer of a MultiAgentSystem whose members are deleted in order."""

CONFIG_PATH: Final = "/etc/agent/config"
CARD_PATH: Final = "/etc/agent/card"
TOPOLOGY_PATH: Final = "/etc/agent/topology"
DATABASES_PATH: Final = "/etc/agent/databases"
