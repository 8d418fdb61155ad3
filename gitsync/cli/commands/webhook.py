"""``gitsync webhook``."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer
import uvicorn

from gitsync.admission.certificates import CertificateRotation
from gitsync.admission.review import admission_app
from gitsync.cli.applications import connect
from gitsync.cli.dashboard import listen
from gitsync.cli.options import Kubeconfig, command
from gitsync.cli.output import Exit, say
from gitsync.cluster.webhook import WebhookCertificates
from gitsync.runtime.clock import SystemClock
from gitsync.runtime.logs import configure

_NAME = "gitsync-webhook"
"""The name of the Service and of the Secret."""


@command
def webhook(
    host: Annotated[str, typer.Option(help="Listen on this address.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 picks one.")] = 9443,
    namespace: Annotated[
        str, typer.Option(envvar="GITSYNC_NAMESPACE", help="The namespace of the Service and the Secret.")
    ] = "gitsync",
    name: Annotated[
        list[str] | None, typer.Option(help="A host name or address of the certificate; by default the Service's.")
    ] = None,
    configuration: Annotated[str, typer.Option(help="The ValidatingWebhookConfiguration.")] = _NAME,
    kubeconfig: Kubeconfig = "",
) -> Exit:
    """Validate Applications, ApplicationSets, Agents and MultiAgentSystems for the API server, over TLS."""
    configure(sys.stderr)
    names = name or [f"{_NAME}.{namespace}.svc"]
    client = connect(kubeconfig)
    store = WebhookCertificates(client, namespace, _NAME, configuration)
    rotation = CertificateRotation(store, names, SystemClock().now)
    # before the certificate is made: a port in use changes nothing in the cluster
    with listen(host, port) as listener:
        rotation.start()
        try:
            config = uvicorn.Config(
                admission_app(),
                log_level=logging.WARNING,
                access_log=False,
                server_header=False,
                ws="none",
                # not a file of a certificate: it changes while the server runs
                ssl_context_factory=lambda config, default: rotation.context(),
                timeout_graceful_shutdown=10,
            )
            say(f"validating at https://{host}:{listener.getsockname()[1]}/validate")
            sys.stdout.flush()
            uvicorn.Server(config).run([listener])
        finally:
            rotation.stop()
            client.close()
    return Exit.OK
