"""
Risk rules for Applications in Git: no rights beyond those of the Application that manages them, or beyond before.

An ApplicationSet has the rights of its template, and gives them to those whose commits choose the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import DRIFT, Action, Change
from gitsync.objects.keys import (
    API_VERSION,
    APPLICATION,
    APPLICATION_SET,
    APPROVE_DELETIONS,
    HOLD_PREFIX,
    REQUESTED_OBJECTS,
    REQUESTED_REPAIR,
    REQUESTED_SYNC,
)
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of

_KINDS = (APPLICATION, APPLICATION_SET)
_APPROVAL = {"Never": 0, "Dangerous": 1, "Moderate": 2}
_PARAMETER = "{{"
_GENERATORS = "spec.generators"
_APPROVAL_OF_DELETIONS = f"metadata.annotations[{APPROVE_DELETIONS}]"
_Source = tuple[str, str, str]

WIDER: dict[str, Callable[[Application, Application], bool]] = {
    # other authors would have the rights of the Application
    "spec.source": lambda old, new: _source(old) != _source(new),
    "spec.source.verify": lambda old, new: (
        any(part.verify.mode != "None" for part in old.source.parts)
        and [part.verify for part in new.source.parts] != [part.verify for part in old.source.parts]
    ),
    "spec.source.decryption": lambda old, new: _lacks(
        (part.decryption for part in new.source.parts if part.decryption),
        (part.decryption for part in old.source.parts),
    ),
    # authors of the chart could write them into objects that they can read
    "spec.source.helm.valuesFrom": lambda old, new: _lacks(
        (ref for part in new.source.parts for ref in part.values_from),
        (ref for part in old.source.parts for ref in part.values_from),
    ),
    "spec.destination.namespace": lambda old, new: new.destination.namespace != old.destination.namespace,
    "spec.destination.allowClusterScoped": lambda old, new: (
        new.destination.allow_cluster_scoped and not old.destination.allow_cluster_scoped
    ),
    # ``allowClusterScoped`` includes it
    "spec.destination.createNamespace": lambda old, new: (
        new.destination.create_namespace
        and not (old.destination.create_namespace or old.destination.allow_cluster_scoped)
    ),
    # From none, any account is narrower: without one, the controller's own rights are used.
    "spec.destination.serviceAccountName": lambda old, new: (
        old.destination.service_account not in ("", new.destination.service_account)
    ),
    "spec.risk.approval": lambda old, new: _APPROVAL[new.risk.approval] < _APPROVAL[old.risk.approval],
    "spec.risk.approvalTTL": lambda old, new: new.risk.approval_ttl > old.risk.approval_ttl,
    "spec.risk.maxDeletes": lambda old, new: new.risk.max_deletes > old.risk.max_deletes,
    "spec.risk.rules": lambda old, new: _lacks(old.risk.rules, new.risk.rules),
    # An empty list lets every user approve.
    "spec.risk.approvers": lambda old, new: (
        _approvers(old) != set() and not (_approvers(new) and _approvers(new) <= _approvers(old))
    ),
    "spec.sync.automated": lambda old, new: new.sync.automated and not old.sync.automated,
    "spec.sync.prune": lambda old, new: new.sync.prune and not old.sync.prune,
    "spec.sync.preserveResourcesOnDeletion": lambda old, new: (
        old.sync.preserve_resources_on_deletion and new.sync.deletes_with_application
    ),
    # each rule more hides what others change
    "spec.sync.ignoreDifferences": lambda old, new: _lacks(new.sync.ignore, old.sync.ignore),
    # Beside Allow windows, one more opens further times; where there is none, the first one restricts.
    "spec.sync.windows": lambda old, new: (
        _lacks(old.sync.windows, new.sync.windows)
        or (any(window.kind == "Allow" for window in old.sync.windows) and _lacks(new.sync.windows, old.sync.windows))
    ),
    # a query reads the operator's Prometheus, with all metrics that it has
    "spec.sync.postSync.queries": lambda old, new: _lacks(_queries(new), _queries(old)),
    # Another endpoint gets the plans and the key; without any, no reasoner can raise a class.
    "spec.reasoner": lambda old, new: (
        _endpoint(new) not in (None, _endpoint(old)) or (old.openai is not None and new.openai is None)
    ),
}
"""The fields that give an Application rights, and whether the second Application has more by one than the first."""


def wider_than_parent(change: Change, parent: Application) -> str | None:
    """Match a new Application that may do more than the one that manages it; the finding names the field."""
    if change.ref.of not in _KINDS or change.desired is None or change.action in (Action.UPDATE, Action.PRUNE):
        return None
    if metadata_of(change.desired).get("finalizers"):
        # Our finalizer decides whether the objects of the Application are deleted with it.
        return "metadata.finalizers"
    if holds := _new_holds({}, change.desired):
        return holds
    if change.ref.of == APPLICATION_SET and (field := _set_wider_than_parent(change.desired, parent)):
        return field
    return _first_wider(parent, change.desired)


def elsewhere(change: Change, parent: Application) -> str | None:
    """Match an Application outside the namespace of the one that manages it."""
    if change.ref.of not in _KINDS or change.ref.namespace == parent.namespace:
        return None
    return change.ref.namespace


def widened(change: Change) -> str | None:
    """Match an Application that may do more than before; the finding names the field."""
    if change.ref.of not in _KINDS or change.live is None or change.desired is None:
        return None
    drift = [difference.pointer for difference in change.differences if difference.kind in DRIFT]
    if any(pointer.startswith("/metadata/finalizers") for pointer in drift):
        return "metadata.finalizers"
    # A requested sync ignores windows with ``manualSync``, and a requested repair all windows: authors of commits must
    # not request them for a user.
    for annotation in (REQUESTED_SYNC, REQUESTED_OBJECTS, REQUESTED_REPAIR):
        requested = annotations_of(change.desired).get(annotation)
        if requested is not None and requested != annotations_of(change.live).get(annotation):
            return f"metadata.annotations[{annotation}]"
    if holds := _new_holds(change.live, change.desired):
        return holds
    if "/spec/suspend" in drift:
        return "spec.suspend"
    if change.ref.of == APPLICATION_SET and (field := _set_widened(change.live, change.desired)):
        return field
    try:
        return _first_wider(_parsed(change.live), change.desired)
    except InvalidInput:
        # its rights cannot be compared, so it may have more
        return "spec is invalid"


def deletes(change: Change) -> str | None:
    """Match the delete of an Application, which may delete all that it applied."""
    return "" if change.ref.of in _KINDS and change.action in (Action.PRUNE, Action.REPLACE) else None


def _new_holds(live: Manifest, desired: Manifest) -> str:
    """Return the first hold that a commit sets, empty where it sets none: users hold fields, not authors of commits."""
    known = annotations_of(live)
    marks = annotations_of(desired).items()
    names = (name for name, text in marks if name.startswith(HOLD_PREFIX) and known.get(name) != text)
    return next((f"metadata.annotations[{name}]" for name in sorted(names)), "")


def _first_wider(old: Application, manifest: Manifest) -> str | None:
    try:
        new = _parsed(manifest)
    except InvalidInput:
        return "spec is invalid"
    return next((field for field, is_wider in WIDER.items() if is_wider(old, new)), None)


def _parsed(manifest: Manifest) -> Application:
    """Return an Application, or the one that the template of an ApplicationSet is."""
    return parse_application(template_of(manifest) or manifest)


def _source(app: Application) -> tuple[str, str, str]:
    """Return whose commits have the rights of an Application, and the Secret that is sent to that server."""
    return app.source.repo_url, app.source.revision, "\n".join(part.credentials_secret for part in app.source.parts)


def _approvers(app: Application) -> set[tuple[str, str]]:
    named = app.risk.approvers
    return {("user", name) for name in named.users} | {("group", name) for name in named.groups}


def _endpoint(app: Application) -> tuple[str, str] | None:
    return (app.openai.endpoint, app.openai.key) if app.openai else None


def _queries(app: Application) -> set[str]:
    """Return what an Application asks the operator's Prometheus."""
    return {query.query for query in app.sync.limits}


