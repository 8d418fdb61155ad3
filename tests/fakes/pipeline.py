"""The whole pipeline of one Application on fakes of its ports, from a commit in Git to the status."""

from __future__ import annotations

from typing import Any

from gitsync.cli.adapters import InProcessRenderer
from gitsync.integrations.key_services import KeyServices
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, SourceRevision
from gitsync.sync.cache import GitCache
from gitsync.sync.changed_objects import SettledReconciler
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.deletion import DeletionReconciler, Installation
from gitsync.sync.desired import Decryptor, DesiredState
from gitsync.sync.input import ReconcileInput
from gitsync.sync.pipeline import Pipeline, ReconcileResult, ReconcileStages
from gitsync.sync.polling.fetch import Fetcher, Polled, SignatureCheck
from gitsync.sync.polling.git_watcher import PUSH_DEBOUNCE, Query
from gitsync.sync.post_sync import PostSyncAnalysis
from gitsync.sync.relay import Relay
from gitsync.sync.remote_bases import RemoteBases
from gitsync.sync.status.report import Report
from tests.fakes.engine import Engine, config_map
from tests.fakes.ports import CRD

CONTROLLER_NAMESPACE = "gitsync-system"
DEFINITION: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "applications.gitsync.dev"},
    "spec": {"group": "gitsync.dev", "names": {"kind": "Application"}},
}
DEFINITION_REF = ObjectRef(CRD.group, CRD.kind, "", "applications.gitsync.dev")
UID = "uid-1"
"""The uid of the Application, which is the first object of the cluster."""


class FakeWatcher:
    """Followed Applications with their commits, and those that wait for an answer; nothing is polled."""

    def __init__(self) -> None:
        self.followed: dict[str, str] = {}
        self.read: dict[str, frozenset[str] | None] = {}
        """The paths that wake each, None where any commit does."""
        self.asked: list[str] = []

    def catch_up(self, app: Application) -> float | None:
        return None

    def ask(self, key: str, query: Query) -> None:
        self.asked.append(key)

    def attempt(self, key: str, query: Query, commit: str) -> None: ...

    def follow(self, key: str, query: Query, commit: str, read: frozenset[str] | None) -> None:
        self.followed[key] = commit
        self.read[key] = read

    def leave(self, key: str) -> None:
        self.followed.pop(key, None)


class _WaitingFetcher(Fetcher):
    """Has the answer of the server in the reconcile that asks for it."""

    def poll(self, inputs: ReconcileInput, cache: GitCache, *, waits: bool = True) -> Polled:
        return super().poll(inputs, cache)


class PipelineEngine(Engine):
    """An engine with Git: ``source`` has the commits. Without ``waits`` the answer of the server comes later."""

    def __init__(self, *, waits: bool = True, observes: bool = False, **spec: Any) -> None:
        super().__init__(**spec)
        cluster: Any = self.cluster
        source: Any = self.source
        self.cluster.put(DEFINITION)
        self.verified: list[SourceRevision] = []
        secrets = ApplicationSecrets(cluster, self.live, self.policies.all_of)
        signatures = SignatureCheck(lambda revision, _: self.verified.append(revision))
        self.fetcher = (_WaitingFetcher if waits else Fetcher)(source, secrets, signatures, self.clock)
        self.watcher = FakeWatcher()
        watcher: Any = self.watcher
        renderer = InProcessRenderer()
        bases = RemoteBases(renderer, source, lambda app: Credentials(), lambda app: ())
        self.desired = DesiredState(self.fetcher, bases, cluster, Decryptor(secrets.decryption_keys, KeyServices()))
        self.deletion = DeletionReconciler(
            self.desired,
            self.planning,
            self.reconciler,
            self.statuses,
            Installation(cluster, CONTROLLER_NAMESPACE),
        )
        stages = ReconcileStages(
            self.fetcher,
            watcher,
            self.desired,
            self.reconciler,
            self.deletion,
            SettledReconciler(cluster, self.live, self.planner, self.state.views),
            PostSyncAnalysis(self.ports.records, None),
            Relay(
                self.planning,
                self.desired,
                self.state,
                self.ports.records,
                lambda key: "gitsync-1_ab12cd34",
                observes_all=observes,
            ),
        )
        self.pipeline = Pipeline(stages, self.ports, self.writes, self.statuses, self.state)

    def push(self, id: str, *manifests: Manifest, **files: str) -> None:
        """Push a commit, of which the Git server's notification arrives."""
        self.source.commit(id, *manifests, **files)
        self.notify()

    def notify(self) -> None:
        """Have the next reconcile ask the Git server, which it does once for pushes that follow each other."""
        self.clock.seconds += PUSH_DEBOUNCE
        self.pipeline.poll_now(UID)

    def run(self) -> ReconcileResult:
        """Sync once."""
        return self.pipeline.sync(self.application)

    def run_until(self, phase: str) -> ReconcileResult:
        """Sync until the status has a phase, a few times at most."""
        for _ in range(5):
            result = self.run()
            if self.status["phase"] == phase:
                return result
        raise AssertionError(self.status)

    def condition(self, type: str) -> tuple[str, str]:
        """Return status and message of a condition."""
        (condition,) = (item for item in self.status["conditions"] if item["type"] == type)
        return condition["status"], condition["message"]

    def mark_deleted(self) -> None:
        """Delete the Application as a user would; its finalizers keep it."""
        live = self.application
        self.cluster.put({**live, "metadata": {**metadata_of(live), "deletionTimestamp": "2026-11-20T10:00:00Z"}})

    @property
    def finalizers(self) -> list[str]:
        return list(metadata_of(self.application).get("finalizers") or ())

    def report(self) -> Report:
        return Report(self.application, self.inputs())


def synced(*manifests: Manifest, **spec: Any) -> PipelineEngine:
    """Return an engine whose first commit, ``c1``, is applied."""
    engine = PipelineEngine(**spec)
    engine.source.commit("c1", *(manifests or (config_map("a", x="1"),)))
    engine.run_until("Synced")
    engine.written()
    return engine
