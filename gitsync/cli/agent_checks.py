"""What the rendered objects of a folder show to be wrong with the references of its Agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitsync.agents.contract.lock import parse_lock
from gitsync.agents.evaluation.cases import parse_cases
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.model.base import ConfigMapKeyRef
from gitsync.agents.references import references
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ref_of
from gitsync.render.yaml.reader import read_all

_Named = Mapping[tuple[str, str, str], Manifest]
_SUFFIX = re.compile(r"-[a-z0-9]{10}$")
"""What a generator of Kustomize appends to names."""


def named_objects_of(manifests: Sequence[Manifest]) -> _Named:
    """Return ConfigMaps and Secrets by kind, namespace and name."""
    refs = [(ref_of(manifest), manifest) for manifest in manifests]
    return {
        (ref.kind, ref.namespace, ref.name): manifest
        for ref, manifest in refs
        if ref.group == "" and ref.kind in ("ConfigMap", "Secret")
    }


def reference_problems(manifest: Manifest, named: _Named) -> Iterator[str]:
    """
    Yield what is wrong with what an Agent names, as far as the folder tells.

    An object that is not in the folder may be in the cluster.
    """
    try:
        agent = parse_agent(manifest)
    except InvalidInput:
        return  # an invalid spec is reported where it is validated
    for reference in references(agent):
        target = named.get((reference.kind, agent.namespace, reference.name))
        if target is None:
            yield from _unsuffixed(agent, reference.kind, reference.name, named)
        elif reference.key and reference.key not in _members(target):
            yield f"{reference.kind} {reference.name} has no member {reference.key}"
    yield from _content_problems(agent, named)


def _unsuffixed(agent: Agent, kind: str, name: str, named: _Named) -> Iterator[str]:
    """Yield that a generated object has another name here: Kustomize does not know the fields of an Agent by itself."""
    for other_kind, namespace, other in named:
        if (other_kind, namespace) == (kind, agent.namespace) and _SUFFIX.sub("", other) == name != other:
            yield f"{kind} {name} is named {other} here; add a nameReference by configurations of the kustomization"


def _content_problems(agent: Agent, named: _Named) -> Iterator[str]:
    spec = agent.spec
    try:
        if spec.evaluation is not None and (text := _text(agent, spec.evaluation.cases, named)) is not None:
            parse_cases(text, f"{spec.evaluation.cases.name}/{spec.evaluation.cases.key}")
    except InvalidInput as error:
        yield str(error)
    if spec.contract is None or (text := _text(agent, spec.contract.lock, named)) is None:
        return
    place = f"{spec.contract.lock.name}/{spec.contract.lock.key}"
    try:
        lock = parse_lock(next(iter(read_all(text, place)), None), place)
    except InvalidInput as error:
        yield str(error)
        return
    # Without a namespace it is that of the Application, which the folder does not tell.
    names = [name if agent.namespace else name.rpartition("/")[2] for name in lock.agents]
    key = f"{agent.namespace}/{agent.name}" if agent.namespace else agent.name
    if key not in names:
        yield f"{place}: has no entry for {agent.name}; gitsync agent lock writes it"


def _text(agent: Agent, ref: ConfigMapKeyRef, named: _Named) -> str | None:
    text = at(named.get(("ConfigMap", agent.namespace, ref.name)), "data", ref.key)
    return text if isinstance(text, str) else None


def _members(manifest: Manifest) -> frozenset[str]:
    parts = (manifest.get(part) or {} for part in ("data", "binaryData", "stringData"))
    return frozenset(name for part in parts for name in part)
