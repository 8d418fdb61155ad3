"""Pull requests at a host are previewed, reported once, and followed into the cluster; over real Git and HTTP."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gitsync.cli.adapters import InProcessRenderer
from gitsync.controllers.pull_requests import POLL_PERIOD, HostApprovals, PullRequestController, PullRequestPorts
from gitsync.errors import GitsyncError, InvalidInput, RecordUnavailable, SourceThrottled, SourceUnavailable
from gitsync.gate.policy import Policy, Require
from gitsync.objects.application import Application, GitSource, SourceGroup, parse_application
from gitsync.objects.change import Decision, HoldReason, Plan, Risk, Verdict
from gitsync.objects.keys import API_VERSION, GIT_PUSHED
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.urls import repository_key
from gitsync.plan.commit_effect import commit_effect
from gitsync.plan.normalize import desired_objects
from gitsync.ports import ApplicationView, Credentials, MergeResult, Snapshot
from gitsync.ports.previews import PreviewRequest
from gitsync.preview.report import PreviewReport, ReportedChange, ReportedRefusal, ReportedRehearsal
from gitsync.record.database import RecordDatabase
from gitsync.record.shared import SqlProposals
from gitsync.render.yaml.reader import read_all
from gitsync.runtime.membership import SingleReplica
from gitsync.services.reviews import Approval
from gitsync.source.hosts.opening import ApiHosts
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases
from gitsync.workers.previews import FetchedRemotes, previewed
from tests.fakes.code_host import REPOSITORY, HostServer, code_host
from tests.fakes.ports import FakeClock
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
"""


@dataclass
class Mapped:
    """The repository of a host, which is a folder."""

    repositories: Repositories
    url: str
    merged: dict[tuple[str, str], tuple[MergeResult, Snapshot]] = field(default_factory=dict)

    def _of(self, source: GitSource) -> GitSource:
        return source.model_copy(update={"repo_url": self.url})

    def branches(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> Mapping[str, str]:
        return self.repositories.branches(self._of(source), Credentials(), max_age=0.0)

    def merge(
        self, source: GitSource, credentials: Credentials, base: str, head: str, *, ref: str = ""
    ) -> tuple[MergeResult, Snapshot]:
        if (base, head) not in self.merged:
            self.merged[base, head] = self.repositories.merge(self._of(source), Credentials(), base, head, ref=ref)
        return self.merged[base, head]

    def merge_among(
        self,
        group: SourceGroup,
        credentials: Credentials,
        names: Collection[str],
        merge: MergeResult,
        *,
        max_age: float,
    ) -> tuple[MergeResult, Snapshot]:
        return self.repositories.merge_among(self._group(group), Credentials(), names, merge, max_age=0.0)

    def _group(self, group: SourceGroup) -> SourceGroup:
        return SourceGroup.of(
            tuple(
                member.model_copy(update={"repo_url": self.url}) if member.repo_url.startswith("http:") else member
                for member in group.members
            )
        )

    def tree(self, source: GitSource, credentials: Credentials, commit: str) -> str:
        return self.repositories.tree(self._of(source), Credentials(), commit)

    def authors(self, source: GitSource, earlier: str, later: str) -> frozenset[str]:
        return self.repositories.authors(self._of(source), earlier, later)

    def commits(self, source: GitSource, commit: str, *, limit: int = 20) -> tuple[Commit, ...]:
        return self.repositories.commits(self._of(source), commit, limit=limit)


@dataclass
class InProcess:
    """Preview in this process; ``during`` is called before each one."""

    heads: list[str] = field(default_factory=list)
    during: Any = lambda: None
    reports: dict[str, PreviewReport] = field(default_factory=dict)
    """By merge, which the previews of tests share: only what the controller does with them is counted."""
    prepared: int = 0
    rehearsal: ReportedRehearsal | GitsyncError = field(default_factory=ReportedRehearsal)
    rehearsed: list[str] = field(default_factory=list)
    """The heads that were rehearsed."""

    def prepare_preview(self) -> None:
        self.prepared += 1

    def rehearse(self, snapshot: Snapshot, request: PreviewRequest) -> ReportedRehearsal:
        self.rehearsed.append(request.merge.head)
        if isinstance(self.rehearsal, GitsyncError):
            raise self.rehearsal
        return self.rehearsal

    def preview(self, snapshot: Snapshot, request: PreviewRequest) -> PreviewReport:
        self.heads.append(request.merge.head)
        self.during()
        asked = FetchedRemotes(snapshot, request)
        while request.merge.commit not in self.reports:
            answer = previewed({"git_dir": snapshot.git_dir, "file_bytes": 1 << 20, "merge": asked.message})
            if "needed" in answer:
                asked.fetch(answer["needed"])
            else:
                self.reports[request.merge.commit] = PreviewReport.model_validate(answer["report"])
        return self.reports[request.merge.commit]


@dataclass
class Views:
    known: dict[str, ApplicationView]

    def applications(self) -> tuple[ApplicationView, ...]:
        return tuple(self.known.values())


REVIEWERS = Policy(
    require=(
        Require.model_validate(
            {
                "approvers": {"groups": ["sre"]},
                "reviewers": [
                    {"host": "http://127.0.0.1:*", "login": "Grace", "user": "grace", "groups": ["sre"]},
                    {"host": "http://127.0.0.1:*", "login": "writer", "user": "ada@example.test", "groups": ["sre"]},
                    {"host": "http://127.0.0.1:*", "login": "guest", "user": "guest"},
                    {"host": "https://other.example.com", "login": "heidi", "user": "heidi", "groups": ["sre"]},
                ],
            }
        ),
    )
)


@dataclass
class Shop:
    """One repository with one Application, at a host."""

    controller: PullRequestController
    server: HostServer
    repo: GitRepo
    previewer: InProcess
    clock: FakeClock
    views: Views
    key: str
    approved: list[tuple[str, Approval]]
    """The digests of plans that reviews at the host approved."""
    policies: list[Policy]
    """Which other repositories previews may read."""

    def push(self, branch: str, replicas: object, start: str = "main") -> str:
        git(self.repo.work, "checkout", "-q", "-B", branch, start)
        commit = self.repo.commit(
            {"web.yaml": DEPLOYMENT.replace("REPLICAS", str(replicas))}, f"Scale to {replicas}", push=False
        )
        git(self.repo.work, "push", "-q", "-f", "origin", branch)
        git(self.repo.work, "checkout", "-q", "main")
        return commit

    def open(self, number: int, head: str, **members: Any) -> None:
        """Open a pull request or push to it: hosts have the head of each below ``refs/pull``."""
        git(self.repo.work, "push", "-q", "-f", "origin", f"{head}:refs/pull/{number}/head")
        self.server.add(number, head, **members)

    def wake(self) -> float | None:
        """Let a webhook arrive, and reconcile."""
        assert self.controller.repository_changed(lambda url: True) == 1
        return self.controller.reconcile(self.key)

    def statuses(self, commit: str, context: str = "gitsync/preview") -> list[tuple[str, str]]:
        listed = self.server.statuses.get(commit, [])
        return [(item["state"], item["description"]) for item in listed if item["context"] == context]


def manifest(url: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "gitsync", "uid": "u"},
        "spec": {"source": {"repoURL": url}, **spec},
    }


