"""``gitsync run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.dashboard import listen
from gitsync.cli.options import DATA, DEFAULT_PORT, Data, Host, Kubeconfig, Policies, UsersFile, command, load_settings
from gitsync.cli.output import Exit, say
from gitsync.cli.serve import serve
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.application import parse_application
from gitsync.objects.keys import GROUP
from gitsync.objects.manifest import Manifest, at, group_of
from gitsync.render.yaml.reader import read_all
from gitsync.settings import Settings

_MANAGER = "gitsync-cli"


@command
def run(
    application: Annotated[list[Path] | None, typer.Option(help="Apply these Application files first.")] = None,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    host: Host = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, envvar="GITSYNC_WEB_PORT", help="The port of the dashboard; 0 picks a free one."
        ),
    ] = DEFAULT_PORT,
    install_crds: Annotated[
        bool, typer.Option(envvar="GITSYNC_INSTALL_CRDS", help="Install the CustomResourceDefinitions first.")
    ] = True,
    namespaces: Annotated[
        str, typer.Option(envvar="GITSYNC_NAMESPACES", help="Watch these namespaces, comma-separated; by default all.")
    ] = "",
    prometheus: Annotated[
        str,
        typer.Option(envvar="GITSYNC_PROMETHEUS", help="The URL of the Prometheus server for analysis after a sync."),
    ] = "",
    processes: Annotated[
        int,
        typer.Option(
            min=1, max=16, envvar="GITSYNC_PROCESSES", help="Share the Applications between processes of this machine."
        ),
    ] = 1,
    policies: Policies = None,
    controller_rights: Annotated[
        bool,
        typer.Option(
            envvar="GITSYNC_CONTROLLER_RIGHTS",
            help="Let Applications that name no ServiceAccount write with the rights of this kubeconfig.",
        ),
    ] = False,
    users: UsersFile = None,
) -> Exit:
    """Run the controller and the dashboard against a cluster."""
    settings = load_settings(
        kubeconfig=kubeconfig,
        data=data,
        web_host=host,
        web_port=port,
        install_crds=install_crds,
        namespaces=namespaces,
        prometheus=prometheus,
        processes=processes,
        policies=policies,
        controller_rights=controller_rights,
        users=users,
    )
    applications = [manifest for file in application or () for manifest in read_applications(file)]
    listener = listen(settings.web_host, settings.web_port)  # before a write: a used port must change nothing
    if applications:
        apply_applications(settings, applications)
    serve(settings, listener, lambda url: say(f"dashboard ready at {url}", "bold"))
    return Exit.OK


def read_applications(file: Path) -> list[Manifest]:
    """Return the Applications of a YAML file; raise InvalidInput when one is invalid."""
    try:
        manifests = read_all(file.read_bytes(), str(file))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", location=str(file)) from error
    for manifest in manifests:
        if at(manifest, "kind") != "Application" or group_of(str(at(manifest, "apiVersion"))) != GROUP:
            raise InvalidInput("contains an object that is not an Application of gitsync.dev", location=str(file))
        parse_application(manifest)
    return manifests


def apply_applications(settings: Settings, applications: Sequence[Manifest]) -> None:
    """Apply Applications, after their CustomResourceDefinition and namespaces, with a field manager of their own."""
    client = Client(Connection(settings.kubeconfig, settings.context, pool=2))
    cluster = KubernetesCluster(client)
    CrdInstaller(cluster, install=settings.install_crds).start()
    for namespace in sorted({str(at(item, "metadata", "namespace", default="default")) for item in applications}):
        # read first: a user may be allowed to read a namespace, but not to create one
        try:
            client.get(f"/api/v1/namespaces/{namespace}")
        except Rejected as error:
            if error.code != 404:
                raise
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, manager=_MANAGER)
    for manifest in applications:
        cluster.apply(manifest, manager=_MANAGER)
    client.close()
