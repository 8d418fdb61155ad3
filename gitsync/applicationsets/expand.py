"""Expand an ApplicationSet: one Application for each element."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.applicationsets.generators import Element, TreeOf, elements
from gitsync.applicationsets.model import ApplicationSet
from gitsync.applicationsets.texts import fill
from gitsync.errors import InvalidInput
from gitsync.objects.application import parse_application
from gitsync.objects.keys import API_VERSION, APPLICATION, APPLICATION_SET, MANAGED_BY, SET_LABEL, TEMPLATE_HASH
from gitsync.objects.manifest import Manifest, content_hash

# of 63 characters at most, since the name becomes a label of the objects
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Generated:
    """An Application as it is applied, and the element that yields it."""

    manifest: Manifest
    element: str


@dataclass(frozen=True, slots=True)
class Expansion:
    """The Applications of a set by name, and the generators that yield nothing."""

    applications: Mapping[str, Generated]
    empty: tuple[str, ...] = ()


def expand(application_set: ApplicationSet, tree_of: TreeOf) -> Expansion:
    """
    Return the Applications of a set, in the order of generators and elements.

    Raise InvalidInput that names the generator and the element for a parameter that is not known, for an Application
    that is not valid, and for two of one name.
    """
    applications: dict[str, Generated] = {}
    empty = []
    for index, generator in enumerate(application_set.spec.generators):
        place = f"spec.generators[{index}]"
        yielded = _elements(application_set, generator, place, tree_of)
        empty += [] if yielded else [place]
        for element in yielded:
            manifest = _application(application_set, element)
            name = manifest["metadata"]["name"]
            if name in applications:
                # two elements of one name would take the Application from each other in each pass
                raise _error(
                    application_set, element, f"yields the name {name!r}, as {applications[name].element} does"
                )
            applications[name] = Generated(manifest, element.place)
    return Expansion(applications, tuple(empty))


def _elements(application_set: ApplicationSet, generator: Any, place: str, tree_of: TreeOf) -> list[Element]:
    try:
        return elements(generator, place, tree_of)
    except InvalidInput as error:
        # the place of the generator in front, since the error of a file names only the file
        where = error.location if error.location.startswith(place) else f"{place}: {error.location}"
        raise InvalidInput(error.message, location=where, object=str(application_set.ref), hint=error.hint) from error


def _application(application_set: ApplicationSet, element: Element) -> Manifest:
    """Return the Application of an element, with owner, label and hash."""
    template = {
        "metadata": application_set.spec.template.metadata.model_dump(),
        "spec": application_set.spec.template.spec,
    }
    try:
        # after the filling: a parameter never becomes a null
        filled = _without_nulls(fill(template, element.parameters, "spec.template", element.place))
        manifest = _owned(application_set, filled)
        _check_name(manifest["metadata"]["name"])
        # the whole Application, with its parameters: what is not valid fails here and not one by one in the cluster
        parse_application(manifest)
    except InvalidInput as error:
        if error.location.startswith("spec.template"):
            raise InvalidInput(
                error.message, location=error.location, object=str(application_set.ref), hint=error.hint
            ) from error
        raise _error(application_set, element, f"yields an invalid Application: {error}") from error
    return manifest


def _owned(application_set: ApplicationSet, filled: Manifest) -> Manifest:
    metadata = filled["metadata"]
    ref = application_set.ref
    owner = {"apiVersion": API_VERSION, "kind": APPLICATION_SET.kind, "name": ref.name, "uid": application_set.uid}
    # the Application that applied the set, whose policies apply to what it generates too (decision 0040)
    marks = {**metadata["annotations"], **({MANAGED_BY: application_set.owner} if application_set.owner else {})}
    marked = {
        "name": metadata["name"],
        "namespace": ref.namespace,
        "labels": {**metadata["labels"], SET_LABEL: ref.name},
        "annotations": marks,
        # the garbage collector deletes the Applications of a deleted set by it
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    spec = _spec(application_set, filled["spec"])
    # of the template and the marks, so that each change of them is an update
    marked["annotations"] = {**marks, TEMPLATE_HASH: content_hash([marked, spec])[:12]}
    return {"apiVersion": API_VERSION, "kind": APPLICATION.kind, "metadata": marked, "spec": spec}


def _spec(application_set: ApplicationSet, spec: Manifest) -> Manifest:
    if not application_set.spec.sync_policy.preserve_resources_on_deletion:
        return spec
    return {**spec, "sync": {**(spec.get("sync") or {}), "preserveResourcesOnDeletion": True}}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"metadata.name {name[:80]!r} is not a name of at most 63 small letters, digits, - and .",
            hint="use a normalized parameter such as path.basenameNormalized",
        )


def _error(application_set: ApplicationSet, element: Element, message: str) -> InvalidInput:
    return InvalidInput(message, location=element.place, object=str(application_set.ref))


def _without_nulls(value: Any) -> Any:
    """Return a value without members that are null: they mean absent."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
