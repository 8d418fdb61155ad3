"""
Validate what a folder renders to without a cluster: every problem, one line each.

The references of Agents are among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitsync.admission.review import check_own
from gitsync.agents.budget import parse_prices
from gitsync.agents.contract.lock import parse_lock
from gitsync.agents.evaluation.cases import parse_cases
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.model.base import ConfigMapKeyRef
from gitsync.agents.references import references
from gitsync.cli.builds import BuildOptions
from gitsync.cluster.kubernetes import MOVED_KINDS, REMOVED_KINDS
from gitsync.errors import InvalidInput
from gitsync.gate.validation import SchemaViolation, check_manifests, validate
from gitsync.kube.field_path import follow
from gitsync.kube.openapi import misspelt_kind
from gitsync.merge.schema import DefinedKinds, shipped_schema
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ref_of
from gitsync.plan.normalize import desired_objects
from gitsync.plan.options import options_of
from gitsync.render.build import Build
from gitsync.render.errors import ErrorCollector
from gitsync.render.provenance.recorder import History
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.yaml11 import reject_ambiguous_bools
from gitsync.secrets import is_encrypted
from gitsync.source.local import LocalTarget
from gitsync.workers import protocol

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
    prices = spec.budget.prices if spec.budget is not None else None
    try:
        if prices is not None and (text := _text(agent, prices, named)) is not None:
            parse_prices(text, f"{prices.name}/{prices.key}")
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


_ANY = Application("check", "default", "", 0, GitSource.model_construct(repo_url=""), Destination(namespace="default"))
"""A placeholder Application: which Application will sync the folder is unknown here."""


_AGENT = GroupKind(AGENTS_GROUP, "Agent")


def problems(place: LocalTarget, options: BuildOptions) -> Sequence[str]:
    """
    Return every problem once, with ``file:line`` where that is known; empty when the folder is valid.

    All problems are reported, not only the first: invalid parts are skipped, and the rest is validated against the
    schemas of Kubernetes and of the CustomResourceDefinitions in the folder.
    """
    faults: list[InvalidInput] = []
    messages: list[str] = []
    with ErrorCollector(faults):
        messages += _validate(options.render(place, provenance=True, faults=faults))
    # renderer and validation may report the same problem
    return tuple(dict.fromkeys((*map(str, faults), *messages)))


def _validate(build: Build) -> Iterator[str]:
    """Yield the reasons for which the controller or an API server would reject the rendered objects."""
    defined = DefinedKinds(build.manifests)
    named = named_objects_of(build.manifests)
    for manifest, history in zip(build.manifests, build.provenance, strict=True):
        if is_encrypted(manifest):  # its values are unreadable without the key
            continue
        schema = shipped_schema(manifest, defined)
        # as JSON, which an API server receives: it has neither dates nor keys that are numbers
        sent = protocol.as_received(manifest)
        if schema is None and (fault := _misspelt(sent, history)) is not None:
            yield str(fault)
        for problem in validate(sent, schema) if schema is not None else ():
            yield str(_as_error(problem, manifest, history))
        if ref_of(sent).of == _AGENT:
            for line in reference_problems(sent, named):
                yield str(InvalidInput(line, location=history.source.where(()), object=str(ref_of(sent))))
        for problem in _own_problems(sent):
            yield str(_as_error(problem, manifest, history))
        for line in check_manifests([sent]):
            yield str(InvalidInput(line, location=history.source.where(())))
        for step in (_reject_ambiguous, options_of, _declare):
            faults: list[InvalidInput] = []
            with ErrorCollector(faults):
                step(manifest)
            for fault in faults:
                subject = fault.object or str(ref_of(manifest))
                yield str(
                    InvalidInput(fault.message, location=history.source.where(()), object=subject, hint=fault.hint)
                )


def _misspelt(manifest: Manifest, history: History) -> InvalidInput | None:
    """Return the error for a kind that a group of Kubernetes does not have, None for removed and moved ones."""
    ref = ref_of(manifest)
    # an object without an apiVersion has another problem
    hint = misspelt_kind(ref.group, ref.kind) if manifest.get("apiVersion") else None
    if hint is None or (ref.group, ref.kind) in MOVED_KINDS.keys() | REMOVED_KINDS.keys():
        return None
    version = manifest.get("apiVersion")
    place = history.source.where(("kind",))
    return InvalidInput(f"Kubernetes has no kind {ref.kind} in {version}", location=place, object=str(ref), hint=hint)


def _own_problems(manifest: Manifest) -> Iterator[SchemaViolation]:
    """Yield why an object of our kinds is not valid: its schema is part of gitsync."""
    try:
        check_own(manifest)
    except InvalidInput as error:
        yield SchemaViolation(f".{error.location}", f"{error.message}; {error.hint}" if error.hint else error.message)


def _reject_ambiguous(manifest: Manifest) -> None:
    reject_ambiguous_bools([manifest])


def _declare(manifest: Manifest) -> None:
    # without a cluster every kind is treated as namespaced
    desired_objects(_ANY, [manifest], lambda of: True)


def _as_error(problem: SchemaViolation, manifest: Manifest, history: History) -> InvalidInput:
    return InvalidInput(
        f"{problem.path}: {problem.what}", location=_where(problem, manifest, history), object=str(ref_of(manifest))
    )


def _where(problem: SchemaViolation, manifest: Manifest, history: History) -> str:
    """Return where the field, or the nearest field above it, was set last."""
    path = tuple(str(part) for part in follow(manifest, problem.path)[0])
    # a list or a mapping has no setter of its own: the first field below it has one
    leaf = next(iter(history.below(path)), None) if path else None
    setters = history.setters(leaf) if leaf is not None else ()
    return setters[-1].where if setters else history.source.where(path)
