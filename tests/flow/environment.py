"""A small world for tests: a Git repository, a sandbox cluster, and a controller between them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.base import BaseController
from gitsync.controllers.crds import CrdInstaller
from gitsync.gate.policy import Policy
from gitsync.objects.change import Decision
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.sandbox.server import Sandbox
from gitsync.server.auth.access import Access
from gitsync.services.requests import UserRequests
from gitsync.services.reviews import Approval
from gitsync.settings import Settings
from gitsync.wiring import Engine, build_controller
from tests import replicas
from tests.waiting import until, until_quiet

NAMESPACE = "gitsync"


class Repository:
    """
    A bare repository that is followed, and a clone to commit from.

    Both have one store of objects, so that a push only sets a ref: a push by ``git push`` starts six processes.
    """

    def __init__(self, folder: Path) -> None:
        self.bare = folder / "origin.git"
        self.clone = folder / "clone"
        self.signing: tuple[str, ...] = ()
        folder.mkdir(parents=True, exist_ok=True)
        # without a template: sample hooks are most of what it would write
        init = ("git", "init", "-q", "--template=", "-b", "main")
        subprocess.run([*init, "--bare", str(self.bare)], check=True)
        subprocess.run([*init, str(self.clone)], check=True)
        objects = self.bare / "objects"
        shutil.rmtree(objects)
        objects.symlink_to(self.clone / ".git" / "objects")
        self.git("remote", "add", "origin", str(self.bare))

    @property
    def url(self) -> str:
        return f"file://{self.bare}"

    def git(self, *arguments: str) -> str:
        identity = (
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.com",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "maintenance.auto=false",
            *self.signing,
        )
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.clone, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def sign_with(self, key: Path) -> None:
        """Sign further commits with an SSH key."""
        self.signing = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}.pub", "-c", "commit.gpgsign=true")

    def commit(self, message: str, files: dict[str, str | None]) -> str:
        """Write these files (None deletes one), commit, push, and return the commit."""
        for name, text in files.items():
            path = self.clone / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.push()

    def push(self) -> str:
        commit = self.git("rev-parse", "HEAD")
        subprocess.run(["git", "update-ref", "refs/heads/main", commit], cwd=self.bare, check=True)
        return commit

    def revert(self) -> str:
        """Revert the last commit as a person would, and push."""
        self.git("revert", "--no-edit", "HEAD")
        return self.push()


class World:
    """A Git repository and a cluster; ``client`` is another user of the cluster."""

    def __init__(self, folder: Path, sandbox: Sandbox, **settings: Any) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.repo = Repository(folder / "git")
        self.kubeconfig = sandbox.kubeconfig(folder / "kubeconfig")
        self.client = Client(Connection(str(self.kubeconfig)))
        self.cluster = KubernetesCluster(self.client)
        self._policy: Policy | None = settings.pop("policy", None)
        # most tests write with the rights of the kubeconfig, as an administrator who starts the controller lets them
        self._settings = {"allow_file_urls": True, "controller_rights": True, **settings}
        self._controller: Engine | None = None
        self._replica: Engine | None = None
        """The second controller, where the suite runs with replicas."""
        self._database = ""
        self.namespace(NAMESPACE)
        CrdInstaller(self.cluster, install=True).start()

    @property
    def controller(self) -> Engine:
        assert self._controller is not None
        return self._controller

    def start(self, **settings_now: Any) -> Engine:
        if replicas.ARE_TWO:
            settings_now = {**self._shared(), **settings_now}
            self._replica = self._started("data-2", settings_now)
        self._controller = self._started("data", settings_now)
        return self._controller

    def _started(self, data: str, settings_now: dict[str, Any]) -> Engine:
        settings = Settings(
            kubeconfig=str(self.kubeconfig),
            data=self.folder / data,
            render_workers=1,
            **{**self._settings, **settings_now},
        )
        controller = build_controller(settings, self._policy)
        controller.start()
        return controller

    def _shared(self) -> dict[str, Any]:
        """Return what two replicas have in common; commands on the data folder use the same database."""
        if not self._database:
            self._database = replicas.new_database(os.environ["GITSYNC_TEST_POSTGRES"])
            replicas.share(self.folder / "data", self._database)
        return {"replicas": True, "database": self._database}

    def change_records(self, *statements: str) -> None:
        """Execute SQL on the database of the records, as a person with access to it."""
        if self._database:
            # optional: a machine without PostgreSQL does not have it
            import psycopg

            with psycopg.connect(self._database) as connection:
                for statement in statements:
                    connection.execute(statement)  # type: ignore[call-overload]
            return
        with closing(sqlite3.connect(self.folder / "data" / "history.db")) as file, file:
            for statement in statements:
                file.execute(statement)

    def dashboard(self, access: Access | None = None, **options: Any) -> ASGIApp:
        """Return the dashboard of the controller, or of both replicas behind one address."""
        engines = [self.controller, *([self._replica] if self._replica is not None else [])]
        return replicas.dashboard(engines, access, **options)

    def grant(self, *cluster_kinds: str) -> None:
        """Let a policy list cluster-scoped kinds, so that they need no approval; before the start."""
        self._policy = Policy(cluster_kinds=cluster_kinds)

    def allow(self, policy: Policy) -> None:
        """Let this policy apply to all Applications; before the start."""
        self._policy = policy

    def stop(self) -> None:
        for controller in (self._controller, self._replica):
            if controller is not None:
                controller.stop()
        self._controller = self._replica = None

    def close(self) -> None:
        self.stop()
        self.client.close()

    def namespace(self, name: str) -> None:
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def apply(self, manifest: Manifest, manager: str = "another") -> Manifest:
        return self.cluster.apply(manifest, manager=manager)

    def application(self, name: str = "shop", *, is_observed: bool = True, **spec: Any) -> None:
        """Declare an Application of the repository, polled each second; a controller that runs has observed it then."""
        sync = {"interval": "1s", **spec.pop("sync", {})}
        if "sources" not in spec:
            spec["source"] = {"repoURL": self.repo.url, "path": name, **spec.get("source", {})}
        declared = self.apply(
            {
                "apiVersion": "gitsync.dev/v1alpha1",
                "kind": "Application",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"destination": {"namespace": name}, "sync": sync, **spec},
            }
        )
        # else a commit that follows may be synced by the former spec
        if self._controller is not None and is_observed:
            until(lambda: self._has_observed(declared), describe=lambda: f"Application {name} is not observed")

    def _has_observed(self, declared: Manifest) -> bool:
        applications = self.controller.requests
        assert isinstance(applications, BaseController)
        observed = applications._get(OwnerKey.of_ref(ref_of(declared)))
        return observed is not None and observed["metadata"]["generation"] >= declared["metadata"]["generation"]

    def get(self, kind: str, name: str, namespace: str = "shop", api: str = "v1") -> Manifest | None:
        group, _, version = api.rpartition("/")
        return self.cluster.read(ObjectRef(group, kind, namespace, name), version)

    def status(self, name: str = "shop") -> dict[str, Any]:
        """Return the status that the cluster stores, without a request: tests ask for it all the time."""
        if isinstance(self.sandbox, Sandbox):
            application = self.sandbox.call(lambda cluster: cluster.get("gitsync.dev", "Application", NAMESPACE, name))
        else:  # one in a process of its own
            application = self.get("Application", name, NAMESPACE, "gitsync.dev/v1alpha1")
        return (application or {}).get("status") or {}

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of each Application, without a request."""
        items = self.sandbox.call(lambda cluster: [*cluster.everything(NAMESPACE)])
        return {item["metadata"]["name"]: item.get("status") or {} for item in items if item["kind"] == "Application"}

    def condition(self, kind: str, name: str = "shop") -> dict[str, Any]:
        return next((item for item in self.status(name).get("conditions", []) if item["type"] == kind), {})

    def view(self, name: str = "shop") -> ApplicationView:
        found = self.controller.view.application(f"{NAMESPACE}/{name}")
        assert found is not None
        return found

    def approve(self, *steps: str, name: str = "shop") -> None:
        """Approve the plan that waits, or some steps of it; wait for it first, since a reconcile may be under way."""

        def held_view() -> ApplicationView | None:
            view = self.view(name)
            return view if view.verdict is not None and view.verdict.decision is Decision.HELD else None

        view: ApplicationView = until(held_view, describe=lambda: self.status(name))
        assert view.plan is not None
        self.requests.approve(view, view.plan.digest, Approval(User("ada"), "checked", steps=steps))

    @property
    def requests(self) -> UserRequests:
        """The requests of users, as the dashboard of this controller makes them."""
        engine = self.controller
        return UserRequests(engine.records, engine.requests, engine.clock, engine.policies.of)

    def shows(self, phase: str, name: str = "shop") -> bool:
        """Return whether the dashboard shows a phase, whichever replica answers: each reads what the owner wrote."""
        engines = [self.controller, *([self._replica] if self._replica is not None else [])]
        views = [engine.view.application(f"{NAMESPACE}/{name}") for engine in engines]
        return all(view is not None and view.status.get("phase") == phase for view in views)

    def synced(self, commit: str, name: str = "shop", timeout: float = 10.0) -> dict[str, Any]:
        """Wait until the commit is applied completely and return the status."""
        until(lambda: is_synced(self.status(name), commit), timeout, lambda: self.status(name))
        return self.status(name)

    def in_phase(self, phase: str, name: str = "shop") -> dict[str, Any]:
        """Wait until an Application is in a phase and return that status: a later one may be of the next attempt."""

        def status_in_phase() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status.get("phase") == phase else None

        reached: dict[str, Any] = until(status_in_phase, describe=lambda: self.status(name))
        return reached

    def quiet(self) -> None:
        """
        Wait until the controller has made no request for a while, nor has one to make: what is counted then stays.

        Watches and the renewal of Leases never end, and count as nothing.
        """

        def measure() -> tuple[int, int]:
            requests = self.sandbox.requests
            endless = requests(verb="watch") + requests(resource="leases.coordination.k8s.io")
            return requests() - endless, self._keys_in_work()

        until(lambda: until_quiet(measure)[1] == 0, describe=lambda: f"a key is worked on for ever: {measure()}")

    def _keys_in_work(self) -> int:
        queues = [part._queue for part in self.controller.parts if isinstance(part, BaseController)]
        return sum(len(queue) + len(queue._working) for queue in queues)


def is_synced(status: dict[str, Any], commit: str) -> bool:
    return status.get("sync") == "Synced" and (status.get("revision") or {}).get("applied") == commit


def completed(world: World, name: str) -> bool:
    found = world.get("Job", name, api="batch/v1") or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Complete" and item["status"] == "True" for item in conditions)
