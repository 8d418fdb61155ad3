"""What the data folder contains is its owner's only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.cli.data_lock import protect, remove_leftovers


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0o022)
    yield tmp_path / "data"
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder.parent)): oct(path.lstat().st_mode & 0o777) for path in folder.rglob("*")}


def test_a_new_data_folder_and_its_files_are_for_the_owner_only(data: Path) -> None:
    protect(data)
    (data / "history.db").write_text("")
    (data / "mirrors").mkdir()
    assert oct(data.stat().st_mode & 0o777) == "0o700"
    assert modes(data) == {"data/history.db": "0o600", "data/mirrors": "0o700"}


def test_an_old_data_folder_is_restricted_and_links_are_not_followed(data: Path, tmp_path: Path) -> None:
    data.mkdir()
    (data / "history.db").write_text("")
    (outside := tmp_path / "outside").write_text("")
    (data / "link").symlink_to(outside)
    protect(data)
    assert oct(outside.stat().st_mode & 0o777) == "0o644"
    assert modes(data)["data/history.db"] == "0o600"


def test_only_old_temporary_files_of_controllers_are_removed(tmp_path: Path) -> None:
    for name in ("gitsync-keys-old", "gitsync-keys-new", "other-old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("")
    for name in ("gitsync-keys-old", "other-old"):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gitsync-keys-new", "other-old"]