def _lacks(required: Iterable[object], present: Iterable[object]) -> bool:
    known = list(present)
    return any(item not in known for item in required)


def template_of(manifest: Manifest) -> Manifest | None:
    """Return the Application that the template of a set is, with parameters as they are written; None for others."""
    if manifest.get("kind") != APPLICATION_SET.kind:
        return None
    metadata = {"name": metadata_of(manifest).get("name"), "namespace": metadata_of(manifest).get("namespace")}
    spec = at(manifest, "spec", "template", "spec")
    return {"apiVersion": API_VERSION, "kind": APPLICATION.kind, "metadata": metadata, "spec": spec}


def _set_wider_than_parent(manifest: Manifest, parent: Application) -> str:
    """Return the field by which a new set lets others decide than the Application that manages it; empty for none."""
    # The approval of a user: an author of a commit must not give it.
    if APPROVE_DELETIONS in annotations_of(manifest):
        return _APPROVAL_OF_DELETIONS
    own = _source(parent)
    return _GENERATORS if _sources(manifest) - {own} else ""


def _set_widened(live: Manifest, desired: Manifest) -> str:
    """Return the field by which a set lets others decide than before, or gives parameters more; empty for none."""
    approved = annotations_of(desired).get(APPROVE_DELETIONS)
    if approved is not None and approved != annotations_of(live).get(APPROVE_DELETIONS):
        return _APPROVAL_OF_DELETIONS
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
