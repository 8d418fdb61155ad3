"""Edits are pushed for review, with a pull request where the Application names its host, also after a crash."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from gitsync.edit.adopt import IMAGES, PROMOTE, AdoptedValue, Adoption, ClusterValue
from gitsync.errors import InvalidInput, Refused, SourceDenied
from gitsync.objects.application import Application
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, Snapshot
from gitsync.ports.hosts import CodeHosts
from gitsync.render.build import Build
from gitsync.services.adopt import AdoptService, KeepService
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.fakes.review_branches import HOSTED, OpenedRequests, Pushes, application
from tests.git_repository import GitRepo, git

WEB = ObjectRef("apps", "Deployment", "shop", "web")
KEPT = ClusterValue(WEB, ".metadata.annotations.note", "```\n@all <b>", "kubectl-edit", "2026-11-25T03:00:00Z")
ADOPTION = Adoption({"web.yaml": b"a: 1\n"}, (AdoptedValue(KEPT, "web.yaml:1", None),), ())


def service(pushes: Pushes, hosts: OpenedRequests) -> AdoptService:
    return AdoptService(pushes, cast("CodeHosts", hosts), lambda app: Credentials())


def test_an_adoption_becomes_a_pull_request_at_the_host() -> None:
    pushes = Pushes()
    hosts = OpenedRequests()
    proposed = service(pushes, hosts).propose(HOSTED, "a" * 40, ADOPTION, author="Ada")
    [edit] = pushes.edits
    assert edit.branch == proposed.branch
    assert edit.branch.startswith("gitsync/adopt-shop-")
    [request] = hosts.opened
    assert (request.base_branch, proposed.url) == ("main", "https://git.example.com/pulls/1")
    assert request.title == "Keep what was changed in the cluster: Deployment shop/web"
    # its text is one block of code, whose fence no value ends
    first, *_, last = request.text.strip().splitlines()
    assert (first, last) == ("````text", "````")
    again = service(pushes, hosts).propose(HOSTED, "a" * 40, ADOPTION, author="Ada")
    assert again.branch == proposed.branch


def test_without_a_host_a_branch_is_pushed_only_where_named() -> None:
    pushes = Pushes()
    hosts = OpenedRequests()
    proposed = service(pushes, hosts).propose(application(), "a" * 40, ADOPTION, author="Ada")
    assert (proposed.branch, proposed.url, proposed.patch) == ("", "", "the patch")
    assert service(pushes, hosts).propose(application(), "a" * 40, ADOPTION, author="Ada", branch="keep").url == ""
    assert [edit.branch for edit in pushes.edits] == ["", "keep"]
    assert hosts.opened == []


def test_a_host_that_fails_leaves_the_branch() -> None:
    hosts = OpenedRequests(failure=SourceDenied("the Git host answers 403"))
    with pytest.raises(Refused, match=r"branch keep was pushed, but .*answers 403; open it at the host"):
        service(Pushes(), hosts).propose(HOSTED, "a" * 40, ADOPTION, author="Ada", branch="keep")


class Crash(Exception):
    """The process ends."""


class PushedEdits:
    """A real repository, and an Application of it; ``service`` is that of a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = GitRepo(folder)
        self.head = self.repo.commit({"web.yaml": "a: 0\n"}, "Base")
        self.hosts = OpenedRequests()
        source = {"repoURL": self.repo.url, "revision": "main"}
        self.app = application(source=source, pullRequests={"host": "Gitea"})

    def service(self) -> AdoptService:
        source = Repositories(self.folder / "mirrors", Transport(("file",)))
        return AdoptService(source, cast("CodeHosts", self.hosts), lambda app: Credentials())

    def branches(self) -> dict[str, str]:
        listed = git(self.repo.work, "ls-remote", "--heads", "origin").splitlines()
        return {name.removeprefix("refs/heads/"): commit for commit, name in (line.split("\t") for line in listed)}


def images(content: bytes) -> Adoption:
    return replace(ADOPTION, files={"web.yaml": content}, purpose=IMAGES)


PROMOTION = replace(images(b"a: 1\n"), purpose=PROMOTE)


