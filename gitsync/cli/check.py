"""Validate what a folder renders to without a cluster: every problem, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitsync.admission.review import check_own
from gitsync.cli.agent_checks import named_objects_of, reference_problems
from gitsync.cli.builds import BuildOptions
from gitsync.cluster.kubernetes import MOVED_KINDS, REMOVED_KINDS
from gitsync.errors import InvalidInput
from gitsync.gate.validation import SchemaViolation, check_manifests, validate
from gitsync.kube.field_path import follow
from gitsync.kube.openapi import misspelt_kind
from gitsync.merge.schema import DefinedKinds, shipped_schema
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind, ref_of
from gitsync.plan.normalize import desired_objects
from gitsync.plan.options import options_of
from gitsync.render.build import Build
from gitsync.render.errors import ErrorCollector
from gitsync.render.provenance.recorder import History
from gitsync.render.yaml.yaml11 import reject_ambiguous_bools
from gitsync.secrets import is_encrypted
from gitsync.source.local import LocalTarget
from gitsync.workers import protocol

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
