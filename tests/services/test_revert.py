"""Reverts of Applications that accept signed commits only, with a real server, and those on another branch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gitsync.errors import Refused
from gitsync.objects.application import Application, parse_application
from gitsync.objects.record import Commit
from gitsync.objects.signers import Signer, Trust
from gitsync.ports import Cluster, LiveCache
from gitsync.ports.hosts import CodeHosts
from gitsync.services.revert import RevertService
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.credentials import ApplicationSecrets
from tests.fakes.review_branches import HOSTED, OpenedRequests, Pushes
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

NO_SECRETS = ApplicationSecrets(cast("Cluster", None), cast("LiveCache", None))


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[GitRepo]:
    with GitServer(tmp_path / "git") as server:
        made = GitRepo(tmp_path / "git", server.url("origin.git"))
        git(made.origin, "config", "http.receivepack", "true")
        made.commit({"shop/a.yaml": "a: 1\n"}, "Good")
        made.commit({"shop/a.yaml": "a: 2\n"}, "Bad")
        yield made


@pytest.fixture
def service(tmp_path: Path) -> RevertService:
    """Return a service without a cluster: an Application without credentials reads no Secret."""
    return revert_service(tmp_path)


def revert_service(folder: Path, trust: Trust = ()) -> RevertService:
    source = Repositories(folder / "mirrors", Transport(("http",)))
    return RevertService(source, NO_SECRETS, lambda app: trust)


def application(repo: GitRepo, **source: object) -> Application:
    spec = {"source": {"repoURL": repo.url, "path": "shop", **source}}
    return parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": spec})


SIGNED = {"verify": {"mode": "SignedCommits", "secretRef": {"name": "keys"}}}


@pytest.mark.parametrize("revision", ["main", "refs/heads/main"])
@pytest.mark.parametrize("branch", ["", "main", "refs/heads/main"])
def test_an_unsigned_revert_is_not_pushed_where_commits_must_be_signed(
    repo: GitRepo, service: RevertService, revision: str, branch: str
) -> None:
    app = application(repo, revision=revision, **SIGNED)
    before = git(repo.origin, "rev-parse", "main")
    with pytest.raises(Refused, match=r"spec\.source\.verify: .*not signed.*nothing was pushed to main.*--branch"):
        service.push(app, service.commits(app), author="Grace", branch=branch)
    assert git(repo.origin, "rev-parse", "main") == before


def test_an_unsigned_revert_is_not_pushed_where_a_policy_names_who_may_sign(repo: GitRepo, tmp_path: Path) -> None:
    app, service = application(repo), revert_service(tmp_path, ((Signer(keys=("ssh-ed25519 AAAA",)),),))
    before = git(repo.origin, "rev-parse", "main")
    with pytest.raises(Refused, match=r"require\.signers of its policy: .*not signed.*nothing was pushed to main"):
        service.push(app, service.commits(app), author="Grace")
    assert git(repo.origin, "rev-parse", "main") == before


def test_an_unsigned_revert_is_pushed_to_another_branch_for_review(repo: GitRepo, service: RevertService) -> None:
    app = application(repo, **SIGNED)
    result = service.push(app, service.commits(app), author="Grace", branch="undo")
    assert git(repo.origin, "rev-parse", "undo") == result.commit.id


def test_without_signed_commits_a_revert_goes_to_the_tracked_branch(repo: GitRepo, service: RevertService) -> None:
    app = application(repo)
    assert service.push(app, service.commits(app), author="Grace").branch == "main"
    assert git(repo.origin, "show", "main:shop/a.yaml") == "a: 1"


@pytest.mark.parametrize(("branch", "count"), [("undo", 1), ("", 0), ("main", 0)])
def test_a_revert_on_another_branch_becomes_a_pull_request(branch: str, count: int) -> None:
    hosts = OpenedRequests()
    source: Any = Pushes()
    reverts = RevertService(source, NO_SECRETS, lambda app: (), cast("CodeHosts", hosts))
    reverted = reverts.push(HOSTED, [Commit("b" * 40, message="Scale @all")], author="Ada", branch=branch)
    assert len(hosts.opened) == count
    assert bool(reverted.url) is bool(count)
    assert all(request.title == "Revert 1 commit of shop" for request in hosts.opened)
