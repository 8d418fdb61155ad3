"""``gitsync upgrade``: what the change to this version of gitsync would do to a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from gitsync import __version__
from gitsync.cli.applications import connect
from gitsync.cli.findings import CheckState, Finding, missing, ok, rejected_applications, warning
from gitsync.cli.options import NAMESPACE, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, show
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.crds import (
    Standing,
    definitions,
    lost_fields,
    standing_of,
    unknown_fields,
    version_of_definition,
)
from gitsync.errors import InvalidInput
from gitsync.kube.kinds import defined_kind
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of

_COLUMNS = ("result", "check", "detail", "fix")
_NAMED = 5
"""Fields and objects that a line names."""
_APPLY = "gitsync install | kubectl apply --server-side --field-manager=gitsync --force-conflicts -f -"


@command
def upgrade(
    place: ClusterTarget,
    check: Annotated[bool, typer.Option("--check", help="Report what would change, and change nothing.")] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the controller.")] = NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """Report whether a cluster can change to this version without losing a field. Exit code 1: it cannot."""
    if not check:
        raise InvalidInput("the manifests change the version", hint=f"check it with --check, then: {_APPLY}")
    client = connect(place.cluster)
    cluster = KubernetesCluster(client)
    deployment = cluster.read(ObjectRef("apps", "Deployment", namespace, "gitsync"), "v1")
    rejected = rejected_applications(cluster, has_own_rights=_has_own_rights(deployment))
    findings = [*_controller(deployment, namespace), *_definitions(cluster), *rejected]
    client.close()
    show([asdict(finding) for finding in findings], _COLUMNS, output, key="check")
    return Exit.DIFFERENT if any(finding.result is CheckState.MISSING for finding in findings) else Exit.OK


def _controller(deployment: Manifest | None, namespace: str) -> Iterator[Finding]:
    """Yield the image that runs, beside the version of this program."""
    if deployment is None:
        yield warning("controller", f"no Deployment {namespace}/gitsync", "name its namespace with -n")
        return
    containers = at(deployment, "spec", "template", "spec", "containers", default=[])
    images = ", ".join(str(container.get("image")) for container in containers)
    yield ok("controller", f"runs {images}; this is {__version__}")


def _has_own_rights(deployment: Manifest | None) -> bool:
    """Return whether Applications may write with the controller's own rights, by the variables of its container."""
    containers = at(deployment, "spec", "template", "spec", "containers", default=[]) or []
    variables = {entry["name"]: entry.get("value") for container in containers for entry in container.get("env") or ()}
    return variables.get("GITSYNC_CONTROLLER_RIGHTS") == "true"


def _definitions(cluster: KubernetesCluster) -> Iterator[Finding]:
    """Yield what becomes of each definition, and which values of stored objects the change would drop."""
    for definition in definitions():
        kind = defined_kind(definition)
        check = f"definition of {kind.kind}"
        live = cluster.read(ref_of(definition), "v1")
        if live is None:
            yield warning(check, "is not installed", _APPLY)
            continue
        installed = version_of_definition(live) or "before 0.5.0"
        match standing_of(live, definition):
            case Standing.CURRENT:
                yield ok(check, f"is of {installed}")
            case Standing.OLDER:
                yield from _losses(cluster, definition, f"{check} of {installed}")
            case Standing.NEWER:
                fields = ", ".join(lost_fields(live, definition)[:_NAMED])
                detail = f"is newer ({installed}) than this program ({__version__}){f': {fields}' if fields else ''}"
                yield missing(
                    check, detail, f"use gitsync {installed} or newer; an older controller leaves it in place"
                )


def _losses(cluster: KubernetesCluster, definition: Manifest, check: str) -> Iterator[Finding]:
    kind = defined_kind(definition)
    items = cluster.objects(kind, VERSION)
    losses = [
        f"{at(item, 'metadata', 'namespace')}/{at(item, 'metadata', 'name')} {field}"
        for item in items
        for field in unknown_fields(item, definition)
    ]
    if not losses:
        yield ok(check, f"becomes {__version__}; no stored {kind.kind} loses a field")
        return
    yield missing(
        check, f"would lose {len(losses)} fields: {', '.join(losses[:_NAMED])}", "remove them, or use a newer version"
    )
