"""
``gitsync bootstrap`` lets the controller manage itself from Git, with the rights of the manifests and no others.

A real cluster takes part where ``GITSYNC_SEQUENCES_KUBECONFIG`` names one of which nothing else is needed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.cli.commands.uninstall import Uninstaller, held_by
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.server import Sandbox
from tests.cli.conftest import Done, process, running
from tests.contract.test_sequences import PARTS
from tests.flow.environment import Repository
from tests.waiting import until

KUBECONFIG = os.environ.get("GITSYNC_SEQUENCES_KUBECONFIG", "")
ITSELF = ObjectRef("gitsync.dev", "Application", "gitsync", "gitsync")
DEPLOYMENT = ObjectRef("apps", "Deployment", "gitsync", "gitsync")


@dataclass(slots=True)
class Bootstrapped:
    """A cluster, and the repository that the installation comes from."""

    kubeconfig: Path
    client: Client
    cluster: KubernetesCluster
    repo: Repository
    folder: Path

    def bootstrap(self, tag: str, *options: object) -> Done:
        """Run the command in the clone, as a person does."""
        done = self.attempt(tag, *options)
        assert done.code == 0, done.err
        return done

    def attempt(self, tag: str, *options: object) -> Done:
        image = ("--image", f"registry.example.com/gitsync:{tag}")
        place = ("--kubeconfig", self.kubeconfig, "--data", self.folder / "none")
        return process("bootstrap", "clusters/prod", *image, *options, *place, cwd=self.repo.clone)

    def read(self, ref: ObjectRef, version: str = "v1") -> Manifest | None:
        self.cluster.definitions_changed()
        is_served = self.cluster.resource(ref.group, version, ref.kind) is not None
        return self.cluster.read(ref, version) if is_served else None

    def status(self) -> dict[str, Any]:
        return (self.read(ITSELF, "v1alpha1") or {}).get("status") or {}

    def applied(self) -> None:
        """Request a sync, as a person does who does not wait for the poll; wait until the commit is applied."""
        commit = self.repo.git("rev-parse", "HEAD")
        place = ("--kubeconfig", self.kubeconfig, "--data", self.folder / "data")
        done = process("sync", "gitsync", "-n", "gitsync", "--no-wait", *place)
        assert done.code == 0, done.err
        until(
            lambda: (self.status().get("revision") or {}).get("applied") == commit,
            describe=lambda: f"{commit}: {self.status()}",
        )

    def synced(self) -> None:
        """Wait until the newest commit is applied, and all of it is healthy, the Application too."""
        self.applied()
        until(
            lambda: (self.status()["phase"], self.status()["health"]) == ("Synced", "Healthy"),
            describe=lambda: str(self.status()),
        )

    def image(self) -> str:
        live = self.read(DEPLOYMENT)
        assert live is not None
        return str(live["spec"]["template"]["spec"]["containers"][0]["image"])

    def remains(self) -> list[str]:
        names = [item["metadata"]["name"] for path in PARTS for item in self.client.get(path)["items"]]
        return [name for name in names if "gitsync" in name]

    def uninstall(self) -> None:
        self.cluster.definitions_changed()
        Uninstaller(self.client, "gitsync", 120.0).run(lambda text: None, keeps_workloads=True)

    @contextmanager
    def controller(self) -> Iterator[None]:
        """Run the controller as its Pod does: with the token of its ServiceAccount."""
        path = "/api/v1/namespaces/gitsync/serviceaccounts/gitsync/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.client.send("POST", path, request)["status"]["token"]
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        config["users"] = [{"name": "pod", "user": {"token": token}}]
        for context in config["contexts"]:
            context["context"]["user"] = "pod"
        file = self.folder / "pod.kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        settings = {"KUBECONFIG": file, "GITSYNC_NAMESPACE": "gitsync", "GITSYNC_ALLOW_FILE_URLS": "true"}
        with running("run", "--port", "0", "--data", self.folder / "data", cwd=self.folder, **settings):
            yield


@pytest.fixture
def bootstrapped(tmp_path: Path) -> Iterator[Bootstrapped]:
    """A cluster and a clone with a commit."""
    with Sandbox() as sandbox:
        kubeconfig = Path(KUBECONFIG) if KUBECONFIG else sandbox.kubeconfig(tmp_path / "kubeconfig")
        client = Client(Connection(str(kubeconfig)))
        repo = Repository(tmp_path / "git")
        repo.git("config", "user.name", "Ada")
        repo.git("config", "user.email", "ada@example.com")
        repo.commit("first", {"README.md": "ours\n"})
        made = Bootstrapped(kubeconfig, client, KubernetesCluster(client), repo, tmp_path)
        yield made
        made.uninstall()
        client.close()


@pytest.mark.timeout(600)
def test_the_controller_upgrades_itself_and_cannot_remove_itself(bootstrapped: Bootstrapped) -> None:
    assert "installed" in bootstrapped.bootstrap("1.0.0").out
    installed = bootstrapped.read(DEPLOYMENT)
    assert installed is not None
    with bootstrapped.controller():
        bootstrapped.synced()
        live = bootstrapped.read(DEPLOYMENT)
        assert live is not None
        assert live["metadata"]["uid"] == installed["metadata"]["uid"]
        assert live["spec"] == installed["spec"], "its first sync restarts nothing"

        assert "the controller applies the commit" in bootstrapped.bootstrap("1.1.0").out
        bootstrapped.synced()
        assert bootstrapped.image() == "registry.example.com/gitsync:1.1.0"

        held = held_by(bootstrapped.read(ITSELF, "v1alpha1") or {})
        assert {DEPLOYMENT, ITSELF} < held
        own_file = bootstrapped.repo.clone / "clusters/prod/gitsync.yaml"
        own_file.write_text("", encoding="utf-8")
        (own_file.parent / "kustomization.yaml").write_text("resources: [application.yaml]\n", encoding="utf-8")
        bootstrapped.repo.commit("empty", {})
        bootstrapped.applied()
        assert bootstrapped.read(DEPLOYMENT) is not None

        application = bootstrapped.read(ITSELF, "v1alpha1")
        assert application is not None
        bootstrapped.cluster.delete(ITSELF, "v1alpha1", uid=application["metadata"]["uid"])
        until(lambda: bootstrapped.read(ITSELF, "v1alpha1") is None)
        for ref in sorted(held - {ITSELF}):
            assert bootstrapped.cluster.resource(ref.group, "v1", ref.kind) is not None
            assert bootstrapped.read(ref) is not None, ref


@pytest.mark.timeout(600)
def test_an_uninstall_is_not_healed_by_the_controller(bootstrapped: Bootstrapped) -> None:
    bootstrapped.bootstrap("1.0.0")
    with bootstrapped.controller():
        bootstrapped.synced()
        bootstrapped.uninstall()
        assert bootstrapped.remains() == []


def test_what_a_user_adds_to_the_folder_is_kept(bootstrapped: Bootstrapped) -> None:
    bootstrapped.bootstrap("1.0.0")
    folder = bootstrapped.repo.clone / "clusters/prod"
    kustomization = folder / "kustomization.yaml"
    text = kustomization.read_text(encoding="utf-8") + "commonAnnotations: {team: platform}\n"
    bootstrapped.repo.commit("ours", {"clusters/prod/kustomization.yaml": text})
    bootstrapped.bootstrap("1.1.0")
    assert kustomization.read_text(encoding="utf-8") == text
    assert "gitsync:1.1.0" in bootstrapped.repo.git("show", "origin/main:clusters/prod/gitsync.yaml")
    shutil.rmtree(folder)


def test_a_commit_that_could_not_be_pushed_is_pushed_by_the_next_run(bootstrapped: Bootstrapped) -> None:
    repo = bootstrapped.repo
    address = repo.git("remote", "get-url", "origin")
    repo.git("remote", "set-url", "--push", "origin", str(bootstrapped.folder / "absent"))
    failed = bootstrapped.attempt("1.0.0")
    assert failed.code == 2, failed
    assert bootstrapped.read(DEPLOYMENT) is None, "nothing is installed that Git has not"
    repo.git("remote", "set-url", "--push", "origin", address)
    bootstrapped.bootstrap("1.0.0")
    assert repo.git("rev-parse", "HEAD") == repo.git("rev-parse", "origin/main")
