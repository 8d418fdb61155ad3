"""
Install, upgrade, downgrade and uninstall in every order restart no Pod, lose no field and leave nothing.

Each sequence takes random steps: the manifests of a version with some components, its definitions alone, the start of
its controller, or an uninstall. ``GITSYNC_SEQUENCES`` is their number, and ``GITSYNC_SEQUENCES_SEED`` the seed of the
first; each next one has the next number. So 200 can run in parts (50 from 42, 50 from 92, …), and the seed that a
sequence prints, with one sequence, replays it. A real cluster takes part where ``GITSYNC_SEQUENCES_KUBECONFIG`` names
one of which nothing else is needed: the whole installation comes and goes.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitsync.cli.commands.install import CLUSTER_WIDE, ComponentName, rendered
from gitsync.cli.commands.uninstall import Uninstaller
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.keys import FIELD_MANAGER, VERSION_ANNOTATION
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.sandbox.server import Sandbox
from tests.contract.installed import CLUSTER_SCOPED
from tests.contract.manifests import deployment
from tests.waiting import until

SEQUENCES = int(os.environ.get("GITSYNC_SEQUENCES", "2"))
FIRST_SEED = int(os.environ.get("GITSYNC_SEQUENCES_SEED", "42"))
KUBECONFIG = os.environ.get("GITSYNC_SEQUENCES_KUBECONFIG", "")
NAMESPACE = "sequences"
APPLICATION = f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/keep"
# its Pods answer nothing here, so that every write of an Application would be refused
COMPONENTS = tuple(component for component in CLUSTER_WIDE if component is not ComponentName.WEBHOOK)
PARTS = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
    "/api/v1/persistentvolumeclaims",
)


@dataclass(frozen=True, slots=True)
class Release:
    """A version, and the fields of ``spec.sync`` that it knows besides those of today."""

    version: str
    fields: tuple[str, ...] = ()

    def objects(self, components: tuple[ComponentName, ...] = (), resources: str = "../gitsync") -> list[Manifest]:
        """Return the manifests of the version."""
        folders = [f"../gitsync/components/{component.value}" for component in components]
        return [self._changed(manifest) for manifest in rendered({"resources": [resources], "components": folders})]

    def _changed(self, manifest: Manifest) -> Manifest:
        changed: Manifest = copy.deepcopy(manifest)
        if changed["kind"] in CLUSTER_SCOPED:
            metadata_of(changed).pop("namespace", None)
        if changed["kind"] != "CustomResourceDefinition":
            return changed
        metadata_of(changed)["annotations"] = {VERSION_ANNOTATION: self.version}
        schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        sync = schema["properties"]["spec"]["properties"].get("sync")
        if metadata_of(changed)["name"] == "applications.gitsync.dev" and sync is not None:
            sync["properties"] |= {name: {"type": "string"} for name in self.fields}
        return changed


RELEASES = (Release("0.5.0"), Release("0.6.0", ("six",)), Release("0.7.0", ("six", "seven")))


@dataclass(slots=True)
class Installation:
    """A cluster with an installation whose versions change."""

    client: Client
    cluster: KubernetesCluster
    newest: Release | None = None
    fields: set[str] = field(default_factory=set)
    """The fields of ``spec.sync`` that the Application has."""
    steps: list[str] = field(default_factory=list)

    def apply(self, objects: list[Manifest]) -> set[str]:
        """Apply objects as ``kubectl apply --server-side`` does; return the names of definitions that were kept."""
        kept = set()
        for manifest in objects:
            try:
                until(lambda manifest=manifest: self._is_applied(manifest))  # type: ignore[misc]
            except Rejected as error:
                if error.code != 403 or "gitsync-definitions" not in str(error):
                    raise
                kept.add(metadata_of(manifest)["name"])
        return kept

    def _is_applied(self, manifest: Manifest) -> bool:
        """Apply an object; False while its kind is not served yet, or its namespace still ends."""
        try:
            self.cluster.apply(manifest, manager=FIELD_MANAGER)
        except InvalidInput:  # the kinds of the Prometheus operator are not served
            self.cluster.definitions_changed()
            return manifest["kind"] in ("PodMonitor", "PrometheusRule")
        except Rejected as error:
            if error.code == 404 or "terminat" in str(error):
                return False
            raise
        return True

    def install(self, release: Release, objects: list[Manifest]) -> None:
        """Apply the manifests of a version, which keep the definitions of a newer one."""
        is_older = self.newest is not None and RELEASES.index(release) < RELEASES.index(self.newest)
        if is_older:
            # a policy is in effect some moments after it is stored
            definition = next(item for item in objects if item["kind"] == "CustomResourceDefinition")
            until(lambda: _is_kept(self, definition))
        kept = self.apply(objects)
        assert bool(kept) is is_older, (self.steps, kept)
        self.newest = self.newest if is_older else release

    def start(self, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
        """Install the definitions as the controller of a version does at its start."""
        ours = tuple(release.objects(resources="../gitsync/crds"))
        monkeypatch.setattr("gitsync.controllers.crds.definitions", lambda: ours)
        CrdInstaller(self.cluster, install=True).start()
        if self.newest is None or RELEASES.index(release) > RELEASES.index(self.newest):
            self.newest = release

    def uninstall(self) -> None:
        self.cluster.definitions_changed()
        Uninstaller(self.client, "gitsync", 120.0).run(lambda text: None, keeps_workloads=True)
        self.newest = None
        self.fields.clear()

    def check_fields(self) -> None:
        """Set all fields of the newest version, have another client write the object, and read them."""
        assert self.newest is not None
        fields = {"preserveResourcesOnDeletion": True, **dict.fromkeys(self.newest.fields, "kept")}
        source = {"repoURL": "https://git.invalid/shop.git", "path": "shop"}
        application = {
            "apiVersion": "gitsync.dev/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "keep", "namespace": NAMESPACE},
            "spec": {"source": source, "destination": {"namespace": NAMESPACE}, "sync": fields},
        }
        self.apply([application])
        # what the definition lacks is dropped by the first write after it
        mark = [{"op": "add", "path": "/metadata/annotations", "value": {"step": str(len(self.steps))}}]
        live = self.client.patch(APPLICATION, mark, {})
        # a field that the definition added would stop an older controller, which does not know it
        assert live["spec"]["sync"] == fields, self.steps
        self.fields |= fields.keys()

    def lost_fields(self) -> set[str]:
        """Return the fields that the Application had before a step and has no more."""
        return self.fields - self.client.get(APPLICATION)["spec"]["sync"].keys() if self.fields else set()

    def pods(self) -> dict[str, str]:
        items = self.client.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}

    def remains(self) -> list[str]:
        names = [item["metadata"]["name"] for path in PARTS for item in self.client.get(path)["items"]]
        return [name for name in names if "gitsync" in name]


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """A cluster without gitsync, with Pods of a user."""
    with Sandbox() as sandbox:
        kubeconfig = Path(KUBECONFIG) if KUBECONFIG else sandbox.kubeconfig(tmp_path / "kubeconfig")
        client = Client(Connection(str(kubeconfig)))
        made = Installation(client, KubernetesCluster(client))
        namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        web = deployment("web")
        web["metadata"]["namespace"] = NAMESPACE
        made.apply([namespace, web])
        until(lambda: len(made.pods()) == 2)
        yield made
        made.uninstall()
        of_user = made.client.get(f"/api/v1/namespaces/{NAMESPACE}")
        made.cluster.delete(ref_of(namespace), "v1", uid=of_user["metadata"]["uid"])
        # the next run would write into it while it ends
        until(lambda: made.cluster.read(ref_of(namespace), "v1") is None)
        client.close()


def step(installation: Installation, choice: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a random step."""
    release = choice.choice(RELEASES)
    # without the whole installation nothing keeps newer definitions
    ways = ("manifests", "start", "definitions", "uninstall") if installation.newest else ("manifests",)
    way = choice.choice(ways)
    installation.steps.append(f"{way} {release.version}")
    if way == "uninstall":
        installation.uninstall()
    elif way == "start":
        installation.start(release, monkeypatch)
    elif way == "definitions":
        installation.install(release, release.objects(resources="../gitsync/crds"))
    else:
        components = tuple(component for component in COMPONENTS if choice.random() < 0.3)
        installation.install(release, release.objects(components))
    assert installation.lost_fields() == set(), installation.steps
    if installation.newest is not None:
        installation.check_fields()


def _is_kept(installation: Installation, definition: Manifest) -> bool:
    try:
        installation.cluster.apply(definition, manager=FIELD_MANAGER, dry_run=True)
    except Rejected:
        return True
    return False


@pytest.mark.timeout(60 * SEQUENCES + 120)
def test_versions_follow_one_another_in_every_order(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = installation.pods()
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        choice = random.Random(seed)
        installation.steps.clear()
        # before the steps, so that a sequence that fails has its seed in the output
        print(f"GITSYNC_SEQUENCES_SEED={seed}", end=": ", flush=True)
        for _ in range(choice.randint(2, 5)):
            step(installation, choice, monkeypatch)
            assert installation.pods() == pods, installation.steps
        installation.uninstall()
        assert installation.remains() == [], installation.steps
        assert installation.pods() == pods, installation.steps
        print(*installation.steps, sep=", ", flush=True)
