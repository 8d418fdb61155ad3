"""The stage of a contract test: a Git repository, a controller, and a cluster that may be a real one."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml
from kubernetes.config import new_client_from_config

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.errors import failure
from gitsync.cluster.kubernetes import KubernetesCluster, collection_path
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import GitsyncError, Rejected
from gitsync.gate.policy import Policy
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.settings import Settings
from gitsync.wiring import Engine, build_controller
from tests.git_repository import GitRepo
from tests.waiting import until

APPLICATION = "gitsync.dev/v1alpha1"
AGENTS = "agents.gitsync.dev/v1alpha1"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
TIMEOUT = 60.0
"""Seconds to wait for a state; a real control plane answers some writes only after other controllers ran."""


class Stage:
    """A repository, two namespaces of its own on a cluster, and a controller; one stage at a time uses a cluster."""

    def __init__(self, folder: Path, kubeconfig: Path, *, is_real: bool) -> None:
        self.folder = folder
        self.is_real = is_real
        self.kubeconfig = kubeconfig
        name = uuid.uuid4().hex[:8]
        self.system = f"contract-{name}"
        """The namespace of the Applications."""
        self.namespace = f"contract-{name}-app"
        """The namespace that Applications deploy to."""
        self.repo = GitRepo(folder / "git")
        self.client = Client(Connection(str(kubeconfig)))
        self.cluster = KubernetesCluster(self.client)
        self._api = new_client_from_config(str(kubeconfig))
        self.engine: Engine | None = None
        self.account = ""
        """The ServiceAccount that Applications name and Agents have by default; empty: the controller's own rights."""
        self.controller_kubeconfig = kubeconfig
        self._global: list[tuple[str, str, str]] = []
        for namespace in (self.system, self.namespace):
            self.make_namespace(namespace)
        CrdInstaller(self.cluster, install=True).start()
        until(lambda: self.cluster.resource("gitsync.dev", "v1alpha1", "Application") or self._forget(), TIMEOUT)

    # --- the controller ---

    def start(self, remotes: tuple[str, ...] = (), **settings: Any) -> Engine:
        """Start a controller for the two namespaces; ``remotes`` are what kustomizations and charts may name by URL."""
        self.engine = build_controller(
            Settings(
                kubeconfig=str(self.controller_kubeconfig),
                data=self.folder / "data",
                render_workers=1,
                allow_file_urls=True,
                namespace=self.system,
                **settings,
            ),
            # every kind is granted: no test is about approvals
            Policy(kinds=("*",), cluster_kinds=("*",), controller_rights=not self.account, remotes=remotes),
        )
        self.engine.start()
        return self.engine

    def stop(self) -> None:
        """Stop the controller."""
        if self.engine is not None:
            self.engine.stop()
            self.engine = None

    # --- Git and Applications ---

    def commit(self, files: Mapping[str, str | Manifest | Iterable[Manifest] | None], message: str = "Change") -> str:
        """Commit files below the path of the Application; manifests are written as YAML. Return the commit id."""
        texts = {f"app/{name}": None if content is None else _text(content) for name, content in files.items()}
        return self.repo.commit(texts, message)

    def revert(self) -> str:
        """Revert the newest commit, push, and return the commit id."""
        subprocess.run(
            ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.test", "revert", "--no-edit", "HEAD"],
            cwd=self.repo.work,
            check=True,
            capture_output=True,
        )
        return self.repo.commit({}, "after the revert")

    def application(self, name: str = "app", **spec: Any) -> None:
        """Declare an Application of the repository that polls each second and asks for no approval."""
        destination = {"namespace": self.namespace, "allowClusterScoped": True, **spec.pop("destination", {})}
        # several sources take the place of the one
        source = (
            {} if "sources" in spec else {"source": {"repoURL": self.repo.url, "path": "app", **spec.pop("source", {})}}
        )
        if self.account:
            destination = {"serviceAccountName": self.account, **destination}
        self.apply(
            {
                "apiVersion": APPLICATION,
                "kind": "Application",
                "metadata": {"name": name, "namespace": self.system},
                "spec": {
                    **source,
                    "destination": destination,
                    "sync": {"interval": "1s", **spec.pop("sync", {})},
                    "risk": {"approval": "Never", **spec.pop("risk", {})},
                    **spec,
                },
            }
        )

    def sync(self, files: Mapping[str, str | Manifest | Iterable[Manifest] | None], **spec: Any) -> dict[str, Any]:
        """Commit, declare the Application, start the controller where it is not running, and wait until Synced."""
        commit = self.commit(files)
        self.application(**spec)
        if self.engine is None:
            self.start()
        return self.synced(commit)

    def synced(self, commit: str, name: str = "app", timeout: float = TIMEOUT) -> dict[str, Any]:
        """Wait until the commit is applied completely and return the status."""

        def is_synced() -> bool:
            status = self.status(name)
            return status.get("sync") == "Synced" and (status.get("revision") or {}).get("applied") == commit

        until(is_synced, timeout, lambda: json.dumps(self.status(name), indent=1))
        return self.status(name)

    def status(self, name: str = "app") -> dict[str, Any]:
        """Return the status of an Application as the API server has it."""
        found = self.get("Application", name, namespace=self.system, api=APPLICATION)
        return (found or {}).get("status") or {}

    def phase(self, phase: str, name: str = "app", timeout: float = TIMEOUT) -> dict[str, Any]:
        """Wait for a phase and return the status."""
        until(lambda: self.status(name).get("phase") == phase, timeout, lambda: json.dumps(self.status(name), indent=1))
        return self.status(name)

    def plan_writes(self, name: str = "app") -> list[str]:
        """Return the steps of the newest plan that would write."""
        assert self.engine is not None
        view = self.engine.view.application(f"{self.system}/{name}")
        assert view is not None
        return [f"{change.action.value} {change.ref}" for change in (view.plan.writes if view.plan else ())]

    # --- objects, as other people and controllers handle them ---

    def make_namespace(self, name: str) -> None:
        """Create a namespace that the test removes again."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.remember("Namespace", name)

    def remember(self, kind: str, name: str, api: str = "v1") -> None:
        """Delete a cluster-scoped object after the test."""
        self._global.append((kind, name, api))

    def apply(self, manifest: Manifest, manager: str = "setup", *, force: bool = True) -> Manifest:
        """Apply server-side as another field manager."""
        return self.cluster.apply(manifest, manager=manager, force=force)

    def get(self, kind: str, name: str, *, namespace: str | None = None, api: str = "v1") -> Manifest | None:
        """Return an object, None when it does not exist; ``namespace`` is the Application's destination by default."""
        group, _, version = api.rpartition("/")
        ref = ObjectRef(group, kind, self.namespace if namespace is None else namespace, name)
        try:
            return self.cluster.read(ref, version)
        except GitsyncError:  # a kind that was not served when this client asked last
            self._forget()
        try:
            return self.cluster.read(ref, version)
        except GitsyncError:
            return None

    def live(self, kind: str, name: str, *, namespace: str | None = None, api: str = "v1") -> Manifest:
        """Return an object that must exist."""
        found = self.get(kind, name, namespace=namespace, api=api)
        assert found is not None, f"{kind} {name} does not exist"
        return found

    def patch(
        self,
        kind: str,
        name: str,
        body: Any,
        how: str = "merge",
        *,
        manager: str = "kubectl-edit",
        api: str = "v1",
        namespace: str | None = None,
        subresource: str = "",
    ) -> Manifest:
        """Patch an object as another field manager."""
        path = self.path(kind, name, api=api, namespace=namespace) + (f"/{subresource}" if subresource else "")
        return self.raw("PATCH", path, body, content_type=PATCHES[how], query={"fieldManager": manager})

    def create(self, manifest: Manifest, manager: str) -> Manifest:
        """POST an object as another field manager."""
        metadata = manifest["metadata"]
        path = self.path(manifest["kind"], "", api=manifest["apiVersion"], namespace=metadata.get("namespace", ""))
        return self.raw("POST", path, manifest, query={"fieldManager": manager})

    def delete(self, kind: str, name: str, *, namespace: str | None = None, api: str = "v1") -> None:
        """Delete an object in the background; one that does not exist is ignored."""
        group, _, version = api.rpartition("/")
        ref = ObjectRef(group, kind, self.namespace if namespace is None else namespace, name)
        found = self.get(kind, name, namespace=namespace, api=api)
        if found is not None:
            self.cluster.delete(ref, version, uid=found["metadata"]["uid"])

    def path(self, kind: str, name: str, *, api: str = "v1", namespace: str | None = None) -> str:
        """Return the URL path of an object, or of its collection for an empty name."""
        group, _, version = api.rpartition("/")
        resource = self.cluster.resource(group, version, kind)
        if resource is None:  # it was not served when this client asked last
            self._forget()
            resource = self.cluster.resource(group, version, kind)
        assert resource is not None, f"{kind} of {api} is not served"
        space = (self.namespace if namespace is None else namespace) if resource.namespaced else ""
        return collection_path(resource, space) + (f"/{name}" if name else "")

    def raw(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """
        Send a request as the administrator, past everything that gitsync's own client decides.

        Raise GitsyncError for an answer that is an error.
        """
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._api.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        response = self._api.call_api(method, url, header_params=headers, body=body)
        content = response.read()
        if response.status >= 400:
            raise failure(response.status, content, response.headers, f"{method} {path}")
        return json.loads(content)

    def managers(self, manifest: Manifest) -> dict[str, str]:
        """Return the operation of each field manager of an object."""
        return {entry["manager"]: entry["operation"] for entry in manifest["metadata"].get("managedFields", ())}

    # --- the end ---

    def close(self) -> None:
        """Stop the controller and remove everything that the test made."""
        self.stop()
        try:
            for name in self._names("Application", APPLICATION, self.system):
                self.patch(
                    "Application", name, {"metadata": {"finalizers": None}}, api=APPLICATION, namespace=self.system
                )
                # now, since the controller of the next test would take one over whose namespace still ends
                self.delete("Application", name, api=APPLICATION, namespace=self.system)
            # Without a controller Agents and systems would hold their namespace for good.
            # Not through a webhook that is still configured: what answered it has stopped.
            for kind, name, api in self._global:
                if kind.endswith("WebhookConfiguration"):
                    self._remove(kind, name, api)
            for kind in ("MultiAgentSystem", "Agent"):
                for name in self._names(kind, AGENTS, self.namespace):
                    self.patch(kind, name, {"metadata": {"finalizers": None}}, api=AGENTS)
            for kind, name, api in reversed(self._global):
                self._remove(kind, name, api)
        finally:
            self._api.rest_client.close()
            self.client.close()

    def _remove(self, kind: str, name: str, api: str) -> None:
        try:
            self.delete(kind, name, namespace="", api=api)
        except Rejected as error:
            if error.code != 404:
                raise

    def _names(self, kind: str, api: str, namespace: str) -> list[str]:
        try:
            items = self.client.get(self.path(kind, "", api=api, namespace=namespace))["items"]
        except Rejected as error:
            if error.code != 404:
                raise
            return []  # the test has deleted the definition
        return [item["metadata"]["name"] for item in items]

    def _forget(self) -> None:
        """Ask the API server again which kinds it serves."""
        self.cluster.definitions_changed()


def eventually(stage: Stage, condition: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """Wait until a condition holds; fail with the Application's status."""
    return until(condition, timeout, lambda: json.dumps(stage.status(), indent=1))


def is_refused(request: Callable[[], Any]) -> bool:
    """Whether the API server refuses a request now; admission and rights are in effect a moment after their objects."""
    try:
        request()
    except GitsyncError:
        return True
    return False


def _text(content: str | Manifest | Iterable[Manifest]) -> str:
    if isinstance(content, str):
        return content
    documents = [content] if isinstance(content, Mapping) else list(content)
    return yaml.safe_dump_all(documents, sort_keys=False)
