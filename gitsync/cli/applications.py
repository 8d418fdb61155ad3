"""Applications of a cluster for commands: read them, and apply single members of them."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitsync.cli.options import ApplicationTarget
from gitsync.cluster.client import Client, Connection, segment
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.application import Application, followed_source, parse_application
from gitsync.objects.keys import API_VERSION, GIT_CHANGED, HINT_MANAGER, PINNED_FROM, REQUEST_MANAGER, REQUESTED_SYNC
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.record import AuditHead
from gitsync.objects.urls import revisions_of
from gitsync.source.validation import is_commit

_ROOT = f"/apis/{API_VERSION}"


def connect(kubeconfig: str) -> Client:
    """Return a client of the cluster that the kubeconfig names; raise InvalidInput when there is no such file."""
    if kubeconfig and not Path(kubeconfig).is_file():
        raise InvalidInput(f"file {kubeconfig} does not exist", location="--kubeconfig", hint="name a kubeconfig file")
    return Client(Connection(kubeconfig=kubeconfig, pool=4))


def all_applications(client: Client, namespace: str = "") -> list[Manifest]:
    """Return the Applications of one namespace or of all, sorted by name."""
    inside = f"/namespaces/{segment(namespace)}" if namespace else ""
    try:
        items = client.get(f"{_ROOT}{inside}/applications")["items"]
    except Rejected as error:
        if error.code == 403 and not namespace:
            raise Rejected(error.message, hint="name one namespace: -n NAMESPACE", code=error.code) from error
        raise _explained(error) from error
    return sorted(items, key=lambda item: (at(item, "metadata", "namespace"), at(item, "metadata", "name")))


def readable(manifests: Iterable[Manifest]) -> Iterator[Application]:
    """Yield the Applications of manifests, without those whose spec is invalid: their own reconcile reports that."""
    for manifest in manifests:
        with contextlib.suppress(InvalidInput):
            yield parse_application(manifest)


def kept_heads(client: Client) -> list[AuditHead]:
    """Return the heads of the audit chain that the statuses of Applications keep."""
    heads = (
        AuditHead.from_json(
            at(app, "status", "audit"),
            f"the status of Application {at(app, 'metadata', 'namespace')}/{at(app, 'metadata', 'name')}",
        )
        for app in all_applications(client)
    )
    return [head for head in heads if head is not None]


def one_application(client: Client, namespace: str, name: str) -> Manifest:
    """Return one Application; raise InvalidInput when it does not exist."""
    try:
        application: Manifest = client.get(f"{_ROOT}/namespaces/{segment(namespace)}/applications/{segment(name)}")
    except Rejected as error:
        if error.code == 404:
            known = ", ".join(sorted(at(item, "metadata", "name") for item in all_applications(client, namespace)))
            raise InvalidInput(
                f"Application {name!r} not found in namespace {namespace!r}",
                hint=f"known: {known}" if known else "apply one first, see `gitsync run --help`",
            ) from error
        raise _explained(error) from error
    return application


def change_application(
    client: Client,
    target: ApplicationTarget,
    manager: str,
    *,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> None:
    """
    Apply these members of an Application and no others.

    Each purpose has a field manager of its own: a member that it set before and omits now is removed.
    """
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": target.name, "namespace": target.namespace, "annotations": dict(annotations or {})},
        **({"spec": dict(spec)} if spec else {}),
    }
    path = f"{_ROOT}/namespaces/{segment(target.namespace)}/applications/{segment(target.name)}"
    # forced: an Application that is declared in Git has another manager of the same field
    client.apply(path, body, {"fieldManager": manager, "force": "true"})


def request_sync(client: Client, target: ApplicationTarget) -> str:
    """Annotate an Application with a sync request; return its id, which the status repeats when the sync is done."""
    # with a random part: two requests of one second differ
    request = f"{int(time.time())}-{uuid.uuid4().hex[:8]}"
    change_application(client, target, REQUEST_MANAGER, annotations={REQUESTED_SYNC: request})
    return request


def annotate_push(client: Client, target: ApplicationTarget) -> None:
    """Annotate an Application as another replica does after a push, so that its replica polls Git now."""
    change_application(client, target, HINT_MANAGER, annotations={GIT_CHANGED: datetime.now(UTC).isoformat()})


def pinned_from(application: Manifest) -> str:
    """Return the revision that an Application followed before it was pinned; empty when it is not pinned."""
    # an annotation that remained when the revision was changed by hand is not a pin
    _, revision = followed_source(application)
    is_fixed = all(map(is_commit, revisions_of(revision).values() or (revision,)))
    return annotations_of(application).get(PINNED_FROM, "") if is_fixed else ""


def is_good(application: Manifest) -> bool:
    """Return whether the controller observed this generation and reports it in sync and healthy."""
    status = application.get("status") or {}
    return (
        # the status of an older spec proves nothing about this one
        status.get("observedGeneration") == at(application, "metadata", "generation")
        and status.get("sync") == "Synced"
        and status.get("health") in ("Healthy", "Suspended")
    )


def _explained(error: Rejected) -> Rejected:
    if error.code == 404:
        return Rejected(
            "the cluster does not serve Applications",
            hint="start the controller once, which installs their CustomResourceDefinition: gitsync run",
            code=404,
        )
    return error
