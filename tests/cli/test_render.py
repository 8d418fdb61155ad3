"""``gitsync render``: what a folder renders to, as commits of a branch that people review."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyrage.x25519 import Identity

from gitsync.cli.output import Exit
from gitsync.objects.manifest import Manifest
from gitsync.render.build import build
from gitsync.source.local import FolderTree
from tests.cli.conftest import Done, Gitsync
from tests.git_repository import ENV, GitRepo, git
from tests.sops_encryption import Sealer

BASE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 1}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "shop:read_all"}
"""
OVERLAY = "namespace: shop\nresources: [../base]\nreplicas: [{name: web, count: 3}]\n"
FILES = {
    "base/web.yaml": BASE,
    "base/kustomization.yaml": "resources: [web.yaml]\n",
    "prod/kustomization.yaml": OVERLAY,
}
NAMES = ["prod/clusterrole.rbac.authorization.k8s.io_shop%3aread%5fall.yaml", "prod/deployment.apps_shop_web.yaml"]


class Site:
    """A repository with an overlay, and the command in it."""

    def __init__(self, folder: Path, run: Gitsync) -> None:
        self.repo = GitRepo(folder)
        self.repo.commit(FILES)
        self._run = run

    def render(self, *arguments: object, branch: str = "rendered/prod") -> Done:
        return self._run("render", self.repo.work / "prod", "--to-branch", branch, *arguments)

    def git(self, *arguments: str) -> str:
        return git(self.repo.work, *arguments)


@pytest.fixture
def site(tmp_path: Path, gitsync: Gitsync, monkeypatch: pytest.MonkeyPatch) -> Site:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    return Site(tmp_path, gitsync)


def test_a_folder_is_committed_with_a_file_for_each_object(site: Site) -> None:
    source = site.git("rev-parse", "HEAD")

    done = site.render()

    assert (done.code, done.err) == (Exit.OK, "")
    assert done.out == f"committed 2 files to rendered/prod as {site.git('rev-parse', 'rendered/prod')[:12]}\n"
    assert site.git("ls-tree", "-r", "--name-only", "rendered/prod").splitlines() == NAMES
    text = site.git("show", f"rendered/prod:{NAMES[1]}")
    assert text.startswith("# from base/web.yaml\n")
    assert yaml.safe_load(text)["spec"] == {"replicas": 3}
    message = site.git("log", "-1", "--format=%B", "rendered/prod")
    assert message.startswith(f"Render prod of {source[:12]}\n")
    assert message.strip().endswith(f"Gitsync-Rendered-From: {source}")
    # the work tree, its branch and its index are as they were
    assert site.git("status", "--porcelain") == ""
    assert site.git("rev-parse", "HEAD") == source


def test_the_branch_renders_to_the_same_objects(site: Site, tmp_path: Path) -> None:
    site.render()
    site.git("worktree", "add", "-q", str(tmp_path / "other"), "rendered/prod")

    def objects(folder: Path) -> list[Manifest]:
        return sorted(build(FolderTree(folder), "prod").manifests, key=lambda manifest: str(manifest["kind"]))

    assert objects(tmp_path / "other") == objects(site.repo.work)


def test_each_change_is_one_commit_and_no_change_is_none(site: Site) -> None:
    site.render()
    first = site.git("rev-parse", "rendered/prod")
    assert site.render().out == "rendered/prod has 2 such files already\n"

    site.repo.commit({"README.md": "not rendered"})
    assert site.render().out == "rendered/prod has 2 such files already\n"
    assert site.git("rev-parse", "rendered/prod") == first

    site.repo.commit({"prod/kustomization.yaml": OVERLAY.replace("count: 3", "count: 4")})
    site.render()
    assert site.git("rev-list", "--count", "rendered/prod") == "2"
    changed = [line for line in site.git("diff", "--unified=0", first, "rendered/prod").splitlines() if "repl" in line]
    assert changed == ["-  replicas: 3", "+  replicas: 4"]


def test_other_folders_of_the_branch_stay_and_gone_objects_go(site: Site) -> None:
    site.render("--folder", "test")
    site.render()
    site.repo.commit({"base/web.yaml": BASE.partition("---\n")[0]})
    site.render()

    assert site.git("ls-tree", "-r", "--name-only", "rendered/prod").splitlines() == [
        NAMES[1],
        NAMES[0].replace("prod/", "test/"),
        NAMES[1].replace("prod/", "test/"),
    ]


def test_the_branch_is_pushed_where_that_is_asked_for(site: Site) -> None:
    assert site.render("--push").out.endswith("pushed rendered/prod\n")
    assert git(site.repo.origin, "rev-parse", "rendered/prod") == site.git("rev-parse", "rendered/prod")


def test_a_branch_of_the_remote_is_continued(site: Site) -> None:
    site.render("--push")
    site.git("branch", "-D", "rendered/prod")
    assert site.render().out == "rendered/prod has 2 such files already\n"


def checked_out(site: Site) -> Done:
    return site.render(branch="main")


def no_branch_name(site: Site) -> Done:
    return site.render(branch="--output=x")


def the_root(site: Site) -> Done:
    return site.render("--folder", "/")


def outside(site: Site) -> Done:
    return site.render("--folder", "../x")


def rendered_already(site: Site) -> Done:
    site.render()
    return site.render("--rev", "rendered/prod", branch="again")


def encrypted(site: Site) -> Done:
    sealed = Sealer(Identity.generate().to_public()).file(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "right"}}
    )
    site.repo.commit({"base/secret.yaml": sealed, "base/kustomization.yaml": "resources: [web.yaml, secret.yaml]\n"})
    return site.render()


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [
        (checked_out, "--to-branch: the branch main is checked out; name another branch"),
        (no_branch_name, "is not a valid branch name"),
        (the_root, "--folder: the root of a branch is not replaced; name a folder in it"),
        (outside, "--folder: the root of a branch is not replaced; name a folder in it"),
        (rendered_already, "has manifests that were rendered from"),
        (encrypted, "it is encrypted by SOPS, which protects the file as it is"),
    ],
)
def test_what_cannot_be_rendered_is_one_line(site: Site, attempt: Callable[[Site], Done], reason: str) -> None:
    tips = site.git("for-each-ref", "refs/heads/rendered", "refs/heads/again")
    done = attempt(site)
    assert done.code == Exit.INVALID
    assert reason in done.err
    assert done.err.count("\n") == 1
    if attempt is not rendered_already:
        assert site.git("for-each-ref", "refs/heads/rendered", "refs/heads/again") == tips
