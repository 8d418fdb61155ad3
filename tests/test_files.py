"""Files that others wait for appear complete and with their mode."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from gitsync import files
from gitsync.files import PRIVATE, PUBLIC, create_file, write_file

LONG = "x" * 100_000


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_waiting_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    lengths: set[int] = set()
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            if path.exists():
                lengths.add(len(path.read_text()))
                assert mode_of(path) == PRIVATE

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(200):
        write_file(path, LONG, PRIVATE)
    is_done.set()
    reader.join()
    assert lengths == {len(LONG)}


@pytest.mark.parametrize("mode", [PRIVATE, PUBLIC])
def test_the_mode_is_set_whatever_was_there_or_the_umask(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o666)
    umask = os.umask(0o077)
    try:
        write_file(path, "new", mode)
    finally:
        os.umask(umask)
    assert (path.read_text(), mode_of(path)) == ("new", mode)


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_file(path, "old", PUBLIC)

    def fail(descriptor: int, mode: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(files.os, "fchmod", fail)
    with pytest.raises(OSError, match="No space"):
        write_file(path, "new", PUBLIC)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_symbolic_link_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_file(link, "new", PUBLIC)
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text", PUBLIC)
    reader.join(60)
    assert received == ["text"]
    assert pipe.is_fifo()


def test_all_who_create_a_file_read_the_same_content(tmp_path: Path) -> None:
    path = tmp_path / "token"
    contents: list[str] = []
    start = threading.Barrier(8)

    def create(content: str) -> None:
        start.wait()
        create_file(path, content, PRIVATE)
        contents.append(path.read_text())

    writers = [threading.Thread(target=create, args=(str(number) * 1000,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(contents) == 8
    assert len(set(contents)) == 1
    assert mode_of(path) == PRIVATE
    assert names(tmp_path) == ["token"]


def test_a_file_is_created_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(files.os, "link", refuse)
    create_file(tmp_path / "token", "text", PRIVATE)
    assert (tmp_path / "token").read_text() == "text"
    assert names(tmp_path) == ["token"]
