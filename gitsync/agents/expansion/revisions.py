"""
Revisions: the part of an Agent whose change replaces Pods, kept as ControllerRevisions.

Equal inputs are the same revision, also where a newer version of gitsync would expand them to another template: an
upgrade of the operator restarts no Agent. It gets the newer template with its next change, or by a user's request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gitsync.agents.expansion.config import PROMPT_FILE, config_data, config_name, prompt_of, tool_url
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.pods import pod_template
from gitsync.agents.keys import (
    CONFIG_VOLUME,
    EVALUATION,
    EXPANSION,
    INPUTS,
    REFERENCES_ANNOTATION,
    RESTARTED_AT,
    REVISION_LABEL,
    SPEC,
    UPGRADE,
    VERDICT,
    child,
)
from gitsync.agents.model.agent import Agent, AgentSpec
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, labels_of, metadata_of
from gitsync.objects.parsing import parse_spec

EXPANSION_VERSION: Final = 2
"""Raised by every change of what an equal spec expands to in Pods; 1 is that of revisions without a version."""

# Names of Pods are limited to 63 characters; 40 bits suffice for the few revisions of an Agent.
_HASH_LENGTH = 10

_OUTSIDE_PODS: Final[dict[str, Any]] = {
    # Served by the card, whose ConfigMap is not part of a revision; agent.json has the text of the last new one.
    "description": True,
    "owner": True,
    "suspend": True,
    "backup": True,
    "evaluation": True,
    "contract": True,
    "budget": True,
    "lifecycle": {"validate_", "on_validation_failure"},
    "replicas": True,
    "autoscaling": True,
    "availability": True,
    "update": True,
    "network": True,
    "expose": {"card"},
}
"""Members of a spec that no Pod has, besides those of facts."""

_LONGEST_SPEC = 128 * 1024
"""Bytes of a spec that is kept; all annotations of an object may have 256 KiB (apimachinery, validation/objectmeta)."""


@dataclass(frozen=True, slots=True)
class Revision:
    """
    One revision: its name, its Pod template without track, its configuration, and its number in the history.

    ``verdict`` is the result of its checks and ``evaluation`` that of its cases, as JSON, empty where there is none.
    ``spec`` is the one that it was described by, None where it is not known: of revisions of older versions, and of
    very long ones.
    """

    name: str
    template: Manifest
    config: dict[str, str]
    number: int = 1
    verdict: str = ""
    evaluation: str = ""
    expansion: int = 1
    inputs: str = ""
    spec: Manifest | None = None

    @property
    def hash(self) -> str:
        """The hash at the end of the name."""
        return self.name.rpartition("-")[2]

    @property
    def evaluation_verdict(self) -> Manifest:
        """The verdict of its evaluation, empty where there is none; a user may have edited the annotation."""
        return _parsed(self.evaluation) or {}

    @property
    def config_map(self) -> str:
        """The name of the ConfigMap with its configuration, empty where its Pods have none."""
        volumes = at(self.template, "spec", "volumes", default=())
        names = (at(volume, "configMap", "name") for volume in volumes if volume.get("name") == CONFIG_VOLUME)
        return str(next(names, ""))


def revision_of(agent: Agent, facts: Facts, number: int = 1) -> Revision:
    """Return the revision that the spec and the facts describe, as this version expands them."""
    data = config_data(agent, facts)
    template = pod_template(agent, facts, config_name(agent, data))
    name = f"{agent.name}-{content_hash([template, data])[:_HASH_LENGTH]}"
    return Revision(
        name=name,
        template=template,
        config=data,
        number=number,
        expansion=EXPANSION_VERSION,
        inputs=_inputs(agent, facts),
        spec=_kept_spec(agent),
    )


def described_revision(
    agent: Agent, facts: Facts, stored: Mapping[str, Revision], observed: str, *, upgrades: bool = False
) -> Revision:
    """
    Return the revision of the spec: a stored one where its inputs are the same, else a new one.

    ``observed`` is the revision that an older version of gitsync found for this generation, empty where the generation
    is new: it becomes that of these inputs. ``upgrades``: one that an older version expanded is expanded again.
    """
    number = max((revision.number for revision in stored.values()), default=0) + 1
    described = revision_of(agent, facts, number)
    # The newest of equal inputs, since an older version may have stored several.
    equal = [revision for revision in stored.values() if revision.inputs == described.inputs]
    known = max(equal, key=lambda revision: revision.number, default=None)
    legacy = stored.get(observed)
    if known is None and legacy is not None and _is_of(legacy, agent, facts):
        known = legacy
    if known is not None and known.expansion < EXPANSION_VERSION and upgrades:
        known = None
    if known is None:
        known = stored.get(described.name)
        if known is None:
            return described
        # Other inputs with the same result, or the result of another version: no Pod is replaced.
        known = replace(known, expansion=EXPANSION_VERSION)
    return replace(known, inputs=described.inputs, spec=described.spec)


def controller_revision(agent: Agent, revision: Revision) -> Manifest:
    """Return the object that keeps a revision, so that it can be restored."""
    kept = child(agent, "apps/v1", "ControllerRevision", revision.name)
    kept["metadata"]["labels"][REVISION_LABEL] = revision.hash
    # Annotations, not data: the API server refuses any change of the data of a ControllerRevision.
    marks = {
        VERDICT: revision.verdict,
        EVALUATION: revision.evaluation,
        EXPANSION: str(revision.expansion) if revision.inputs else "",
        INPUTS: revision.inputs,
        SPEC: json.dumps(revision.spec, sort_keys=True) if revision.spec is not None else "",
    }
    annotations = {name: value for name, value in marks.items() if value}
    if annotations:
        kept["metadata"]["annotations"] = annotations
    return {**kept, "revision": revision.number, "data": {"template": revision.template, "config": revision.config}}


def stored_revision(manifest: Manifest) -> Revision | None:
    """Return the revision that an object keeps, None for an object of another kind or form."""
    template = at(manifest, "data", "template")
    config = at(manifest, "data", "config")
    if manifest.get("kind") != "ControllerRevision" or REVISION_LABEL not in labels_of(manifest):
        return None
    if not isinstance(template, dict) or not isinstance(config, dict):
        return None
    annotations = annotations_of(manifest)
    version = annotations.get(EXPANSION, "")
    return Revision(
        name=str(metadata_of(manifest).get("name")),
        template=template,
        config=config,
        number=int(manifest.get("revision") or 1),
        verdict=annotations.get(VERDICT, ""),
        evaluation=annotations.get(EVALUATION, ""),
        # A user may have edited the annotation: an unreadable version counts as the oldest.
        expansion=int(version) if version.isdecimal() else 1,
        inputs=annotations.get(INPUTS, ""),
        spec=_parsed(annotations.get(SPEC, "")),
    )


def is_upgrade_requested(annotations: Mapping[str, str]) -> bool:
    """Whether a user wants the Pods of an Agent as this version expands its spec."""
    version = annotations.get(UPGRADE, "").partition("/")[0]
    # At least: a request for an earlier version is fulfilled by a later one.
    return version.isdecimal() and int(version) >= EXPANSION_VERSION


def upgrade_limit(annotations: Mapping[str, str]) -> str:
    """Return how many Agents at a time a user wants to upgrade, empty where the request does not have it."""
    return annotations.get(UPGRADE, "").partition("/")[2]


def agents_of(agent: Agent, revisions: Iterable[Revision]) -> dict[str, Agent]:
    """Return the Agent with the spec of each of these revisions, by name, as far as their specs are known."""
    agents = {}
    for revision in revisions:
        if revision.spec is None:
            continue
        try:
            spec = parse_spec(AgentSpec, revision.spec, "spec", object=str(agent.ref))
        except InvalidInput:
            # A stricter version of gitsync: what such a revision needs cannot be computed any more.
            continue
        agents[revision.name] = replace(agent, spec=spec, declared=revision.spec)
    return agents


def _inputs(agent: Agent, facts: Facts) -> str:
    """
    Return the hash of what Pods and configuration are made from.

    Defaults are left out, so that a field which a newer version adds does not make another revision of an equal spec.
    """
    spec = agent.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_OUTSIDE_PODS)
    observed = [
        facts.prompt,
        facts.references,
        facts.restarted_at,
        facts.topology,
        [tool_url(agent, tool, facts) for tool in agent.spec.tools],
        [
            [channel.name, channel.broker, channel.secret.model_dump(mode="json") if channel.secret else None]
            for channel in facts.channels
        ],
    ]
    # Of these sections only excluded members may be set: they are like absent ones then. Others, such as an empty
    # leaderElection, mean something by being there.
    emptied = [name for name in ("lifecycle", "expose") if spec.get(name) == {}]
    present = {name: value for name, value in spec.items() if name not in emptied}
    return content_hash([present, observed])[:16]


def _is_of(revision: Revision, agent: Agent, facts: Facts) -> bool:
    """Whether a revision without inputs is of the facts of today: everything else is a part of its generation."""
    annotations = at(revision.template, "metadata", "annotations", default={})
    observed = (
        revision.config.get(PROMPT_FILE, ""),
        annotations.get(REFERENCES_ANNOTATION, ""),
        annotations.get(RESTARTED_AT, ""),
    )
    return not revision.inputs and observed == (prompt_of(agent, facts), facts.references, facts.restarted_at)


def _kept_spec(agent: Agent) -> Manifest | None:
    prompt = agent.declared.get("prompt") or {}
    spec = {**agent.declared, **({"prompt": {**prompt, "text": "-"}} if prompt.get("text") else {})}
    return spec if len(json.dumps(spec)) <= _LONGEST_SPEC else None


def _parsed(text: str) -> Manifest | None:
    try:
        spec = json.loads(text)
    except json.JSONDecodeError:
        return None
    return spec if isinstance(spec, dict) else None