@pytest.mark.parametrize("crash", ["before the push", "after the push", "after the pull request"])
@pytest.mark.parametrize("adoption", [ADOPTION, images(b"a: 1\n"), PROMOTION], ids=["adopt", "images", "promotion"])
def test_a_crash_is_continued_to_the_same_end(
    tmp_path: Path, crash: str, adoption: Adoption, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = PushedEdits(tmp_path)

    def crashed(*_: Any) -> Any:
        raise Crash

    with monkeypatch.context() as patched:
        if crash == "before the push":
            patched.setattr("gitsync.source.repositories._push", crashed)
        elif crash == "after the push":
            patched.setattr(edits.hosts, "open_pull_request", crashed)
        else:
            patched.setattr("gitsync.services.adopt.ProposedAdoption", crashed)
        with pytest.raises(Crash):
            edits.service().propose(edits.app, edits.head, adoption, author="Ada <a@b.c>")
    pushed = edits.branches()
    proposed = edits.service().propose(edits.app, edits.head, adoption, author="Ada <a@b.c>")
    [request] = edits.hosts.opened
    assert (request.head_branch, proposed.url) == (proposed.branch, "https://git.example.com/pulls/1")
    assert edits.branches() == {**pushed, proposed.branch: proposed.commit.id}
    assert pushed.get(proposed.branch, proposed.commit.id) == proposed.commit.id


CAUGHT_UP = "main has it already"


@pytest.mark.parametrize("crash", ["", "before the comment", "before the close", "before the deletion", "after it"])
@pytest.mark.parametrize("adoption", [images(b"a: 1\n"), PROMOTION], ids=["images", "promotion"])
def test_a_superseded_proposal_is_withdrawn_once_also_after_a_crash(
    tmp_path: Path, crash: str, adoption: Adoption, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = PushedEdits(tmp_path)
    proposed = edits.service().propose(edits.app, edits.head, adoption, author="Ada <a@b.c>")

    def crashed(*_: Any) -> Any:
        raise Crash

    def withdraw() -> None:
        service = edits.service()
        head = service.leftover(edits.app, adoption.purpose)
        if head:
            service.withdraw(edits.app, adoption.purpose, head, CAUGHT_UP)

    with monkeypatch.context() as patched:
        if crash == "before the comment":
            patched.setattr(edits.hosts, "comment", crashed)
        elif crash == "before the close":
            patched.setattr(edits.hosts, "close_pull_request", crashed)
        elif crash == "before the deletion":
            patched.setattr("gitsync.source.repositories.Repositories.delete_branch", crashed)
        with pytest.raises(Crash) if crash.startswith("before") else nullcontext():
            withdraw()
    assert (proposed.branch in edits.branches()) is crash.startswith("before")
    for _ in range(2):
        withdraw()
    assert (edits.hosts.closed, edits.hosts.comments) == ([1], {1: CAUGHT_UP})
    assert edits.branches() == {"main": edits.head}


def test_without_a_host_the_branch_of_a_superseded_proposal_is_deleted(tmp_path: Path) -> None:
    edits = PushedEdits(tmp_path)
    app = replace(edits.app, pull_requests=None)
    service = edits.service()
    service.propose(app, edits.head, images(b"a: 1\n"), author="Ada <a@b.c>", branch="gitsync/images-shop")
    assert service.withdraw(app, IMAGES, service.leftover(app, IMAGES), CAUGHT_UP) == ""
    assert edits.branches() == {"main": edits.head}


def test_a_branch_to_which_a_user_has_committed_is_not_withdrawn(tmp_path: Path) -> None:
    edits = PushedEdits(tmp_path)
    service = edits.service()
    proposed = service.propose(edits.app, edits.head, images(b"a: 1\n"), author="Ada <a@b.c>")
    head = service.leftover(edits.app, IMAGES)
    assert head == proposed.commit.id
    # of another Application with the same name, and of another purpose, it is none
    other = replace(edits.app, namespace="other")
    assert [service.leftover(other, IMAGES), service.leftover(edits.app, PROMOTE)] == ["", ""]
    git(edits.repo.work, "fetch", "-q", "origin")
    git(edits.repo.work, "checkout", "-q", proposed.branch)
    git(edits.repo.work, "commit", "-q", "--allow-empty", "-m", "By hand")
    git(edits.repo.work, "push", "-q", "origin", proposed.branch)
    # a commit that arrives after the branch was read is not lost either
    with pytest.raises(Refused, match="the Git server did not take the deletion on gitsync/images-shop"):
        service.withdraw(edits.app, IMAGES, head, CAUGHT_UP)
    assert proposed.branch in edits.branches()
    assert edits.service().leftover(edits.app, IMAGES) == ""


def test_a_newer_image_updates_the_one_branch_and_its_request(tmp_path: Path) -> None:
    edits = PushedEdits(tmp_path)
    edits.service().propose(edits.app, edits.head, images(b"a: 1\n"), author="Ada <a@b.c>")
    moved = edits.repo.commit({"other.yaml": "b: 1\n"}, "Move the base")
    second = edits.service().propose(edits.app, moved, images(b"a: 2\n"), author="Ada <a@b.c>")
    assert len(edits.hosts.opened) == 1
    git(edits.repo.work, "fetch", "-q", "origin")
    assert git(edits.repo.work, "diff", "--name-only", f"main...{second.commit.id}") == "web.yaml"
    assert git(edits.repo.work, "show", f"{second.commit.id}:web.yaml") == "a: 2"


def test_a_branch_that_a_user_moved_is_not_touched(tmp_path: Path) -> None:
    edits = PushedEdits(tmp_path)
    git(edits.repo.work, "push", "-q", "origin", "main:gitsync/images-shop")
    with pytest.raises(Refused, match="exists already"):
        edits.service().propose(edits.app, edits.head, images(b"a: 1\n"), author="Ada <a@b.c>")


def test_of_two_edits_of_one_file_the_later_is_on_top_of_the_first(tmp_path: Path) -> None:
    edits = PushedEdits(tmp_path)
    first = edits.service().propose(edits.app, edits.head, images(b"a: 1\n"), author="Ada <a@b.c>")
    other = replace(images(b"a: 1\n# x\n"), values=ADOPTION.values)
    second = edits.service().propose(edits.app, edits.head, other, author="Bo <b@b.c>")
    git(edits.repo.work, "fetch", "-q", "origin")
    parents = git(edits.repo.work, "log", "-1", "--format=%P", second.commit.id).split()
    assert parents == [first.commit.id, edits.head]


@dataclass
class FoundEdits:
    """Edits as given; what they were asked for."""

    adoption: Adoption
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def adopt(self, snapshot: Snapshot, app: Application, values: Any) -> Adoption:
        self.asked.append((snapshot.commit.id, app.source.path, values))
        return self.adoption

    def render(self, app: Application, snapshot: Snapshot) -> Build:
        return Build((), frozenset())

    def files(self, app: Application, snapshot: Snapshot, build: Build) -> Snapshot:
        return snapshot

    def with_inputs(self, app: Application) -> Application:
        return app


def keeps(pushes: Pushes, adoption: Adoption) -> tuple[KeepService, FoundEdits]:
    source: Any = pushes
    found = FoundEdits(adoption)
    hosts = cast("CodeHosts", OpenedRequests())
    proposals = AdoptService(pushes, hosts, lambda app: Credentials())
    return KeepService(source, found, found, proposals, lambda app: Credentials()), found


def test_a_user_keeps_values_on_a_branch_also_without_a_host() -> None:
    pushes = Pushes()
    service, found = keeps(pushes, ADOPTION)
    source = {"repoURL": "https://git.example.com/team/shop", "path": "./overlays/prod/"}
    proposed = service.keep(application(source=source), [KEPT], author="Ada", reason="the queue grew")
    assert found.asked == [("a" * 40, "./overlays/prod/", [KEPT])]
    assert proposed.branch.startswith("gitsync/adopt-shop-")
    assert "the queue grew" in pushes.edits[0].message


def test_values_that_cannot_be_kept_are_refused_with_the_reason() -> None:
    pushes = Pushes()
    service, _ = keeps(pushes, Adoption({}, (), ((KEPT, "is a Secret"),)))
    with pytest.raises(InvalidInput, match="nothing can be kept: is a Secret"):
        service.keep(HOSTED, [KEPT], author="Ada")
    assert pushes.edits == []
