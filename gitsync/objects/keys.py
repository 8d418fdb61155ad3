"""Every label, annotation, finalizer and field manager name, in one place."""

from __future__ import annotations

from typing import Final

from gitsync.objects.ref import GroupKind

GROUP: Final = "gitsync.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
APPLICATION: Final = GroupKind(GROUP, "Application")
APPLICATION_SET: Final = GroupKind(GROUP, "ApplicationSet")
AGENTS_GROUP: Final = "agents.gitsync.dev"

VERSION_ANNOTATION: Final = "gitsync.dev/version"
"""Annotation on our definitions: the version of gitsync that they are of."""
FIELD_MANAGER: Final = "gitsync"
"""The field manager of everything applied from Git."""
AGENTS_MANAGER: Final = "gitsync-agents"
"""The field manager of the children of Agents and MultiAgentSystems."""
SETS_MANAGER: Final = "gitsync-applicationset"
"""The field manager of the Applications of ApplicationSets."""
# One manager for each purpose: an apply removes the fields that its manager applied before and leaves out now.
STATUS_MANAGER: Final = "gitsync-status"
"""The field manager of Application status."""
SUSPEND_MANAGER: Final = "gitsync-suspend"
"""The field manager of ``spec.suspend`` when a user suspends or resumes an Application in the dashboard."""
REQUEST_MANAGER: Final = "gitsync-request"
"""The field manager of the annotation by which the command line asks for a sync."""
HINT_MANAGER: Final = "gitsync-hint"
"""The field manager of the annotation by which a replica asks another one to report the newest commit."""
PUSH_MANAGER: Final = "gitsync-push"
"""The field manager of the annotation by which a replica passes a push event on."""
REPAIR_MANAGER: Final = "gitsync-repair"
"""The field manager of the annotation by which a replica passes on that a user reverts drift."""
PIN_MANAGER: Final = "gitsync-pin"
"""The field manager of ``spec.source.revision`` while a user pins an Application to a commit."""

# The value of a label may not contain a slash: the namespace is in the annotation alone.
APPLICATION_LABEL: Final = "gitsync.dev/application"
"""Label on each applied object: the name of the Application that owns it."""
TRACKING_ID: Final = "gitsync.dev/tracking-id"
"""Annotation ``namespace/application:group/kind/namespace/name``: a copied object does not match it."""
SET_LABEL: Final = "gitsync.dev/applicationset"
"""Label on the Applications of an ApplicationSet: its name."""
MANAGED_BY: Final = "gitsync.dev/managed-by"
"""Annotation on the Applications of an ApplicationSet that is in Git: the Application that applied the set."""
TEMPLATE_HASH: Final = "gitsync.dev/template-hash"
"""Annotation on the Applications of an ApplicationSet: a hash of what was applied, to find fields that are gone."""
APPROVE_DELETIONS: Final = "gitsync.dev/approve-deletions"
"""Annotation on an ApplicationSet: the id of the deletions that a user approves."""
OWNER_UID: Final = "gitsync.dev/owner-uid"
"""
Annotation on the Agents of a system that is deleted in order: the uid of the system.

A foreground deletion of the system lets the garbage collector remove the owner reference to it.
"""
# With a domain: the API server refuses the name of a finalizer without one.
FINALIZER: Final = "gitsync.dev/finalizer"
"""Finalizer of an Application whose objects are deleted with it."""
PRE_DELETE: Final = "gitsync.dev/pre-delete"
"""Finalizer of one that has hooks to run before that."""
POST_DELETE: Final = "gitsync.dev/post-delete"
"""Finalizer of one that has hooks to run after that."""

SYNC_WAVE: Final = "gitsync.dev/sync-wave"
HOOK: Final = "gitsync.dev/hook"
HOOK_DELETE_POLICY: Final = "gitsync.dev/hook-delete-policy"
HOOK_RUN: Final = "gitsync.dev/hook-run"
"""Annotation on a hook that we started: for which sync, and in which phase."""
PRUNE: Final = "gitsync.dev/prune"
RECONCILE: Final = "gitsync.dev/reconcile"
FORCE: Final = "gitsync.dev/force"
IGNORE_DIFFERENCES: Final = "gitsync.dev/ignore-differences"
MASKED_FIELDS: Final = "gitsync.dev/masked-fields"
"""JSON Pointers of the fields that hold secrets, separated by spaces; ``*`` is every item of a list."""

EVALUATION_ANNOTATION: Final = "gitsync.dev/evaluation"
"""Annotation on an agent of any kind in Git: the ConfigMap with the cases that it has to pass before it is applied."""
EVALUATION_LABEL: Final = "gitsync.dev/evaluation-copy"
"""Label on what an evaluation makes: the name of its Job."""
EVALUATION_MANAGER: Final = "gitsync-evaluation"
"""The field manager of what an evaluation makes."""
REQUESTED_SYNC: Final = "gitsync.dev/requested-sync"
"""Annotation on an Application: a person asks for a sync now; the value is any new text, kept in status."""
REQUESTED_OBJECTS: Final = "gitsync.dev/requested-objects"
"""Annotation beside it: the objects that the requested sync is limited to, and how they are synced; see ``Choice``."""
REQUESTED_REPAIR: Final = "gitsync.dev/requested-repair"
"""Annotation on an Application: objects that a user wants to be restored, for its replica; see ``RepairRequest``."""

GIT_URLS: Final = "gitsync.dev/git-urls"
"""Of a Secret: patterns of the repositories that its credentials are for, separated by spaces."""
GIT_CHANGED: Final = "gitsync.dev/git-changed"
"""Annotation on an Application: Git has changed, and its newest commit is to be reported; the value is any new text."""
GIT_PUSHED: Final = "gitsync.dev/git-pushed"
"""Annotation on one Application or set of a branch: its repository is to be polled; the value is any new text."""

PINNED_FROM: Final = "gitsync.dev/pinned-from"
"""Annotation on an Application that a person pinned to a commit: the revision it followed before."""
HOLD_PREFIX: Final = "gitsync.dev/hold-"
"""Start of the annotations on an Application by which a user holds a field; each has a field manager of its own."""

# Repeats the whole object, so that of a Secret it has to be masked like its data.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
