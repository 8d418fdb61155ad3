"""``gitsync sync``."""

from __future__ import annotations

import time
import uuid

from gitsync.cli.applications import connect, is_good, one_application, reason
from gitsync.cli.output import Exit, say
from gitsync.cluster.client import segment
from gitsync.errors import ClusterUnavailable
from gitsync.objects.keys import API_VERSION, REQUESTED_SYNC
from gitsync.objects.manifest import Manifest, at

_POLL = 0.2


def sync(name: str, namespace: str, wait: bool, timeout: float, kubeconfig: str) -> Exit:
    """Ask for a sync by annotation and, unless told otherwise, wait for its end."""
    client = connect(kubeconfig)
    one_application(client, namespace, name)
    request = f"{int(time.time())}-{uuid.uuid4().hex[:8]}"
    body = {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": name, "namespace": namespace, "annotations": {REQUESTED_SYNC: request}},
    }
    path = f"/apis/{API_VERSION}/namespaces/{segment(namespace)}/applications/{segment(name)}"
    client.apply(path, body, {"fieldManager": "gitsync-cli", "force": "true"})
    if not wait:
        say(f"sync of {namespace}/{name} requested")
        return Exit.DONE
    deadline = time.monotonic() + timeout
    application: Manifest = {}
    while time.monotonic() < deadline:
        application = one_application(client, namespace, name)
        if _is_settled(application, request):
            state = application.get("status") or {}
            say(f"{namespace}/{name}: {state.get('sync')}, {state.get('health')}: {reason(application)}")
            return Exit.DONE if is_good(application) else Exit.DIFFERS
        time.sleep(_POLL)
    raise ClusterUnavailable(
        f"the sync did not end within {timeout:.0f} s: {reason(application)}",
        subject=f"Application {namespace}/{name}",
        cure="is the controller running? `gitsync status` tells more",
    )


def _is_settled(application: Manifest, request: str) -> bool:
    """Tell whether the request was carried out and nothing is on its way any more."""
    if at(application, "status", "requestedSync") != request:
        return False
    busy = at(application, "status", "phase") in ("Observing", "Planning", "Executing")
    return not busy and at(application, "status", "health") != "Progressing"