def view_of(app: Application, **status: Any) -> ApplicationView:
    return ApplicationView(app.key, app, status, (), None, None, FakeClock().now())


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    settings: dict[str, Any] = getattr(request, "param", {"pullRequests": {"host": "Gitea"}})
    repo = GitRepo(tmp_path)
    repo.commit({"web.yaml": DEPLOYMENT.replace("REPLICAS", "1")}, "Base")
    with code_host(HostServer()) as server:
        url = f"{server.base}/{REPOSITORY}"
        declared = manifest(url, **settings)
        if "sources" in settings:
            declared["spec"] = {**settings, "sources": sources_of(url, tmp_path, *settings["sources"])}
        app = parse_application(declared)
        views = Views({app.key: view_of(app)})
        clock = FakeClock()
        previewer = InProcess()
        approved: list[tuple[str, Approval]] = []
        state: Any = views
        repositories = Repositories(tmp_path / "mirrors", Transport(("file", "http")))
        source = Mapped(repositories, repo.url)
        policies: list[Policy] = []
        any_source: Any = repositories
        bases = RemoteBases(InProcessRenderer(), any_source, lambda app: Credentials(), lambda app: policies)
        ports = PullRequestPorts(
            source,
            ApiHosts(Transport(("http",))),
            previewer,
            state,
            clock,
            SingleReplica(),
            lambda app: Credentials(password="TOKEN" if app.namespace == "gitsync" else "of others"),
            SqlProposals(RecordDatabase(f"sqlite:///{tmp_path}/records.db")),
            lambda key: declared,
            dict,
            "https://gitsync.example.com/",
            approvals=HostApprovals(
                lambda app: REVIEWERS, lambda view, digest, approval: approved.append((digest, approval))
            ),
            fetch_remote=bases.fetch,
        )
        controller = PullRequestController(ports)
        yield Shop(controller, server, repo, previewer, clock, views, repository_key(url), approved, policies)


def sources_of(url: str, folder: Path, *others: str) -> list[dict[str, Any]]:
    """Return the repository of the host as a source, and another one, whose revisions these are, of another server."""
    other = GitRepo(folder / "other")
    other.commit({"map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n"}, "Add a map")
    own = {"name": "own", "repoURL": url, "path": ".", "credentials": {"secretRef": {"name": "token"}}}
    return [own, *({"name": name, "repoURL": other.url, "path": ".", "revision": name} for name in others)]


