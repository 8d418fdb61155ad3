"""A render process has no credentials: the large files that it lacks are fetched for it, whatever names them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import FileNotFetched
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases
from gitsync.workers import protocol
from gitsync.workers.pool import RenderPool
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

TEXT = random.Random(1).randbytes(700_000).hex()
CONFIG = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: base}}\ndata: {{text: {TEXT}}}\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    made = GitRepo(tmp_path / "git")
    git(made.origin, "config", "uploadpack.allowFilter", "true")
    return made


@pytest.fixture
def pool() -> Iterator[RenderPool]:
    made = RenderPool(1, 60, 512)
    yield made
    made.close()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Repositories]:
    made = Repositories(tmp_path / "mirrors", Transport(("http",)))
    yield made
    made.close()


def texts(source: Repositories, pool: RenderPool, url: str, remotes: tuple[str, ...] = ()) -> list[str]:
    """Return the data of the ConfigMaps that overlays/prod renders to."""
    branch = GitSource(repo_url=url, revision="main", path="overlays/prod")
    snapshot = source.snapshot(branch, Credentials(), source.resolve(branch, Credentials()))
    app = Application("shop", "gitsync", "u", 1, branch, Destination(namespace="shop"))
    bases = RemoteBases(pool, source, lambda app: Credentials(), lambda app: (Policy(remotes=remotes),))
    return [text for manifest in bases.render(app, snapshot).manifests for text in manifest["data"].values()]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"overlays/prod/kustomization.yaml": "resources: [../../base]",
             "base/kustomization.yaml": "resources: [crds.yaml]", "base/crds.yaml": CONFIG},
            [TEXT],
            id="resource of a base",
        ),
        pytest.param(
            {"overlays/prod/kustomization.yaml": "resources: [../../base]",
             "base/kustomization.yaml": "configMapGenerator: [{name: a, files: [one.txt, sub/two.txt]}]",
             "base/one.txt": TEXT, "base/sub/two.txt": TEXT[1:]},
            [TEXT, TEXT[1:]],
            id="files of a generator in a base",
        ),
        pytest.param(
            {"overlays/prod/kustomization.yaml": "configMapGenerator: [{name: a, files: [one.txt]}]",
             "overlays/prod/one.txt": TEXT},
            [TEXT],
            id="file of a generator below the path",
        ),
    ],
)  # fmt: skip
def test_a_build_gets_the_large_files_that_it_reads(
    server: GitServer,
    repo: GitRepo,
    source: Repositories,
    pool: RenderPool,
    files: dict[str, str],
    expected: list[str],
) -> None:
    repo.commit(files)
    assert texts(source, pool, server.url("origin.git")) == expected


def test_a_base_in_another_repository_gets_its_large_files(
    tmp_path: Path, repo: GitRepo, source: Repositories, pool: RenderPool
) -> None:
    with GitServer(tmp_path / "other") as server:
        other = GitRepo(tmp_path / "other")
        git(other.origin, "config", "uploadpack.allowFilter", "true")
        base = {"base/kustomization.yaml": "configMapGenerator: [{name: a, files: [one.txt]}]", "base/one.txt": TEXT}
        named = f"{server.url('origin.git')}//base?ref={other.commit(base)}"
        with GitServer(tmp_path / "git") as own:
            repo.commit({"overlays/prod/kustomization.yaml": f"resources: ['{named}']"})
            assert texts(source, pool, own.url("origin.git"), (server.url("origin.git"),)) == [TEXT]


def test_an_answer_carries_which_file_is_missing() -> None:
    error = FileNotFetched("the file is large", location="base/crds.yaml")
    error.git_dir = "/mirrors/1"
    error.id = "a" * 40
    received = protocol.to_error(protocol.of_error(error))
    assert isinstance(received, FileNotFetched)
    assert (received.git_dir, received.id, str(received)) == (error.git_dir, error.id, str(error))
