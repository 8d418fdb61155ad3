"""What an Application permits of Agents and systems that it applies: the digest of the spec that it applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gitsync.agents.model.agent import parse_agent
from gitsync.agents.model.system import parse_system
from gitsync.errors import InvalidInput
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.objects.parsing import Spec
from gitsync.objects.ref import GroupKind, ref_of

_PARSERS: Final[Mapping[GroupKind, Callable[[Manifest], Spec]]] = {
    GroupKind(AGENTS_GROUP, "Agent"): lambda manifest: parse_agent(manifest).spec,
    GroupKind(AGENTS_GROUP, "MultiAgentSystem"): lambda manifest: parse_system(manifest).spec,
}
_LENGTH = 40
"""Hexadecimal digits of a digest, see ``plan.applied``."""


def spec_digest(manifest: Manifest) -> str:
    """
    Return the digest of the spec of an Agent or a system, empty for another kind and for a spec that is not valid.

    Defaults count as if they were written, since the API server fills them in. ``replicas`` does not count: whatever
    scales an Agent sets it, by the subresource ``scale``.
    """
    # each object of each commit asks, and nearly all are of other groups
    if not str(manifest.get("apiVersion")).startswith(f"{AGENTS_GROUP}/"):
        return ""
    parse = _PARSERS.get(ref_of(manifest).of)
    if parse is None:
        return ""
    try:
        members = parse(manifest).model_dump(mode="json", exclude={"replicas"})
    except InvalidInput:
        # An invalid spec is never carried out, so that nothing of it has to be permitted.
        return ""
    return content_hash(members)[:_LENGTH]
