"""Folders in other repositories, served by a real git http-backend, as parts of a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gitsync.cli.adapters import InProcessRenderer
from gitsync.errors import InvalidInput, Refused, SourceUnavailable
from gitsync.gate.policy import Policy, Require
from gitsync.objects.application import Application, parse_application
from gitsync.objects.signers import Signer
from gitsync.ports import Credentials, RemoteBase, Renderer
from gitsync.render.build import Build, build
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases, RemoteFetcher, mounted
from gitsync.workers.pool import RenderPool
from tests.fakes.artifacts import FakeArtifacts, chart_archive
from tests.fakes.helm import FakeHelm
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.render.kustomize_cases import MemoryTree
from tests.waiting import until

ADA = Credentials(username="ada", password="right")
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {mode: %s}\n"


class Setting:
    """An Application's repository and another one, each at a server of its own."""

    def __init__(self, folder: Path, own: GitServer, other: GitServer) -> None:
        self.own, self.other = own, other
        self.repo, self.base = GitRepo(folder / "own"), GitRepo(folder / "other")
        self.source = Repositories(folder / "mirrors", Transport(("http",)))
        self.allowed = ["http://127.0.0.1:*/*"]
        self.verify: dict[str, object] = {}
        self.signers: tuple[Signer, ...] = ()
        self.base.commit(
            {"web/kustomization.yaml": "resources: [web.yaml]\n", "web/web.yaml": OBJECT % ("web", "base")}
        )
        self.tag("v1")
        self.refer("?ref=v1")

    def tag(self, name: str) -> None:
        """Have a tag of the other repository name its newest commit."""
        git(self.base.work, "push", "-q", "--force", "origin", f"HEAD:refs/tags/{name}")

    def refer(self, query: str, path: str = "//web") -> str:
        """Have the Application name the folder of the other repository; return the reference."""
        reference = f"{self.other.url('origin.git')}{path}{query}"
        text = f"namePrefix: my-\nresources:\n- {reference}\n- own.yaml\n"
        self.repo.commit({"app/kustomization.yaml": text, "app/own.yaml": OBJECT % ("own", "own")})
        return reference

    @property
    def app(self) -> Application:
        source = {"repoURL": self.own.url("origin.git"), "path": "app", "verify": self.verify}
        spec = {"source": source, "sync": {"interval": "1s"}}
        return parse_application({"metadata": {"name": "app", "namespace": "gitsync"}, "spec": spec})

    def policies(self) -> list[Policy]:
        require = (Require(signers=self.signers),)
        return [Policy(name=name, remotes=tuple(self.allowed), require=require) for name in ("all", "own")]

    def bases(self, renderer: Renderer | None = None) -> RemoteBases:
        return RemoteBases(renderer or InProcessRenderer(), self.source, lambda app: ADA, lambda app: self.policies())

    def render(self, renderer: Renderer | None = None) -> Build:
        commit = self.source.resolve(self.app.source, ADA)
        return self.bases(renderer).render(self.app, self.source.snapshot(self.app.source, ADA, commit))


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    with GitServer(tmp_path / "own") as own, GitServer(tmp_path / "other") as other:
        own.accepted = {"ada:right"}
        yield Setting(tmp_path, own, other)


def names(build: Build) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in build.manifests]


def test_a_folder_of_another_repository_is_part_of_the_build(setting: Setting) -> None:
    reference = setting.refer("?ref=v1")
    build = setting.render()
    commit = git(setting.base.origin, "rev-parse", "v1")
    assert names(build) == ["my-own", "my-web"]
    assert build.remotes == ((reference, commit),)
    mount = build.sources[1].file.removesuffix("/web/web.yaml")
    assert all(path.startswith(("app", mount)) for path in build.files_read), "no other path of the own repository"
    assert build.sources[1].file.endswith(f"/origin.git@{commit[:12]}/web/web.yaml")


def test_builds_of_several_sources_are_joined(setting: Setting) -> None:
    """Each source is rendered by itself; an object of both is an error that names both."""
    url = setting.own.url("origin.git")
    setting.repo.commit({"a/web.yaml": OBJECT % ("web", "web"), "b/own.yaml": OBJECT % ("own", "own")})
    sources = [{"name": name, "repoURL": url, "path": name} for name in ("a", "b")]

    def render(sources: list[dict[str, str]]) -> Build:
        app = parse_application({"metadata": {"name": "app", "namespace": "gitsync"}, "spec": {"sources": sources}})
        credentials = Credentials(parts=(ADA, ADA))
        commit = setting.source.resolve(app.source, credentials)
        return setting.bases().render(app, setting.source.snapshot(app.source, credentials, commit))

    build = render(sources)
    assert names(build) == ["web", "own"]
    assert [origin.file for origin in build.sources] == ["a/a/web.yaml", "b/b/own.yaml"]
    with pytest.raises(InvalidInput, match="the sources a and b both have it") as caught:
        render([sources[0], {**sources[1], "path": "a"}])
    assert caught.value.location == "spec.sources[b]"


