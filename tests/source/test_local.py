from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.source.local import open_path


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "repo" / "apps" / "web"
    folder.mkdir(parents=True)
    return folder


def test_the_root_is_the_top_of_the_repository(app: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    assert open_path(str(app)).path == "apps/web"
    assert open_path(str(tmp_path / "repo")).path == ""


def test_a_linked_working_tree_has_a_file_for_its_repository(app: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").write_text("gitdir: /elsewhere/.git/worktrees/repo\n")

    assert open_path(str(app)).path == "apps/web"


def test_an_empty_folder_of_that_name_is_no_repository(app: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir()

    assert open_path(str(app)).path == app.resolve().relative_to("/").as_posix()


def test_a_folder_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such folder"):
        open_path(str(tmp_path / "absent"))


def test_a_revision_needs_a_repository(app: Path) -> None:
    with pytest.raises(InvalidInput, match="not inside a Git repository"):
        open_path(str(app), "HEAD")


def test_the_environment_sets_the_limit_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "big.yaml").write_bytes(b"#" * (2 << 20))
    assert len(open_path(str(tmp_path)).tree.read(str(tmp_path / "big.yaml")[1:])) == 2 << 20
    monkeypatch.setenv("GITSYNC_FILE_MIB", "1")
    with pytest.raises(
        InvalidInput, match="larger than the limit of 1048576 bytes; split it, or raise GITSYNC_FILE_MIB"
    ):
        open_path(str(tmp_path)).tree.read(str(tmp_path / "big.yaml")[1:])
    monkeypatch.setenv("GITSYNC_FILE_MIB", "many")
    with pytest.raises(InvalidInput, match="'many' is not a number of MiB; write a number from 1 to 64"):
        open_path(str(tmp_path))
