"""What the data folder contains is its owner's only."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitsync.cli.data_folder import protect, remove_leftovers
from gitsync.errors import InvalidInput

RUN_AS_USER = 65534
FS_GROUP = 65534
REFUSED = 2


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_volume_of_root_is_used_by_its_group() -> None:
    """A Kubernetes volume with an fsGroup is owned by root, and so is its ``lost+found``."""
    # not in tmp_path: each pytest that starts restricts the folder of all of them to root again
    with tempfile.TemporaryDirectory() as name:
        volume = Path(name)
        (volume / "lost+found").mkdir(mode=0o700)
        os.chown(volume, 0, FS_GROUP)
        volume.chmod(0o2775)
        assert exit_code_as_nobody(lambda: protect(volume)) == 0
        assert oct(volume.stat().st_mode & 0o7777) == "0o2775"
        volume.chmod(0o755)
        assert exit_code_as_nobody(lambda: protect(volume)) == REFUSED


def exit_code_as_nobody(act: Callable[[], None]) -> int:
    """Return how a child process without rights ends that does this."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([FS_GROUP])
            os.setgid(FS_GROUP)
            os.setuid(RUN_AS_USER)
            act()
        except InvalidInput:
            os._exit(REFUSED)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_only_old_temporary_files_of_controllers_are_removed(tmp_path: Path) -> None:
    for name in ("gitsync-keys-old", "gitsync-keys-new", "other-old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("")
    for name in ("gitsync-keys-old", "other-old"):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gitsync-keys-new", "other-old"]