def test_repositories_of_an_application_that_is_gone_are_forgotten(setting: Setting) -> None:
    reference = setting.refer("?ref=v1")
    bases = setting.bases()
    commit = setting.source.resolve(setting.app.source, ADA)
    bases.render(setting.app, setting.source.snapshot(setting.app.source, ADA, commit))
    assert [reference.startswith(url) for url in bases.repositories] == [True]
    bases.forget(setting.app.key)
    assert bases.repositories == frozenset()


def test_render_processes_build_the_same(setting: Setting) -> None:
    pool = RenderPool(1, 60.0, 1024)
    try:
        assert setting.render(pool) == setting.render()
    finally:
        pool.close()


def test_a_policy_has_to_allow_the_repository(setting: Setting) -> None:
    setting.allowed = []
    with pytest.raises(
        Refused, match=r"app/kustomization\.yaml.*is remote, and its content is not allowed by policy all"
    ):
        setting.render()
    assert not setting.other.requests
    setting.allowed = [setting.other.url("*")]
    assert names(setting.render()) == ["my-own", "my-web"]


def test_credentials_stay_at_the_host_of_the_application(setting: Setting) -> None:
    setting.other.accepted = {"ada:right"}
    with pytest.raises(SourceUnavailable, match="rejected the credentials, or requires some"):
        setting.render()


def test_a_tag_that_moves_is_noticed_by_render_processes_too(setting: Setting) -> None:
    pool = RenderPool(1, 60.0, 1024)
    try:
        build, bases = setting.render(pool), setting.bases()
        assert bases.is_current(setting.app, build)
        moved = setting.base.commit({"web/web.yaml": OBJECT % ("web", "newer")})
        setting.tag("v1")
        until(lambda: not bases.is_current(setting.app, build), 30)
        again = setting.render(pool)
        assert again.manifests[1]["data"] == {"mode": "newer"}
        assert [commit for _, commit in again.remotes] == [moved]
    finally:
        pool.close()


@pytest.mark.parametrize("revision", ["main", "refs/heads/main", "HEAD", "1.x", "1f0e"])
def test_what_may_move_at_any_time_is_no_revision(setting: Setting, revision: str) -> None:
    setting.tag("v1.0.0")
    setting.refer(f"?ref={revision}")
    with pytest.raises(SourceUnavailable, match=r"app/kustomization\.yaml.*name a tag or a full commit id"):
        setting.render()


def test_a_branch_does_not_hide_the_tag_of_its_name(setting: Setting) -> None:
    git(setting.base.work, "push", "-q", "origin", "HEAD:refs/heads/v1")
    setting.base.commit({"web/web.yaml": OBJECT % ("web", "newer")})
    git(setting.base.work, "push", "-q", "origin", "HEAD:refs/heads/v1")
    assert setting.render().manifests[1]["data"] == {"mode": "base"}


def test_a_reference_without_a_revision_is_refused(setting: Setting) -> None:
    setting.refer("")
    with pytest.raises(InvalidInput, match="names no revision, so its content may change"):
        setting.render()


@pytest.mark.parametrize("by", ["application", "policy"])
def test_where_commits_must_be_signed_a_reference_is_a_commit_id(setting: Setting, by: str) -> None:
    if by == "policy":
        setting.signers = (Signer(keys=("key",)),)
    else:
        setting.verify = {"mode": "SignedCommits", "secretRef": {"name": "keys"}}
    with pytest.raises(Refused, match=r"commits must be signed, and the revision v1 of .* is not a commit id"):
        setting.render()
    setting.refer(f"?ref={git(setting.base.origin, 'rev-parse', 'v1')}")
    assert names(setting.render()) == ["my-own", "my-web"]


