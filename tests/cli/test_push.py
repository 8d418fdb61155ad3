"""``gitsync push``: the files of a commit in a registry, and what an Application reads of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.cli.output import Exit
from gitsync.integrations.artifacts import ArtifactClient
from gitsync.source.artifacts import archive_files
from gitsync.source.snapshot import SourceLimits
from tests.cli.conftest import Done, Gitsync
from tests.fakes.artifacts import ArtifactWeb, artifact_web
from tests.git_repository import GitRepo


class Registry:
    """A registry, and a repository whose folder ``deploy`` is pushed to it."""

    def __init__(self, folder: Path, run: Gitsync, web: ArtifactWeb) -> None:
        self.repo = GitRepo(folder / "git")
        self.web = web
        self._run = run
        self._config = folder / "config.json"
        files = {"deploy/web.yaml": "kind: ConfigMap\n", "deploy/base/a.yaml": "kind: Secret\n", "README.md": "x"}
        self.commit = self.repo.commit(files)

    def push(self, tag: str = "1.0.0", *arguments: object) -> Done:
        target = f"oci://127.0.0.1:{self.web.port}/team/web:{tag}"
        return self._run("push", target, self.repo.work / "deploy", "--registry-config", self._config, *arguments)

    def read(self, tag: str = "1.0.0") -> tuple[dict[str, bytes], str, str]:
        """Return the files that an Application reads, the recorded commit, and the digest."""
        client = ArtifactClient()
        access = self.web.access("oci://{}/team/web")
        artifact = client.find(access, tag)
        pulled = client.pull(access, artifact, 1 << 20)
        files = archive_files(pulled, SourceLimits(), "web")
        return {path: file.content for path, file in files.items()}, pulled.revision, artifact.digest


@pytest.fixture
def registry(tmp_path: Path, gitsync: Gitsync) -> Iterator[Registry]:
    with artifact_web() as web:
        yield Registry(tmp_path, gitsync, web)


def test_a_folder_that_is_in_no_commit_is_not_pushed(registry: Registry) -> None:
    registry.repo.commit({"deploy/web.yaml": None, "deploy/base/a.yaml": None}, "Remove the folder")
    # git removes no folders from the disk here
    assert (registry.repo.work / "deploy").is_dir()
    for arguments in ((), ("--rev", "HEAD~1")):
        done = registry.push("1.0.0", *arguments)
        assert (done.code == Exit.OK) is bool(arguments)
        assert bool(arguments) or "the folder has no files in HEAD; commit them first" in done.err


def test_the_files_of_a_commit_are_pushed(registry: Registry) -> None:
    (registry.repo.work / "deploy" / "secret.env").write_text("not committed")
    done = registry.push()
    files, revision, digest = registry.read()
    assert files == {"web.yaml": b"kind: ConfigMap\n", "base/a.yaml": b"kind: Secret\n"}
    assert revision == registry.commit
    assert done.code == Exit.OK, done.err
    assert (
        f"pushed 2 files of {revision[:12]} to oci://127.0.0.1:{registry.web.port}/team/web:1.0.0@{digest}" in done.out
    )


def test_the_same_commit_has_the_same_digest(registry: Registry) -> None:
    for tag in ("1.0.0", "1.0.1"):
        assert registry.push(tag).code == Exit.OK
    assert registry.read("1.0.0")[2] == registry.read("1.0.1")[2]
    # what the registry has is not sent again: a config and a layer
    assert len([path for path in registry.web.paths() if path.startswith("POST ")]) == 2


def test_another_revision_may_be_pushed(registry: Registry) -> None:
    registry.repo.commit({"deploy/web.yaml": "kind: Service\n"})
    assert registry.push("1.0.0", "--rev", registry.commit).code == Exit.OK
    assert registry.read()[0]["web.yaml"] == b"kind: ConfigMap\n"


def test_a_link_is_pushed_as_one(registry: Registry) -> None:
    (registry.repo.work / "deploy" / "link.yaml").symlink_to("web.yaml")
    registry.repo.commit({"deploy/more.yaml": "x"})
    assert registry.push().code == Exit.OK
    assert registry.read()[0]["link.yaml"] == b"web.yaml"


@pytest.mark.parametrize(
    "target",
    [
        "registry.example.com/web:1",
        "oci://registry.example.com/web",
        "oci://registry.example.com:5000/web",
        "oci://x:1",
    ],
)
def test_a_target_needs_a_tag(gitsync: Gitsync, target: str) -> None:
    done = gitsync("push", target)
    assert done.code == Exit.INVALID
    assert "is not a target; write oci://HOST/REPOSITORY:TAG" in done.err


def test_a_folder_outside_of_git_is_not_pushed(gitsync: Gitsync, tmp_path: Path) -> None:
    done = gitsync("push", "oci://registry.example.com/web:1", tmp_path)
    assert done.code == Exit.INVALID
    assert "is not inside a Git repository" in done.err


def test_a_registry_that_denies_is_one_line(registry: Registry) -> None:
    empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    registry.web.put(f"/v2/team/web/blobs/{empty}", status=403)
    done = registry.push()
    assert done.code != Exit.OK
    assert "the registry answers 403 for team/web; sign in: docker login" in done.err
