"""``gitsync set`` changes a file in the work tree, and commits it where asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Gitsync
from tests.cli.factories import DEPLOYMENT
from tests.fakes.code_host import HostServer, code_host
from tests.git_repository import GitRepo, git

FILES: dict[str, str | bytes | None] = {
    "base/kustomization.yaml": "resources: [web.yaml]\nsecretGenerator:\n- {name: s, literals: [token=hunter2]}\n",
    "base/web.yaml": DEPLOYMENT,
    "dev/kustomization.yaml": "resources: [../base]\n",
    "prod/kustomization.yaml": "resources: [../base]\nreplicas:\n- {name: web, count: 3} # many\n",
}


def repository(folder: Path) -> GitRepo:
    repo = GitRepo(folder)
    repo.commit(FILES)
    return repo


def test_a_field_is_set_where_its_value_is(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work

    done = gitsync("set", work / "prod", "Deployment/web", "spec.replicas=5")

    assert done.out == "prod/kustomization.yaml:3: .spec.replicas: 3 -> 5\n"
    assert (work / "prod/kustomization.yaml").read_text().endswith("- {name: web, count: 5} # many\n")


def test_a_dry_run_writes_nothing(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work

    gitsync("set", work / "prod", "Deployment/web", "spec.replicas=5", "--dry-run")

    assert git(work, "status", "--porcelain") == ""


def test_several_fields_become_one_commit_on_a_branch(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    git(work, "config", "user.name", "Ada")
    git(work, "config", "user.email", "ada@example.test")
    fields = ("spec.replicas=5", 'spec.template.spec.containers[name="web"].image=web:2')

    done = gitsync("set", work / "prod", "Deployment/web", *fields, "--also", "--branch", "more-web")

    assert '  also Deployment web .spec.template.spec.containers[name="web"].image: web:1 -> web:2 (dev)' in done.out
    assert git(work, "branch", "--show-current") == "more-web"
    assert git(work, "log", "-1", "--format=%s") == (
        'Set spec.replicas, spec.template.spec.containers[name="web"].image of Deployment web in prod'
    )
    assert git(work, "show", "--stat=80", "--format=", "HEAD").splitlines()[-1].startswith(" 2 files changed")
    assert git(work, "status", "--porcelain") == ""


def test_a_file_with_other_changes_is_not_committed(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    (work / "prod/kustomization.yaml").write_text(f"# mine\n{FILES['prod/kustomization.yaml']!s}")

    done = gitsync("set", work / "prod", "Deployment/web", "spec.replicas=5", "--commit")

    assert done.code == 2
    assert "prod/kustomization.yaml has changes that are not committed" in done.err
    assert "count: 3" in (work / "prod/kustomization.yaml").read_text()


def test_the_values_of_secrets_are_not_printed(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    name = next(line.split()[-1] for line in gitsync("build", work / "dev").out.splitlines() if "name: s-" in line)

    done = gitsync("set", work / "dev", f"Secret/{name}", "data.token=aHVudGVyMw==", "--also")

    assert "hunter3" in (work / "base/kustomization.yaml").read_text()
    assert "aHVudGVy" not in done.out
    assert "->" in done.out


APPLICATION = """apiVersion: gitsync.dev/v1alpha1
kind: Application
metadata: {name: shop, namespace: gitsync}
spec:
  source: {repoURL: ADDRESS, path: prod}
  pullRequests: {host: Gitea}