def test_signed_commits_pin_the_references_of_other_repositories_too(setting: Setting) -> None:
    inner = setting.refer("?ref=v1")
    outer = setting.base.commit({"two/kustomization.yaml": f"resources: ['{inner}']\n"})
    setting.tag("v2")
    setting.refer(f"?ref={outer}", "//two")
    setting.signers = (Signer(keys=("key",)),)
    with pytest.raises(Refused, match=r"two/kustomization\.yaml.*the revision v1 of .* is not a commit id"):
        setting.render()


def test_a_revision_that_is_missing_may_appear_later(setting: Setting) -> None:
    setting.refer("?ref=v2")
    with pytest.raises(SourceUnavailable, match=r"app/kustomization\.yaml.*'v2'"):
        setting.render()


def test_a_build_is_not_used_once_a_reference_is_not_allowed(setting: Setting) -> None:
    build, bases = setting.render(), setting.bases()
    assert bases.is_current(setting.app, build)
    setting.other.failures = {"info/refs": 503}
    assert bases.is_current(setting.app, build), "its commit is known while the server does not answer"
    setting.allowed = []
    assert not bases.is_current(setting.app, build)


def test_a_commit_id_that_is_in_the_mirror_needs_no_server(setting: Setting) -> None:
    setting.refer(f"?ref={git(setting.base.origin, 'rev-parse', 'v1')}")
    built = setting.render()
    setting.other.failures = {"": 503}
    asked = setting.other.requests
    assert setting.render() == built
    assert setting.other.requests == asked


@pytest.mark.parametrize("path", ["//absent", "//web/web.yaml"])
def test_a_path_that_is_no_kustomization_is_named(setting: Setting, path: str) -> None:
    setting.refer("?ref=v1", path)
    with pytest.raises(InvalidInput, match=path[2:]):
        setting.render()


@pytest.mark.parametrize("raw", ["/-/raw/v1/web/web.yaml", "/raw/tag/v1/web/web.yaml"])
def test_a_single_file_by_its_raw_url_is_read_from_the_repository(setting: Setting, raw: str) -> None:
    (setting.base.origin.parent / "group").mkdir()
    (setting.base.origin.parent / "group" / "repo").symlink_to(setting.base.origin)
    reference = setting.other.url(f"group/repo{raw}")
    setting.repo.commit({"app/kustomization.yaml": f"namePrefix: my-\nresources: ['{reference}']\n"})
    build = setting.render()
    assert names(build) == ["my-web"]
    assert build.remotes == ((reference, git(setting.base.origin, "rev-parse", "v1")),)


def test_a_raw_url_needs_the_permission_of_a_policy_and_a_tag(setting: Setting) -> None:
    text = f"resources: ['{setting.other.url('group/repo/-/raw/main/web/web.yaml')}']\n"
    setting.repo.commit({"app/kustomization.yaml": text})
    with pytest.raises(SourceUnavailable):
        setting.render()
    setting.allowed = ["https://git.example/*"]
    setting.other.requests = 0
    with pytest.raises(Refused, match="group/repo is remote, and its content is not allowed by policy"):
        setting.render()
    assert not setting.other.requests


def test_a_file_that_is_in_no_repository_is_refused_without_a_request(setting: Setting) -> None:
    text = f"resources: ['{setting.other.url('org/repo/releases/download/v1/web.yaml')}']\n"
    setting.repo.commit({"app/kustomization.yaml": text})
    with pytest.raises(InvalidInput, match="is a single file by URL, but not one of a Git repository"):
        setting.render()
    assert not setting.other.requests


def test_a_link_at_a_raw_url_leads_nowhere_else(setting: Setting) -> None:
    setting.base.commit({"a.yaml": OBJECT % ("a", "a")}, symlinks={"web/out.yaml": "../../../app/own.yaml"})
    setting.tag("v2")
    (setting.base.origin.parent / "group").mkdir()
    (setting.base.origin.parent / "group" / "repo").symlink_to(setting.base.origin)
    reference = setting.other.url("group/repo/-/raw/v2/web/out.yaml")
    setting.repo.commit({"app/kustomization.yaml": f"resources: ['{reference}']\n"})
    with pytest.raises(InvalidInput, match=r"outside the repository|does not exist"):
        setting.render()


def test_a_server_that_is_down_is_named(setting: Setting) -> None:
    setting.other.failures = {"info/refs": 503}
    with pytest.raises(SourceUnavailable, match=r"app/kustomization\.yaml.*127\.0\.0\.1.*503"):
        setting.render()


