"""``gitsync upgrade``: what the change to this version of gitsync would do to a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from gitsync import __version__
from gitsync.cli.applications import connect
from gitsync.cli.findings import CheckState, Finding, missing, ok, warning
from gitsync.cli.options import NAMESPACE, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, show
from gitsync.cluster.client import Client
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
from gitsync.objects.keys import GROUP, VERSION
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.source.validation import is_commit

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
    deployment = KubernetesCluster(client).read(ObjectRef("apps", "Deployment", namespace, "gitsync"), "v1")
    findings = [*_controller(deployment, namespace), *_definitions(client), *_refused(client, deployment)]
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


def _refused(client: Client, deployment: Manifest | None) -> Iterator[Finding]:
    """Yield the Applications that earlier versions accept and this one rejects; what they applied stays as it is."""
    resource = KubernetesCluster(client).resource(GROUP, VERSION, "Application")
    items = client.get(f"/apis/{GROUP}/{VERSION}/{resource.plural}")["items"] if resource is not None else []
    nameless = _keys(item for item in items if not at(item, "spec", "destination", "serviceAccountName"))
    if nameless and not _has_own_rights(deployment):
        yield warning(
            "rights of Applications",
            f"without destination.serviceAccountName, and rejected where no policy allows it: {nameless}",
            "name a ServiceAccount, or for one team alone set GITSYNC_CONTROLLER_RIGHTS=true before the upgrade",
        )
    pinned = _keys(item for item in items if is_commit(str(at(item, "spec", "source", "revision", default=""))))
    if pinned:
        yield warning(
            "revisions of Applications",
            f"follow a commit id, which has to be in a branch or tag: {pinned}",
            "push the commits to a branch or tag that stays",
        )


def _keys(items: Iterable[Manifest]) -> str:
    keys = [f"{at(item, 'metadata', 'namespace')}/{at(item, 'metadata', 'name')}" for item in items]
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if keys[_NAMED:] else "")


def _has_own_rights(deployment: Manifest | None) -> bool:
    """Return whether Applications may write with the controller's own rights, by the variables of its container."""
    containers = at(deployment, "spec", "template", "spec", "containers", default=[]) or []
    variables = {entry["name"]: entry.get("value") for container in containers for entry in container.get("env") or ()}
    return variables.get("GITSYNC_CONTROLLER_RIGHTS") == "true"


def _definitions(client: Client) -> Iterator[Finding]:
    """Yield what becomes of each definition, and which values of stored objects the change would drop."""
    cluster = KubernetesCluster(client)
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
                yield from _losses(cluster, client, definition, f"{check} of {installed}")
            case Standing.NEWER:
                fields = ", ".join(lost_fields(live, definition)[:_NAMED])
                detail = f"is newer ({installed}) than this program ({__version__}){f': {fields}' if fields else ''}"
                yield missing(
                    check, detail, f"use gitsync {installed} or newer; an older controller leaves it in place"
                )


def _losses(cluster: KubernetesCluster, client: Client, definition: Manifest, check: str) -> Iterator[Finding]:
    kind = defined_kind(definition)
    resource = cluster.resource(kind.group, VERSION, kind.kind)
    items = client.get(f"/apis/{kind.group}/{VERSION}/{resource.plural}")["items"] if resource is not None else []
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
