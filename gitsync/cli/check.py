"""Check: all that is wrong with what a folder renders to, one line each, as far as can be told without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from gitsync.cli.commands.build import BuildOptions
from gitsync.errors import InvalidInput
from gitsync.gate.validation import Problem, check_manifests, validate
from gitsync.kube.field_path import follow
from gitsync.merge.builtin import builtin, schema_from_crd
from gitsync.merge.schema import Schema
from gitsync.objects.application import Application, Destination, GitSource, RiskPolicy, SyncPolicy
from gitsync.objects.manifest import Manifest, at, group_of
from gitsync.objects.ref import ref_of
from gitsync.plan.normalize import desired_objects
from gitsync.plan.options import options_of
from gitsync.render.build import Build
from gitsync.render.errors import ErrorCollector
from gitsync.render.provenance.recorder import History
from gitsync.render.yaml.ambiguous_bools import reject_ambiguous_bools
from gitsync.secrets.sops import is_encrypted
from gitsync.source.local import LocalTarget
from gitsync.workers import protocol

_ANY = Application("check", "default", "", 0, GitSource(""), Destination("default"), SyncPolicy(), RiskPolicy())
"""Some Application: what its own settings refuse is not known here."""


def problems(place: LocalTarget, wish: BuildOptions) -> Sequence[str]:
    """
    Return what is wrong, each once, with ``file:line`` where that is known; empty when all is well.

    One mistake does not hide another: what cannot be used is left out, and the rest is rendered and held against the
    schemas of Kubernetes and of the definitions in it.
    """
    faults: list[InvalidInput] = []
    misfits: list[str] = []
    with ErrorCollector(faults):
        misfits += _misfits(wish.render(place, provenance=True, faults=faults))
    return tuple(dict.fromkeys((*map(str, faults), *misfits)))


def _misfits(made: Build) -> Iterator[str]:
    """Yield why the controller or an API server would refuse what was rendered."""
    custom = dict(_definitions(made.manifests))
    for manifest, history in zip(made.manifests, made.provenance, strict=True):
        if is_encrypted(manifest):  # what is in it is known to who has the key
            continue
        api_version, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
        version = api_version.rpartition("/")[2]
        schema = custom.get((api_version, kind)) or builtin().for_kind(group_of(api_version), version, kind)
        sent = orjson.loads(
            protocol.frame(manifest)[protocol.LENGTH_BYTES :]
        )  # with the types that a cluster gets to see
        for problem in validate(sent, schema) if schema is not None else ():
            yield str(_as_error(problem, manifest, history))
        for line in check_manifests([sent]):
            yield str(InvalidInput(line, location=history.source.where(())))
        for act in (_refuse_ambiguous, options_of, _declare):
            faults: list[InvalidInput] = []
            with ErrorCollector(faults):
                act(manifest)
            for fault in faults:
                subject = fault.object or str(ref_of(manifest))
                yield str(
                    InvalidInput(fault.message, location=history.source.where(()), object=subject, hint=fault.hint)
                )


def _refuse_ambiguous(manifest: Manifest) -> None:
    reject_ambiguous_bools([manifest])


def _declare(manifest: Manifest) -> None:
    desired_objects(_ANY, [manifest], lambda of: True)


def _definitions(manifests: Iterable[Manifest]) -> Iterator[tuple[tuple[str, str], Schema]]:
    """Yield the kinds that CustomResourceDefinitions among the manifests define."""
    for manifest in manifests:
        if manifest.get("kind") != "CustomResourceDefinition":
            continue
        group, kind = at(manifest, "spec", "group"), at(manifest, "spec", "names", "kind")
        for version in at(manifest, "spec", "versions", default=[]):
            schema = at(version, "schema", "openAPIV3Schema")
            if schema:
                yield (f"{group}/{at(version, 'name')}", str(kind)), schema_from_crd(schema)


def _as_error(problem: Problem, manifest: Manifest, history: History) -> InvalidInput:
    return InvalidInput(
        f"{problem.path}: {problem.what}", location=_where(problem, manifest, history), object=str(ref_of(manifest))
    )


def _where(problem: Problem, manifest: Manifest, history: History) -> str:
    """Return where the field was set last, or what is nearest around it."""
    path = tuple(str(part) for part in follow(manifest, problem.path)[0])
    leaf = next(iter(history.below(path)), None) if path else None
    setters = history.setters(leaf) if leaf is not None else ()
    return setters[-1].where if setters else history.source.where(path)
