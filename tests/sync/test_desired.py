"""What a commit declares for an Application: rendered at most once, and the identical objects while nothing changed."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest
import yaml
from pyrage.x25519 import Identity

from gitsync.errors import EmptyRender, InvalidInput, SourceUnavailable
from gitsync.integrations.key_services import KeyServices
from gitsync.objects.application import Application, ChartInputs, ValuesRef, parse_application
from gitsync.objects.change import Plan, Risk
from gitsync.objects.charts import ChartOptions
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, Snapshot
from gitsync.render.build import Build, build
from gitsync.secrets import AGE_SUFFIX, DecryptionKeys
from gitsync.sync.cache import Operation, ReconcileCache
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.desired import Decryptor, DesiredState, RenderedCommit
from gitsync.sync.input import ReconcileInput, SyncState
from gitsync.sync.polling.fetch import Fetcher, SignatureCheck
from gitsync.sync.remote_bases import RemoteBases
from gitsync.sync.status.report import FailureReason, Report
from tests.fakes.engine import URL, config_map
from tests.fakes.ports import FakeClock, FakeCluster, FakeLive
from tests.fakes.source import FakeSource
from tests.sops_encryption import Sealer

A = ObjectRef("", "ConfigMap", "prod", "a")
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "hidden"}}
COMMITS = {"fetched": "c1", "applied": "c1"}
INVENTORY = {"inventory": [{"id": A.path, "version": "v1", "uid": "u"}]}


class CountingRenderer:
    """Renders in this process; ``commits`` are those that it rendered."""

    def __init__(self) -> None:
        self.commits: list[str] = []

    def render(self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions) -> Build:
        self.commits.append(snapshot.commit.id)
        return build(snapshot.tree, path, renderer=renderer)


class Store:
    """Keeps one build."""

    def __init__(self, build: tuple[str, Build] | None = None) -> None:
        self.build = build

    def load(self, app: Application) -> tuple[str, Build] | None:
        return self.build

    def keep(self, app: Application, commit: str, build: Build) -> None:
        self.build = (commit, build)


class World:
    """One Application, its repository and a cluster; without ``keys`` nothing may ask for them."""

    def __init__(
        self, status: dict[str, Any] | None = None, keys: tuple[str, ...] | None = None, store: Any = None
    ) -> None:
        self.source = FakeSource()
        self.renderer = CountingRenderer()
        self.cluster = FakeCluster()
        self.cache = ReconcileCache()
        self.keys = keys
        self.store = store
        self.manifest = application(status)
        self.desired = self.new_process()

    def new_process(self) -> DesiredState:
        """Return a stage that has rendered nothing, as after a restart."""
        cluster: Any = self.cluster
        source: Any = self.source
        renderer: Any = self.renderer
        secrets = ApplicationSecrets(cluster, FakeLive(self.cluster))
        self.fetcher = Fetcher(source, secrets, SignatureCheck(lambda *revision: None), FakeClock())
        bases = RemoteBases(renderer, source, lambda app: Credentials(), lambda app: ())
        return DesiredState(self.fetcher, bases, cluster, Decryptor(self.read_keys, KeyServices()), self.store)

    def read_keys(self, app: Application) -> DecryptionKeys:
        assert self.keys is not None, "an Application without encrypted objects need not name keys"
        return DecryptionKeys(tuple({AGE_SUFFIX: text} for text in self.keys))

    def load(self, commit: str) -> RenderedCommit:
        return self.desired.load(self.inputs(), self.cache, Commit(commit))

    def inputs(self) -> ReconcileInput:
        inputs = ReconcileInput.unparsed(self.manifest, FakeClock().now())
        return inputs.parsed(self.manifest, self.cache.requested_by)

    def last_change(self, commit: str) -> str:
        return self.desired.last_change(self.inputs(), self.cache, Commit(commit)).id

    def describe(self, **spec: Any) -> None:
        """Change the spec."""
        self.manifest = {**self.manifest, "spec": {**self.manifest["spec"], **spec}}


def application(status: dict[str, Any] | None = None) -> Manifest:
    spec = {"source": {"repoURL": URL, "path": "shop"}, "destination": {"namespace": "prod"}}
    metadata = {"name": "shop", "namespace": "gitsync", "generation": 1, "uid": "u"}
    made: Manifest = {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "spec": spec}
    return made if status is None else {**made, "status": status}


def applied() -> dict[str, Any]:
    """Return the status of the first commit, applied with one object."""
    spec_hash = SyncState().with_applied("c1", parse_application(application())).applied_spec_hash
    return {**INVENTORY, "observedGeneration": 1, "revision": {**COMMITS, "appliedFor": spec_hash}}


def test_a_commit_is_rendered_once() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    first = world.load("c1")
    assert list(first.objects) == [A]
    assert first.count == 1
    assert first.options.keys() == {A}
    assert world.load("c1").objects is first.objects, "later stages compare by identity"
    assert world.renderer.commits == ["c1"]
    assert world.cache.git.snapshot is None, "its files take memory"


def test_a_commit_that_changes_no_file_it_read_is_not_rendered() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    first = world.load("c1")
    world.source.commit("c2", config_map("a", x="1"), **{"README.md": "text"})
    assert world.load("c2").objects is first.objects
    world.source.commit("c3", config_map("a", x="2"))
    assert world.load("c3").objects[A]["data"] == {"x": "2"}
    assert world.renderer.commits == ["c1", "c3"]


def test_three_commits_stay_rendered() -> None:
    world = World()
    for number in range(1, 5):
        world.source.commit(f"c{number}", config_map("a", x=str(number)))
        world.load(f"c{number}")
    assert list(world.cache.render.commits) == ["c2", "c3", "c4"]
    world.load("c2")
    assert world.renderer.commits == ["c1", "c2", "c3", "c4"]


@pytest.mark.parametrize("change", [{"path": "other"}, {"repoURL": f"{URL}/other"}])
def test_another_source_is_rendered_anew(change: dict[str, str]) -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"), **{"other/b.yaml": yaml.safe_dump(config_map("b"))})
    world.load("c1")
    world.describe(source={"repoURL": URL, "path": "shop", **change})
    world.load("c1")
    assert world.renderer.commits == ["c1", "c1"]


def test_another_branch_of_the_commit_is_not() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    world.load("c1")
    world.describe(source={"repoURL": URL, "path": "shop", "revision": "next"})
    world.load("c1")
    assert world.renderer.commits == ["c1"]


def test_another_destination_makes_other_objects_of_the_render() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    world.load("c1")
    world.describe(destination={"namespace": "test"})
    assert list(world.load("c1").objects) == [ObjectRef("", "ConfigMap", "test", "a")]
    assert world.renderer.commits == ["c1"]


def test_a_build_of_a_chart_is_used_for_its_own_options_alone() -> None:
    world = World()
    renderer: Any = world.renderer
    source: Any = world.source
    bases = RemoteBases(renderer, source, lambda app: Credentials(), lambda app: ())
    app = parse_application(world.manifest)
    other = parse_application({**world.manifest, "metadata": {**world.manifest["metadata"], "name": "other"}})
    made = Build((), frozenset(), chart=app.chart)

    assert bases.is_current(app, made)
    assert not bases.is_current(other, made)
    assert bases.is_current(other, Build((), frozenset()))


def test_values_of_the_cluster_decide_whether_a_build_is_current() -> None:
    world = World()
    renderer: Any = world.renderer
    source: Any = world.source
    texts = ["size: 1", "size: 2", "size: 2"]
    inputs = iter([ChartInputs(values=((SIZES, text),)) for text in texts])
    bases = RemoteBases(renderer, source, lambda app: Credentials(), lambda app: (), lambda app: next(inputs))
    app = parse_application(with_values(world.manifest))
    made = Build((), frozenset(), chart=bases.with_inputs(app).chart)

    assert not bases.is_current(app, made)
    made = Build((), frozenset(), chart=replace(app, chart_inputs=ChartInputs(values=((SIZES, "size: 2"),))).chart)
    assert bases.is_current(app, made)


def test_values_that_were_missing_are_not_missed_for_good() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    world.manifest = with_values(world.manifest)
    source: Any = world.source
    renderer: Any = world.renderer
    cluster: Any = world.cluster
    secrets = ApplicationSecrets(cluster, FakeLive(world.cluster))
    bases = RemoteBases(renderer, source, lambda app: Credentials(), lambda app: (), secrets.chart_inputs)
    world.desired = DesiredState(world.fetcher, bases, cluster, Decryptor(world.read_keys, KeyServices()))

    with pytest.raises(InvalidInput, match="ConfigMap gitsync/sizes does not exist"):
        world.load("c1")
    world.cluster.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "sizes", "namespace": "gitsync"},
            "data": {"values.yaml": "size: 2"},
        }
    )
    assert len(world.load("c1").objects) == 1


SIZES = ValuesRef(kind="ConfigMap", name="sizes")


def with_values(manifest: Manifest) -> Manifest:
    """Return an Application whose chart gets values of a ConfigMap."""
    helm = {"valuesFrom": [{"kind": "ConfigMap", "name": "sizes"}]}
    return {**manifest, "spec": {**manifest["spec"], "source": {**manifest["spec"]["source"], "helm": helm}}}


def test_a_chart_that_refused_a_namespace_is_rendered_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    render = world.renderer.render

    def refuse(snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions) -> Build:
        if chart.namespace == "prod":
            raise InvalidInput("Helm cannot render the chart: it must be installed in test")
        return render(snapshot, path, renderer, chart)

    monkeypatch.setattr(world.renderer, "render", refuse)
    with pytest.raises(InvalidInput, match="installed in test"):
        world.load("c1")
    world.describe(destination={"namespace": "test"})
    assert list(world.load("c1").objects) == [ObjectRef("", "ConfigMap", "test", "a")]


def test_a_kind_that_is_not_known_yet_is_looked_up_again() -> None:
    world = World()
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    world.source.commit("c1", config_map("a", x="1"), widget)
    assert ObjectRef("example.com", "Widget", "prod", "w") in world.load("c1").objects
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget"}, "versions": [{"name": "v1"}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
    world.cluster.put(definition)
    world.load("c1")
    assert world.cache.render.commits["c1"].is_complete
    assert world.renderer.commits == ["c1"]


def test_the_error_of_a_commit_is_kept_until_a_sync_is_requested() -> None:
    world = World()
    world.source.commit("c1", **{"shop/a.yaml": "kind: ["})
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"shop/a\.yaml"):
            world.load("c1")
    assert world.renderer.commits == ["c1"]
    world.cache.requested_by = "ada"
    with pytest.raises(InvalidInput):
        world.load("c1")
    assert world.renderer.commits == ["c1", "c1"]


def test_a_commit_after_a_broken_one_is_rendered() -> None:
    world = World()
    world.source.commit("c1", **{"shop/a.yaml": "kind: ["})
    with pytest.raises(InvalidInput):
        world.load("c1")
    world.source.commit("c2", config_map("a", x="1"))
    assert A in world.load("c2").objects


def test_a_path_that_a_commit_emptied_declares_nothing() -> None:
    world = World(applied())
    world.source.commit("c1", config_map("a", x="1"))
    world.source.commit("c2", **{"README.md": "text"})
    rendered = world.load("c2")
    assert rendered.objects == {}
    assert "shop" in rendered.warnings[0]


@pytest.mark.parametrize("status", [None, {"revision": COMMITS}])
def test_a_path_that_was_always_empty_is_a_mistake(status: dict[str, Any] | None) -> None:
    world = World(status)
    world.source.commit("c1", **{"README.md": "text"})
    with pytest.raises(EmptyRender):
        world.load("c1")


def test_a_path_that_is_empty_in_the_applied_commit_is_a_mistake() -> None:
    world = World(applied())
    world.source.commit("c1", **{"README.md": "text"})
    with pytest.raises(EmptyRender):
        world.load("c1")


def test_the_build_before_a_restart_is_used() -> None:
    store = Store()
    world = World(store=store)
    world.source.commit("c1", config_map("a", x="1"))
    world.load("c1")
    assert store.build is not None
    world.cache = ReconcileCache()
    world.desired = world.new_process()
    assert A in world.load("c1").objects
    world.source.commit("c2", config_map("a", x="1"), **{"README.md": "text"})
    world.load("c2")
    assert world.renderer.commits == ["c1"]


def test_secrets_are_decrypted_with_the_keys_of_the_application() -> None:
    identity = Identity.generate()
    world = World(keys=(str(identity),))
    world.source.commit("c1", **{"shop/s.yaml": Sealer(identity.to_public(), ["stringData"]).file(SECRET)})
    (secret,) = world.load("c1").objects.values()
    assert b64decode(secret["data"]["p"]) == b"hidden"
    assert world.load("c1").objects is world.load("c1").objects
    world.keys = (str(Identity.generate()),)
    with pytest.raises(InvalidInput, match=r"shop/s\.yaml"):
        world.load("c1")
    assert world.renderer.commits == ["c1"], "the render processes have no keys"


def test_the_target_names_the_commits_of_the_reconcile() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    rendered = world.load("c1")
    target = rendered.target(Commit("c1"), "c2")
    assert (target.commit.id, target.fetched, target.newest, target.origin) == ("c1", "c1", "c2", "c1")
    assert rendered.target(None).fetched == ""
    assert target.locate is not None
    assert target.locate(rendered.objects[A], ".data.x") == "shop/a.yaml:3"


def test_what_was_applied_last_is_loaded_for_comparison() -> None:
    world = World(applied())
    world.source.commit("c1", config_map("a", x="1"))
    world.source.commit("c2", config_map("a", x="2"))
    declared = world.load("c2").load_applied()
    assert declared.objects[A]["data"] == {"x": "1"}
    assert dict(world.load("c1").load_applied().objects) == {}, "it is the applied one"
    del world.source.commits["c1"]
    world.source.commits["c1"] = {"shop/a.yaml": b"kind: ["}
    world.cache = ReconcileCache()
    assert dict(world.load("c2").load_applied().objects) == {}, "it cannot be rendered"


def test_a_reconcile_reports_what_rendering_found() -> None:
    world = World()
    world.source.commit("c1", config_map("a", x="1"))
    report = Report(world.manifest, world.inputs())
    world.desired.load_for(report, world.cache, Commit("c1"))
    assert report.stage is FailureReason.RENDER
    assert report.rendered == (1, ())


def test_once_a_commit_is_applied_those_before_it_are_forgotten() -> None:
    world = World(applied())
    for number in range(1, 4):
        world.source.commit(f"c{number}", config_map("a", x=str(number)))
        world.load(f"c{number}")
    report = Report(world.manifest, world.inputs())
    world.desired.load_for(report, world.cache, Commit("c3"))
    assert list(world.cache.render.commits) == ["c1", "c2", "c3"], "the applied one is compared with"
    world.desired.load_for(report, world.cache, Commit("c1"))
    assert list(world.cache.render.commits) == ["c1"]


def test_the_last_good_commit_and_that_of_a_running_sync_stay_rendered() -> None:
    status = applied()
    world = World({**status, "revision": {**status["revision"], "good": "c0"}})
    for number in range(4):
        world.source.commit(f"c{number}", config_map("a", x=str(number)))
    for commit in ("c0", "c2", "c1"):
        world.load(commit)
    plan = Plan("gitsync/shop", "c2", (), "digest", Risk.SAFE)
    running = Operation("s", Commit("c2"), "commit", "", FakeClock().now(), began=0.0, plan=plan, begun_with=plan)
    world.cache.execution.operation = running
    world.desired.load_for(Report(world.manifest, world.inputs()), world.cache, Commit("c1"))
    assert list(world.cache.render.commits) == ["c0", "c2", "c1"]


def test_a_commit_that_changes_nothing_is_not_reported() -> None:
    world = World(applied())
    world.source.commit("c1", config_map("a", x="1"))
    world.load("c1")
    world.source.commit("c2", config_map("a", x="1"), **{"README.md": "text"})
    assert world.last_change("c2") == "c1"
    assert world.cache.git.snapshot is None
    world.source.commit("c3", config_map("a", x="2"))
    assert world.last_change("c3") == "c3"


@pytest.mark.parametrize("why", ["nothing reported", "requested", "due", "unknown", "unreadable"])
def test_a_commit_is_reported_where_that_may_matter(why: str) -> None:
    world = World(None if why == "nothing reported" else applied())
    world.source.commit("c1", config_map("a", x="1"))
    world.source.commit("c2", config_map("a", x="1"), **{"README.md": "text"})
    world.cache.requested_by = "ada" if why == "requested" else ""
    world.cache.git.is_report_due = why == "due"
    if why == "unknown":
        del world.source.commits["c1"]
    if why == "unreadable":
        world.source.commits["c2"] = {"shop/a.yaml": b"kind: ["}
    assert world.last_change("c2") == "c2"
    assert not world.cache.git.is_report_due


def test_a_mirror_that_cannot_be_read_leaves_the_error_to_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(applied())
    world.source.commit("c2", config_map("a", x="1"))

    def fail(*args: object) -> None:
        raise SourceUnavailable("the mirror is broken")

    monkeypatch.setattr(world.source, "changed_paths", fail)
    assert world.last_change("c2") == "c2"