"""


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[GitRepo, HostServer]]:
    """A clone whose remote is read from a host, and is a folder for pushes."""
    repo = repository(tmp_path)
    git(repo.work, "config", "user.name", "Ada")
    git(repo.work, "config", "user.email", "ada@example.test")
    (tmp_path / "token").write_text("TOKEN\n")
    monkeypatch.setenv("GITSYNC_GIT_TOKEN_FILE", str(tmp_path / "token"))
    with code_host(HostServer()) as server:
        url = f"{server.base}/team/shop.git"
        monkeypatch.setenv("GITSYNC_GIT_HTTP_HOSTS", url.split("/")[2])
        monkeypatch.setenv("GITSYNC_GIT_HTTP_SIGN_IN", url.split("/")[2])
        repo.commit({"apps/shop.yaml": APPLICATION.replace("ADDRESS", url)})
        git(repo.work, "remote", "set-url", "--push", "origin", str(repo.origin))
        git(repo.work, "remote", "set-url", "origin", url)
        yield repo, server


def test_a_field_is_set_by_a_pull_request(gitsync: Gitsync, hosted: tuple[GitRepo, HostServer]) -> None:
    repo, server = hosted

    done = gitsync("set", repo.work / "prod", "Deployment/web", "spec.replicas=5", "--pr", "--branch", "more-web")

    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"opened {server.base}/team/shop/pulls/1"
    [(_, _, opened)] = [request for request in server.requests if request[0] == "POST"]
    assert (opened["head"], opened["base"]) == ("more-web", "main")
    assert opened["title"] == "Set spec.replicas of Deployment web in prod"
    assert "prod/kustomization.yaml:3: .spec.replicas: 3 -> 5" in opened["body"]
    assert git(repo.origin, "log", "-1", "--format=%s", "more-web") == opened["title"]


def test_a_pull_request_gets_a_branch_without_a_name(gitsync: Gitsync, hosted: tuple[GitRepo, HostServer]) -> None:
    repo, server = hosted

    done = gitsync("set", repo.work / "prod", "Deployment/web", "spec.replicas=5", "--pr")

    assert done.code == 0, done.err
    branch = git(repo.work, "branch", "--show-current")
    assert branch.startswith("gitsync/set-")
    assert [body["head"] for method, _, body in server.requests if method == "POST"] == [branch]


def test_a_refused_pull_request_leaves_its_branch(gitsync: Gitsync, hosted: tuple[GitRepo, HostServer]) -> None:
    repo, server = hosted
    server.failure = 403

    done = gitsync("set", repo.work / "prod", "Deployment/web", "spec.replicas=5", "--pr", "--branch", "more-web")

    assert done.code == 2
    assert "branch more-web was pushed, but its pull request could not be opened" in done.err
    assert git(repo.origin, "branch", "--list", "more-web") == "more-web"


def test_a_clone_by_ssh_is_at_the_host_of_the_application(gitsync: Gitsync, hosted: tuple[GitRepo, HostServer]) -> None:
    repo, server = hosted
    repo.commit({"apps/shop.yaml": APPLICATION.replace("ADDRESS", "https://127.0.0.1/team/shop.git")}, push=False)
    git(repo.work, "remote", "set-url", "origin", "git@127.0.0.1:team/shop.git")

    done = gitsync("set", repo.work / "prod", "Deployment/web", "spec.replicas=5", "--pr", "--branch", "more-web")

    # nothing listens there by HTTPS, so that it ends at the host
    assert "branch more-web was pushed, but its pull request could not be opened" in done.err
    assert server.requests == []


def test_nothing_is_written_where_no_pull_request_can_be(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    change = ("set", work / "prod", "Deployment/web", "spec.replicas=5", "--pr")

    git(work, "remote", "set-url", "origin", "https://git.example.com/team/shop.git")
    assert "--pr: it is not known which program the Git host" in gitsync(*change).err
    git(work, "remote", "set-url", "origin", str(tmp_path / "origin.git"))
    assert "--pr: it is not known which program the Git host" in gitsync(*change).err
    git(work, "remote", "remove", "origin")
    assert "--pr: the repository has no remote" in gitsync(*change).err
    git(work, "checkout", "--quiet", "--detach")
    assert "--pr: no branch is checked out" in gitsync(*change).err
    assert git(work, "status", "--porcelain") == ""
    assert git(work, "branch", "--list", "gitsync/*") == ""
