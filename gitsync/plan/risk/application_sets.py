"""Rights of ApplicationSets in Git: those of their template, and of those whose commits choose the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.objects.application import Application
from gitsync.objects.keys import API_VERSION, APPLICATION, APPLICATION_SET, APPROVE_DELETIONS
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of

_PARAMETER = "{{"
_GENERATORS = "spec.generators"
_APPROVAL = f"metadata.annotations[{APPROVE_DELETIONS}]"
_Source = tuple[str, str, str]


def template_of(manifest: Manifest) -> Manifest | None:
    """Return the Application that the template of a set is, with parameters as they are written; None for others."""
    if manifest.get("kind") != APPLICATION_SET.kind:
        return None
    metadata = {"name": metadata_of(manifest).get("name"), "namespace": metadata_of(manifest).get("namespace")}
    spec = at(manifest, "spec", "template", "spec")
    return {"apiVersion": API_VERSION, "kind": APPLICATION.kind, "metadata": metadata, "spec": spec}


def wider_than_parent(manifest: Manifest, parent: Application) -> str:
    """Return the field by which a new set lets others decide than the Application that manages it; empty for none."""
    # The approval of a user: an author of a commit must not give it.
    if APPROVE_DELETIONS in annotations_of(manifest):
        return _APPROVAL
    own = (parent.source.repo_url, parent.source.revision, parent.source.credentials_secret)
    return _GENERATORS if _sources(manifest) - {own} else ""


def widened(live: Manifest, desired: Manifest) -> str:
    """Return the field by which a set lets others decide than before, or gives parameters more; empty for none."""
    approved = annotations_of(desired).get(APPROVE_DELETIONS)
    if approved is not None and approved != annotations_of(live).get(APPROVE_DELETIONS):
        return _APPROVAL
    live_generators = at(live, "spec", "generators")
    desired_generators = at(desired, "spec", "generators")
    gives_rights = live_generators != desired_generators and _has_open_rights(at(desired, "spec", "template", "spec"))
    return _GENERATORS if gives_rights or _sources(desired) - _sources(live) else ""


def _sources(manifest: Manifest) -> set[_Source]:
    """Return whose commits choose parameters, and the Secret that is sent to that server."""
    return {
        (
            str(generator.get("repoURL")),
            str(generator.get("revision") or "main"),
            str(at(generator, "credentials", "secretRef", "name", default="")),
        )
        for generator in git_generators(at(manifest, "spec", "generators"))
    }


def git_generators(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the Git generators in a part of a spec, which may be invalid, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from git_generators(item)
    elif isinstance(value, Mapping):
        if isinstance(value.get("git"), Mapping):
            yield value["git"]
        for name in ("matrix", "merge"):
            yield from git_generators(at(value, name, "generators"))


def _has_open_rights(spec: Any) -> bool:
    """Whether a field of the template other than the path has parameters: elements then decide on rights."""
    # what cannot be read counts as open
    if not isinstance(spec, Mapping):
        return True
    source = spec.get("source")
    # The path selects a folder of the template's own repository, which gives no further rights.
    known = {name: value for name, value in source.items() if name != "path"} if isinstance(source, Mapping) else source
    return _has_parameters({**spec, "source": known})


def _has_parameters(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_parameters, value.values()))
    if isinstance(value, list):
        return any(map(_has_parameters, value))
    return isinstance(value, str) and _PARAMETER in value
