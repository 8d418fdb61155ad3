"""Revisions: the part of an Agent whose change replaces Pods, kept as ControllerRevisions."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.agents.expansion.config import config_data, config_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.pods import pod_template
from gitsync.agents.keys import EVALUATION, REVISION_LABEL, child
from gitsync.agents.model.agent import Agent
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, labels_of, metadata_of

# Names of Pods are limited to 63 characters; 40 bits suffice for the few revisions of an Agent.
_HASH_LENGTH = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """
    One revision: its name, its Pod template without track, its configuration, and its number in the history.

    ``evaluation`` is the verdict of its evaluation as JSON, empty where there is none.
    """

    name: str
    template: Manifest
    config: dict[str, str]
    number: int = 1
    evaluation: str = ""

    @property
    def hash(self) -> str:
        """The hash at the end of the name."""
        return self.name.rpartition("-")[2]


def revision_of(agent: Agent, facts: Facts, number: int = 1) -> Revision:
    """Return the revision that the spec and the facts describe."""
    data = config_data(agent, facts)
    template = pod_template(agent, facts, config_name(agent, data))
    # Labels of version and track are in the template or added later; both must not split one revision.
    name = f"{agent.name}-{content_hash([template, data])[:_HASH_LENGTH]}"
    return Revision(name, template, data, number)


def controller_revision(agent: Agent, revision: Revision) -> Manifest:
    """Return the object that keeps a revision, so that it can be restored."""
    kept = child(agent, "apps/v1", "ControllerRevision", revision.name)
    kept["metadata"]["labels"][REVISION_LABEL] = revision.hash
    if revision.evaluation:
        kept["metadata"]["annotations"] = {EVALUATION: revision.evaluation}
    return {**kept, "revision": revision.number, "data": {"template": revision.template, "config": revision.config}}


def stored_revision(manifest: Manifest) -> Revision | None:
    """Return the revision that an object keeps, None for an object of another kind or form."""
    template = at(manifest, "data", "template")
    config = at(manifest, "data", "config")
    if manifest.get("kind") != "ControllerRevision" or REVISION_LABEL not in labels_of(manifest):
        return None
    if not isinstance(template, dict) or not isinstance(config, dict):
        return None
    name = str(metadata_of(manifest).get("name"))
    verdict = annotations_of(manifest).get(EVALUATION, "")
    return Revision(name, template, config, int(manifest.get("revision") or 1), verdict)