@pytest.mark.parametrize("path", ["../../../../own.yaml", "../outside"])
def test_another_repository_reads_nothing_of_this_one(setting: Setting, path: str) -> None:
    setting.base.commit(
        {"web/kustomization.yaml": f"resources: ['{path}']\n"}, symlinks={"outside": "../../../own.yaml"}
    )
    setting.tag("v2")
    setting.refer("?ref=v2")
    with pytest.raises(InvalidInput, match=r"outside the repository|not in or below|does not exist"):
        setting.render()


def test_a_remote_base_may_name_another_one(setting: Setting) -> None:
    inner = setting.refer("?ref=v1")
    setting.base.commit({"two/kustomization.yaml": f"nameSuffix: -two\nresources: ['{inner}']\n"})
    setting.tag("v2")
    outer = setting.refer("?ref=v2", "//two")
    build = setting.render()
    assert names(build) == ["my-own", "my-web-two"]
    assert [reference for reference, _ in build.remotes] == [outer, inner]


HELM_CHARTS = "helmCharts: [{name: web, repo: 'https://charts.example.com/stable', version: %s, releaseName: r}]"
ALLOWED = Policy(remotes=("https://charts.example.com/*",))


@dataclass
class Charts:
    """A Helm repository with two versions of a chart, and a kustomization that names one of them."""

    folder: Path
    servers: FakeArtifacts = field(
        default_factory=lambda: FakeArtifacts(
            {version: chart_archive(version, config=OBJECT % (f"web-{version}", "a")) for version in ("1.0.0", "1.2.0")}
        )
    )

    def fetcher(self, policy: Policy = ALLOWED, *, only_commits: bool = False) -> RemoteFetcher:
        source = Repositories(self.folder / "mirrors", artifacts=self.servers)
        return RemoteFetcher(source, lambda url: Credentials(), (policy,), only_commits=only_commits)

    def render(self, version: str, fetcher: RemoteFetcher) -> tuple[list[str], Mapping[str, RemoteBase]]:
        """Return the names of the objects, and the charts that were fetched."""
        tree = MemoryTree({"app/kustomization.yaml": (HELM_CHARTS % version).encode()})
        bases, made = fetcher.collect(lambda bases: build(mounted(tree, bases), "app", helm=FakeHelm()))
        return [manifest["metadata"]["name"] for manifest in made.manifests], bases


@pytest.fixture
def charts(tmp_path: Path) -> Charts:
    return Charts(tmp_path)


def test_a_chart_of_a_helm_repository_is_part_of_the_build(charts: Charts) -> None:
    fetcher = charts.fetcher()
    names, bases = charts.render("^1", fetcher)
    assert names == ["web-1.2.0"]
    ((reference, base),) = bases.items()
    assert reference == "chart:helm+https://charts.example.com/stable/web?^1"
    assert base.folder == f"charts.example.com/stable/web@{base.commit[:12]}"
    assert not fetcher.has_moved(reference, base.commit)
    charts.servers.archives["1.3.0"] = chart_archive("1.3.0", config=OBJECT % ("web-1.3.0", "a"))
    assert fetcher.has_moved(reference, base.commit)
    # the files of a finished build are those of its commit
    assert fetcher.fetch(reference, "", base.commit).tree.read("Chart.yaml").endswith(b"version: 1.2.0\n")


@pytest.mark.parametrize("policy", [Policy(), Policy(remotes=("https://charts.example.com/other/*",))])
def test_a_policy_has_to_allow_a_helm_repository(charts: Charts, policy: Policy) -> None:
    says = r"kustomization\.yaml:1: https://charts\.example\.com/stable/web is remote, and its content is not allowed"
    with pytest.raises(Refused, match=says):
        charts.render("^1", charts.fetcher(policy))
    assert charts.servers.accesses == []


def test_where_commits_must_be_signed_charts_are_committed(charts: Charts) -> None:
    with pytest.raises(Refused, match=r"the revision 1\.0\.0 of .* is not a commit id; commit the folder of the chart"):
        charts.render("1.0.0", charts.fetcher(only_commits=True))


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("'9.0'", r"kustomization\.yaml:1: https://charts\.example\.com/stable/web: there is no 9\.0"),
        ("'>=9'", r"no version of https://charts\.example\.com/stable/web is in the range"),
        ("'a b'", r"the revision 'a b' is not a tag, a version, a range or a digest"),
    ],
)
def test_a_version_that_is_not_there_is_asked_again(charts: Charts, version: str, says: str) -> None:
    with pytest.raises(SourceUnavailable, match=says):
        charts.render(version, charts.fetcher())
