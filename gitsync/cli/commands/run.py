"""``gitsync run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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


def run(files: Sequence[Path], settings: Settings) -> Exit:
    """Apply the Applications of the files, then run the controller and the dashboard."""
    applications = [manifest for file in files for manifest in read_applications(file)]
    if applications:
        apply_applications(settings, applications)
    serve(settings, lambda url: say(f"dashboard ready at {url}", "bold"))
    return Exit.OK


def read_applications(file: Path) -> list[Manifest]:
    """Return the Applications of a YAML file; raise InvalidInput when one cannot be used."""
    try:
        manifests = read_all(file.read_bytes(), str(file))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", location=str(file)) from error
    for manifest in manifests:
        if at(manifest, "kind") != "Application" or group_of(str(at(manifest, "apiVersion"))) != GROUP:
            raise InvalidInput("holds something else than an Application of gitsync.dev", location=str(file))
        parse_application(manifest)
    return manifests


def apply_applications(settings: Settings, applications: Sequence[Manifest]) -> None:
    """Apply Applications, their definitions and namespaces first, as the field manager of the command line."""
    client = Client(Connection(settings.kubeconfig, settings.context, pool=2))
    cluster = KubernetesCluster(client)
    CrdInstaller(cluster, install=settings.install_crds).start()
    for namespace in sorted(
        {str(at(manifest, "metadata", "namespace", default="default")) for manifest in applications}
    ):
        try:
            client.get(f"/api/v1/namespaces/{namespace}")
        except Rejected as error:
            if error.code != 404:
                raise
            cluster.apply(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, manager="gitsync-cli"
            )
    for manifest in applications:
        cluster.apply(manifest, manager="gitsync-cli")
    client.close()