def view_app(shop: Shop) -> Application:
    """Return the Application."""
    app = shop.views.known["gitsync/shop"].application
    assert app is not None
    return app


def test_a_pull_request_gets_a_status_and_a_comment(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    assert shop.wake() == POLL_PERIOD

    assert shop.statuses(head) == [("success", "Moderate: 1 object in 1 deployed folder")]
    [comment] = shop.server.comments[1]
    assert "+ .spec.replicas: 3   # web.yaml:5" in comment["body"]
    [view] = shop.controller.proposals()
    assert f"(https://gitsync.example.com/pulls/{view.proposal.key})" in comment["body"]


@pytest.mark.parametrize(
    "shop", [{"pullRequests": {"host": "Gitea"}, "sources": ["main"]}], indirect=True, ids=["two sources"]
)
def test_a_change_of_one_of_several_sources_is_previewed(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    assert shop.wake() == POLL_PERIOD

    assert shop.statuses(head) == [("success", "Moderate: 1 object in 1 deployed folder")]
    [comment] = shop.server.comments[1]
    assert "+ .spec.replicas: 3   # own/web.yaml:5" in comment["body"]
    [view] = shop.controller.proposals()
    assert view.report is not None
    assert view.report.covered == ("gitsync/shop (own, main)",)
    assert [*view.report.changes[0].plans] == ["gitsync/shop"]


@pytest.mark.parametrize(
    "shop", [{"pullRequests": {"host": "Gitea"}, "sources": ["main"]}], indirect=True, ids=["two sources"]
)
def test_another_source_that_changed_renews_a_preview(shop: Shop) -> None:
    def deploy(own: str, other: str) -> None:
        sources = [{"name": "own", "commit": own}, {"name": "main", "commit": other}]
        shop.views.known["gitsync/shop"] = view_of(view_app(shop), revision={"sources": sources})

    deploy("a" * 40, "b" * 40)
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    [first] = shop.controller.proposals()
    # a commit of its own repository moves the base of the change, which is compared already
    deploy("c" * 40, "b" * 40)
    shop.wake()
    assert shop.controller.proposals()[0] is first

    deploy("c" * 40, "d" * 40)
    shop.wake()
    [renewed] = shop.controller.proposals()
    assert renewed is not first
    assert renewed.report == first.report


@pytest.mark.parametrize(
    "shop", [{"pullRequests": {"host": "Gitea"}, "sources": ["missing"]}], indirect=True, ids=["missing branch"]
)
def test_a_source_that_cannot_be_read_is_the_reason(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    [view] = shop.controller.proposals()
    assert view.report is not None
    [change] = view.report.changes
    assert "missing" in change.base_problem
    assert not change.steps


@pytest.mark.parametrize(
    "shop", [{"pullRequests": {"host": "Gitea"}, "sources": ["main"]}], indirect=True, ids=["two sources"]
)
def test_the_commit_of_its_source_gets_the_status_of_a_sync(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.wake()
    base = git(shop.repo.work, "rev-parse", "main").strip()
    revision = {"fetched": "f" * 40, "applied": "f" * 40}
    status = {"phase": "Synced", "health": "Healthy", "revision": revision}
    shop.views.known["gitsync/shop"] = view_of(view_app(shop), **status)
    shop.wake()
    assert shop.statuses(base, "gitsync/shop") == []
    joined = {**revision, "sources": [{"name": "main", "commit": "e" * 40}, {"name": "own", "commit": base}]}
    shop.views.known["gitsync/shop"] = view_of(view_app(shop), **{**status, "revision": joined})
    shop.wake()
    assert shop.statuses(base, "gitsync/shop") == [("success", "Synced and Healthy")]
    # neither the joined commit, which no host has, nor that of the other server
    assert shop.server.statuses.keys() == {head, base}


def test_a_push_updates_the_one_comment(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    second = shop.push("change/1", 4)
    shop.open(1, second)
    shop.wake()
    [comment] = shop.server.comments[1]
    assert "+ .spec.replicas: 4" in comment["body"]
    assert shop.statuses(second) == [("success", "Moderate: 1 object in 1 deployed folder")]


def test_nothing_is_previewed_or_sent_twice(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    shop.server.requests.clear()
    shop.wake()
    assert [method for method, _, _ in shop.server.requests] == ["GET"]
    assert len(shop.previewer.heads) == 1


def test_200_quiet_pull_requests_cost_one_request_a_minute(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    for number in range(1, 201):
        shop.server.add(number, head)
    git(shop.repo.work, "push", "-q", "origin", *(f"{head}:refs/pull/{number}/head" for number in range(1, 201)))
    shop.wake()
    while shop.controller.reconcile(shop.key) == 0.0:
        pass
    # all is reported by now
    shop.server.requests.clear()
    for _ in range(10):
        shop.clock.seconds += POLL_PERIOD
        shop.controller.reconcile(shop.key)
    assert len(shop.server.requests) == 10


def test_a_merge_into_the_base_previews_again(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    first = shop.server.comments[1][0]["body"]
    shop.repo.commit({"other.txt": "x"}, "Change the base")
    shop.wake()
    assert len(shop.previewer.heads) == 2
    # it does the same, so nothing is written
    assert [item["body"] for item in shop.server.comments[1]] == [first]


def test_a_conflict_fails_the_status(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.repo.commit({"web.yaml": DEPLOYMENT.replace("REPLICAS", "2")}, "Scale the base")
    shop.open(1, head)
    shop.wake()
    [(state, description)] = shop.statuses(head)
    assert state == "failure"
    assert "conflict in web.yaml" in description
    assert "conflict in web.yaml" in shop.server.comments[1][0]["body"]


def test_a_manifest_that_cannot_be_built_fails_the_status(shop: Shop) -> None:
    head = shop.push("change/1", "[")
    shop.open(1, head)
    shop.wake()
    [(state, description)] = shop.statuses(head)
    assert state == "failure"
    assert description.startswith("cannot be applied: web.yaml:")


@pytest.mark.parametrize(
    "shop", [{"pullRequests": {"host": "Gitea", "failAbove": "Safe", "comment": False}}], indirect=True
)
def test_a_class_above_the_highest_fails_the_status(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.wake()
    assert shop.statuses(head) == [("failure", "Moderate: 1 object in 1 deployed folder; at most Safe passes")]
    assert shop.server.comments == {}


REHEARSED: dict[str, Any] = {"pullRequests": {"host": "Gitea", "rehearse": True}}
REFUSAL = ReportedRefusal(
    folder=".", object="Deployment default/web", step="apply", problem="field is immutable", where="web.yaml:1"
)


@pytest.mark.parametrize("shop", [REHEARSED], indirect=True)
def test_what_a_rehearsal_refuses_fails_the_status(shop: Shop) -> None:
    shop.previewer.rehearsal = ReportedRehearsal(refusals=(REFUSAL,))
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.wake()
    assert shop.statuses(head) == [("failure", "cannot be applied: Deployment default/web: field is immutable")]
    assert "- apply `Deployment default/web` in `.`: `field is immutable`" in shop.server.comments[1][0]["body"]


@pytest.mark.parametrize("shop", [REHEARSED], indirect=True)
@pytest.mark.parametrize(
    "rehearsal",
    [
        ReportedRehearsal(),
        ReportedRehearsal(refusals=(REFUSAL.model_copy(update={"step": "revert"}),)),
        InvalidInput("rendering takes longer than the limit of 60 s"),
    ],
    ids=["accepted", "only the revert is refused", "over the limits"],
)
def test_what_a_rehearsal_accepts_succeeds(shop: Shop, rehearsal: ReportedRehearsal | GitsyncError) -> None:
    shop.previewer.rehearsal = rehearsal
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.wake()
    assert shop.statuses(head) == [("success", "Moderate: 1 object in 1 deployed folder")]
    [view] = shop.controller.proposals()
    assert view.report is not None
    assert view.report.rehearsal is not None
    assert ("longer than the limit" in str(view.report.rehearsal.not_judged)) == isinstance(rehearsal, GitsyncError)


@pytest.mark.parametrize("shop", [REHEARSED], indirect=True)
def test_what_fails_anyway_is_not_rehearsed(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", "["))
    shop.wake()
    assert shop.previewer.rehearsed == []


def test_nothing_is_rehearsed_by_default(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    assert (len(shop.previewer.heads), shop.previewer.rehearsed) == (1, [])


def test_a_change_of_nothing_deployed_gets_no_comment(shop: Shop) -> None:
    git(shop.repo.work, "checkout", "-q", "-b", "docs")
    head = shop.repo.commit({"README.md": "x"}, "Write", push=False)
    git(shop.repo.work, "push", "-q", "origin", "docs")
    shop.open(1, head)
    shop.wake()
    assert shop.statuses(head) == [("success", "nothing that is deployed changes")]
    assert shop.server.comments == {}


def test_a_closed_or_foreign_pull_request_is_not_listed(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.open(2, head, base={"ref": "release", "repo": {"full_name": REPOSITORY}})
    shop.wake()
    assert [view.proposal.name for view in shop.controller.proposals()] == ["#1"]
    shop.server.add(1, state="closed")
    shop.wake()
    assert shop.controller.proposals() == ()


def test_a_preview_is_prepared_when_a_webhook_arrives(shop: Shop) -> None:
    shop.controller.repository_changed(lambda url: False)
    assert shop.previewer.prepared == 0
    shop.controller.repository_changed(lambda url: True)
    assert (shop.previewer.prepared, shop.previewer.heads) == (1, [])


def test_a_newer_push_cancels_the_previews_that_follow(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.open(2, shop.push("change/2", 4))
    shop.previewer.during = lambda: shop.controller.repository_changed(lambda url: True)
    assert shop.wake() == 0.0
    assert len(shop.previewer.heads) == 1
    shop.previewer.during = lambda: None
    shop.wake()
    assert len(shop.previewer.heads) == 2


def test_one_preview_that_fails_for_now_hides_no_other(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.server.add(2, "f" * 40)  # the mirror cannot fetch it
    with pytest.raises(SourceUnavailable):
        shop.wake()
    assert len(shop.statuses(head)) == 1
    assert "refs/pull/2/head" in next(iter(shop.controller.failures().values()))


def test_a_throttled_host_is_asked_later(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.server.failure = 429
    shop.server.limits = {"Retry-After": "30"}
    with pytest.raises(SourceThrottled) as raised:
        shop.wake()
    assert raised.value.retry_after == 30
    assert "answers 429" in next(iter(shop.controller.failures().values()))
    shop.server.failure = 0
    shop.server.limits = {}
    shop.wake()
    assert len(shop.statuses(head)) == 1
    assert shop.controller.failures() == {}


def test_a_status_for_a_commit_that_is_gone_is_given_up(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    answered = shop.server.answer
    shop.server.answer = lambda method, target, body: (  # type: ignore[method-assign]
        (422, {"message": "No commit found"}) if "/statuses/" in target else answered(method, target, body)
    )
    shop.wake()
    assert len(shop.server.comments[1]) == 1


@pytest.mark.parametrize("shop", [{"proposals": ["change/*"]}], indirect=True)
def test_a_branch_by_pattern_is_what_a_pull_request_is(shop: Shop) -> None:
    shop.push("change/1", 3)
    shop.push("other/1", 4)
    git(shop.repo.work, "push", "-q", "origin", "main:change/merged")
    shop.repo.commit({"other.txt": "x"}, "Go on")
    git(shop.repo.work, "push", "-q", "origin", "main:change/new")
    shop.controller.reconcile(shop.key)
    [view] = shop.controller.proposals()
    proposal = view.proposal
    assert (proposal.name, proposal.title, proposal.author) == ("change/1", "Scale to 3", "Ada Writer")
    assert view.report is not None
    assert view.report.risk == "Moderate"
    assert shop.server.requests == []


def test_the_deployed_commit_gets_a_status(shop: Shop) -> None:
    [view] = shop.views.applications()
    applied = {"phase": "Synced", "health": "Healthy", "revision": {"fetched": "c" * 40, "applied": "c" * 40}}
    shop.views.known[view.key] = replace(
        view, status={**applied, "phase": "Executing", "revision": {"fetched": "c" * 40}}
    )
    shop.wake()
    shop.views.known[view.key] = replace(view, status=applied)
    shop.wake()
    assert shop.statuses("c" * 40, "gitsync/shop") == [("pending", "Executing"), ("success", "Synced and Healthy")]


def test_an_application_that_is_gone_is_forgotten(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    shop.views.known.clear()
    assert shop.controller.reconcile(shop.key) is None
    assert shop.controller.proposals() == ()


def add_neighbour(shop: Shop, **spec: Any) -> None:
    """Add an Application of another namespace that names the same repository, and sorts first."""
    declared = manifest(f"{shop.server.base}/{REPOSITORY}", **spec)
    declared["metadata"] |= {"namespace": "a-neighbour"}
    app = parse_application(declared)
    shop.views.known[app.key] = view_of(app, revision={"fetched": "c" * 40})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"pullRequests": {"host": "Gitea", "comment": False, "failAbove": "Safe"}},
        {"pullRequests": {"host": "GitHub"}},
    ],
    ids=["no settings", "weaker settings", "another host"],
)
def test_a_neighbour_who_names_the_repository_decides_nothing(shop: Shop, spec: dict[str, Any]) -> None:
    add_neighbour(shop, **spec)
    head = shop.push("change/1", 3)
    shop.open(1, head)
    groups = shop.controller._followers()
    [ours] = [key for key, group in groups.items() if group.main.namespace == "gitsync"]
    shop.controller.repository_changed(lambda url: True)
    shop.controller.reconcile(ours)

    assert shop.statuses(head) == [("success", "Moderate: 1 object in 1 deployed folder")]
    assert len(shop.server.comments[1]) == 1
    [view] = shop.controller.proposals()
    assert view.applications == ("gitsync/shop",)
    assert not shop.statuses("c" * 40, "gitsync/shop")


def test_many_pull_requests_leave_the_worker_to_others(shop: Shop) -> None:
    heads = [shop.push(f"change/{number}", number + 2) for number in range(12)]
    for number, head in enumerate(heads, 1):
        shop.open(number, head)

    assert shop.wake() == 0.0
    assert len(shop.previewer.heads) == 10
    assert shop.controller.reconcile(shop.key) == POLL_PERIOD
    assert sorted(shop.previewer.heads) == sorted(heads)


def test_the_scan_enqueues_what_has_another_state(shop: Shop) -> None:
    queued: list[str] = []
    shop.controller._queue.add = lambda key, *, urgent=False: queued.append(key)  # type: ignore[method-assign]
    shop.controller.reconcile("")
    assert queued == [shop.key]
    shop.controller.reconcile(shop.key)
    queued.clear()
    shop.controller.reconcile("")
    assert queued == []
    [view] = shop.views.applications()
    shop.views.known[view.key] = replace(view, status={"revision": {"fetched": "c" * 40}})
    shop.controller.reconcile("")
    assert queued == [shop.key]


def restarted(shop: Shop, **ports: Any) -> PullRequestController:
    """Return the controller of another process, with the same database."""
    return PullRequestController(replace(shop.controller._ports, **ports))


def test_a_restart_previews_and_reports_nothing_again(shop: Shop) -> None:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    [view] = shop.views.applications()
    shop.views.known[view.key] = replace(view, status={"phase": "Executing", "revision": {"fetched": "c" * 40}})
    shop.wake()
    shop.server.requests.clear()
    shop.controller = restarted(shop)
    shop.wake()
    assert [method for method, _, _ in shop.server.requests] == ["GET"]
    assert len(shop.previewer.heads) == 1
    second = shop.push("change/1", 4)
    shop.open(1, second)
    shop.wake()
    [comment] = shop.server.comments[1]
    assert "+ .spec.replicas: 4" in comment["body"]


def test_another_process_shows_all_proposals(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.server.add(2, "f" * 40)  # the mirror cannot fetch it
    with pytest.raises(SourceUnavailable):
        shop.wake()
    other = restarted(shop)
    assert other.proposals() == shop.controller.proposals()
    assert [view.proposal.name for view in other.proposals()] == ["#1"]
    assert other.failures() == shop.controller.failures() != {}


def test_changed_policies_preview_again(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()
    shop.controller = restarted(shop, policies=lambda: {"a.yaml": b"kind: Other"})
    shop.wake()
    assert len(shop.previewer.heads) == 2


def test_an_event_that_another_replica_got_is_acted_on(shop: Shop) -> None:
    annotations: dict[str, str] = {}
    declared = {"metadata": {"name": "shop", "namespace": "gitsync", "annotations": annotations}}
    shop.controller = restarted(shop, manifest_of=lambda key: {**manifest("x"), **declared})
    shop.controller.reconcile("")
    shop.controller.reconcile(shop.key)
    head = shop.push("change/1", 3)
    shop.open(1, head)
    annotations[GIT_PUSHED] = "2026-11-26T03:00:00Z"
    shop.controller.reconcile("")
    shop.controller.reconcile(shop.key)
    assert len(shop.statuses(head)) == 1


def test_a_database_that_fails_keeps_the_page(shop: Shop) -> None:
    shop.open(1, shop.push("change/1", 3))
    shop.wake()

    class Broken:
        def all(self) -> Any:
            raise RecordUnavailable("the disk is full")

        def keep(self, repository: str, rows: Any) -> None:
            raise RecordUnavailable("the disk is full")

        def forget(self, repository: str) -> None:
            raise RecordUnavailable("the disk is full")

    shop.controller._ports = replace(shop.controller._ports, store=Broken())
    shop.open(2, shop.push("change/2", 4))
    shop.wake()
    assert [view.proposal.name for view in shop.controller.proposals()] == ["#1"]


POLICY = b"""\
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: shop}
spec: {applications: ["*"]}
"""


@pytest.mark.parametrize(("controller_rights", "state"), [(True, "success"), (False, "failure")])
def test_policies_judge_as_the_controller_does(shop: Shop, controller_rights: bool, state: str) -> None:
    ports = replace(shop.controller._ports, policies=lambda: {"a.yaml": POLICY}, controller_rights=controller_rights)
    shop.controller._ports = ports
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.wake()
    assert [reported for reported, _ in shop.statuses(head)] == [state]


def held(shop: Shop, revision: str, replicas: int = 3, drifted: int = 1) -> Plan:
    """Let the plan of a revision wait for an approval; the cluster has the base, or another number of replicas."""
    [view] = shop.views.applications()
    assert view.application is not None
    live, desired = (
        desired_objects(view.application, read_all(DEPLOYMENT.replace("REPLICAS", str(count))), lambda of: True)
        for count in (drifted, replicas)
    )
    steps = commit_effect(live.values(), desired.values(), view.application)
    plan = Plan(view.key, revision, steps, f"plan of {revision[:7]} from {drifted}", Risk.MODERATE)
    verdict = Verdict(Decision.HELD, ("waits",), holds=(HoldReason.APPROVAL,))
    status = {"phase": "AwaitingApproval", "revision": {"fetched": revision}}
    shop.views.known[view.key] = replace(view, plan=plan, verdict=verdict, status=status)
    return plan


def reviewed(shop: Shop, login: str, commit: str, state: str = "APPROVED", **members: Any) -> None:
    review = {"user": {"login": login}, "state": state, "commit_id": commit, **members}
    shop.server.reviews.setdefault(1, []).append(review)


def merged(shop: Shop, head: str) -> str:
    """Merge the pull request by squash, so that the commit has another id and author than the head."""
    git(shop.repo.work, "merge", "-q", "--squash", head)
    git(shop.repo.work, "-c", "user.name=host", "-c", "user.email=host@x", "commit", "-qm", "Squash")
    git(shop.repo.work, "push", "-q", "origin", "main")
    shop.server.add(1, head, state="closed", merged_at="2026-11-25T00:00:00Z")
    return git(shop.repo.work, "rev-parse", "HEAD")


@pytest.fixture
def proposed(shop: Shop) -> str:
    head = shop.push("change/1", 3)
    shop.open(1, head)
    shop.wake()
    return head


def test_an_approving_review_approves_the_plan_of_the_merge(shop: Shop, proposed: str) -> None:
    reviewed(shop, "grace", proposed)
    plan = held(shop, merged(shop, proposed))
    shop.wake()
    [(digest, approval)] = shop.approved
    assert (digest, approval.by.name, approval.by.groups) == (plan.digest, "grace", ("sre",))
    assert approval.reason == f"approving review of #1 at {proposed[:12]}"
    # once, however often the plan is seen
    shop.wake()
    assert len(shop.approved) == 1


def test_a_merged_pull_request_that_is_listed_as_open_is_approved(shop: Shop, proposed: str) -> None:
    reviewed(shop, "grace", proposed)
    commit = merged(shop, proposed)
    # Gitea closes it some time after the branch has moved: merged into the new base, it changes nothing
    shop.server.add(1, proposed, state="open", merged_at=None)
    shop.wake()
    shop.server.add(1, proposed, state="closed", merged_at="2026-11-25T00:00:00Z")
    plan = held(shop, commit)
    shop.wake()
    assert [digest for digest, _ in shop.approved] == [plan.digest]


@pytest.mark.parametrize(
    ("login", "members", "reason"),
    [
        ("stranger", {}, "the review of stranger does not count: the policy maps this login to no user"),
        ("heidi", {}, "the policy maps this login to no user"),
        ("writer", {}, "the review of writer does not count: it is of an author"),
        ("guest", {}, "guest is not an approver"),
        ("grace", {"commit_id": "b" * 40}, "it is about bbbbbbbbbbbb, and"),
        ("grace", {"dismissed": True}, "#1 has no approving review"),
        ("grace", {"state": "COMMENT"}, "#1 has no approving review"),
    ],
)
def test_other_reviews_approve_nothing(
    shop: Shop, proposed: str, login: str, members: dict[str, Any], reason: str
) -> None:
    reviewed(shop, login, proposed, **members)
    commit = merged(shop, proposed)
    held(shop, commit)
    shop.wake()
    assert shop.approved == []
    [(state, description)] = shop.statuses(commit, "gitsync/shop")
    assert state == "pending"
    assert reason in description


def test_the_opener_of_a_pull_request_does_not_approve_it(shop: Shop, proposed: str) -> None:
    shop.server.add(1, proposed, user={"login": "grace"})
    reviewed(shop, "grace", proposed)
    held(shop, merged(shop, proposed))
    shop.wake()
    assert shop.approved == []


def test_a_review_that_requests_changes_takes_an_approval_back(shop: Shop, proposed: str) -> None:
    reviewed(shop, "grace", proposed)
    reviewed(shop, "grace", proposed, "REQUEST_CHANGES")
    held(shop, merged(shop, proposed))
    shop.wake()
    assert shop.approved == []


def test_a_plan_that_meets_drift_is_not_what_was_reviewed(shop: Shop, proposed: str) -> None:
    reviewed(shop, "grace", proposed)
    commit = merged(shop, proposed)
    held(shop, commit, drifted=7)
    shop.wake()
    assert shop.approved == []
    [(_, description)] = shop.statuses(commit, "gitsync/shop")
    assert "the plan does other things than the preview of #1 showed" in description


def test_a_commit_that_is_no_previewed_merge_is_not_approved(shop: Shop, proposed: str) -> None:
    reviewed(shop, "grace", proposed)
    merged(shop, proposed)
    later = shop.repo.commit({"web.yaml": DEPLOYMENT.replace("REPLICAS", "9")}, "Push past the review")
    held(shop, later, replicas=9)
    shop.wake()
    assert shop.approved == []


def test_the_commit_of_a_merge_queue_gets_its_own_status(shop: Shop) -> None:
    head = shop.push("gh-readonly-queue/main/pr-1-abc", 3)
    shop.push("gh-readonly-queue/other/pr-2-abc", 4)
    shop.wake()
    assert shop.statuses(head) == [("success", "Moderate: 1 object in 1 deployed folder")]
    assert shop.server.comments == {}
    assert len(shop.previewer.heads) == 1


class OtherRepository:
    """Another repository, whose folder ``app`` the kustomization of the shop names at a tag."""

    def __init__(self, shop: Shop, server: GitServer, folder: Path) -> None:
        self._shop = shop
        self._repo = GitRepo(folder)
        self.server = server
        for version in ("1", "2"):
            files = {"app/kustomization.yaml": "resources: [web.yaml]", "app/web.yaml": DEPLOYMENT}
            self._repo.commit({path: text.replace("REPLICAS", version) for path, text in files.items()}, version)
            git(self._repo.work, "push", "-q", "origin", f"HEAD:refs/tags/v{version}")
        shop.repo.commit({"web.yaml": None, "kustomization.yaml": self.at("v1")}, "Use it")

    def at(self, revision: str) -> str:
        return f"resources: ['{self.server.url('origin.git')}//app?ref={revision}']\n"

    def propose(self, revision: str, *, is_fork: bool = False) -> None:
        """Open a pull request for another revision."""
        work = self._shop.repo.work
        git(work, "checkout", "-q", "-B", "change/1", "main")
        head = self._shop.repo.commit({"kustomization.yaml": self.at(revision)}, f"Take {revision}", push=False)
        git(work, "checkout", "-q", "main")
        self._shop.open(1, head)
        if is_fork:
            self._shop.server.pulls[1]["head"]["repo"] = {"full_name": "eve/shop"}
        self._shop.wake()

    def change(self) -> ReportedChange:
        """Return what the preview says of the folder."""
        (view,) = self._shop.controller.proposals()
        assert view.report is not None
        (change,) = view.report.changes
        return change


@pytest.fixture
def other(shop: Shop, tmp_path: Path) -> Iterator[OtherRepository]:
    with GitServer(tmp_path / "other-server") as server:
        yield OtherRepository(shop, server, tmp_path / "other-server")


ALLOWED = Policy(remotes=("http://127.0.0.1:*/*",))


def test_another_revision_of_another_repository_is_compared(shop: Shop, other: OtherRepository) -> None:
    shop.policies.append(ALLOWED)
    other.propose("v2")
    change = other.change()
    assert (change.problem, change.base_problem) == ("", "")
    (step,) = change.steps
    assert [(field.path, field.before, field.after) for field in step.fields] == [(".spec.replicas", 1, 2)]
    assert "/app/web.yaml:" in step.fields[0].where


def test_a_revision_that_does_not_exist_is_a_fault_of_the_change(shop: Shop, other: OtherRepository) -> None:
    shop.policies.append(ALLOWED)
    other.propose("v3")
    change = other.change()
    assert "the revision 'v3' is neither a tag nor a full commit id" in change.problem
    assert change.problem.startswith("kustomization.yaml:1: ")


def test_what_the_policy_does_not_list_is_not_read_for_a_preview(shop: Shop, other: OtherRepository) -> None:
    other.propose("v2")
    change = other.change()
    assert "is not allowed by policy" in change.problem
    assert not other.server.requests


def test_nothing_is_read_of_other_repositories_for_a_fork(shop: Shop, other: OtherRepository) -> None:
    shop.policies.append(ALLOWED)
    other.propose("v2", is_fork=True)
    change = other.change()
    assert change.problem == ""
    assert "a preview does not read" in change.base_problem
    assert not other.server.requests


def test_a_server_that_does_not_answer_has_the_preview_tried_again(shop: Shop, other: OtherRepository) -> None:
    shop.policies.append(ALLOWED)
    other.server.failures = {"origin.git": 503}
    # the controller retries what failed so
    with pytest.raises(SourceUnavailable, match="has failed"):
        other.propose("v2")
    assert shop.controller.proposals() == ()
