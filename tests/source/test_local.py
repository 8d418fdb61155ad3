"""Trees for the command line: folders on disk, and revisions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.source.local import FILE_MIB, MAX_FILE_MIB, FolderTree, file_limit, open_path

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
    with pytest.raises(InvalidInput, match="the folder does not exist"):
        open_path(str(tmp_path / "absent" / "below"))


def test_an_absent_folder_is_refused_with_similar_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dev", "production"):
        (tmp_path / "overlays" / name).mkdir(parents=True)
    (tmp_path / "overlays" / "deve").write_text("a file\n")
    monkeypatch.chdir(tmp_path)
    for path, similar in (("overlays/dve/", "overlays/dev"), ("ovrlays", "overlays")):
        with pytest.raises(InvalidInput) as refused:
            open_path(path)
        assert refused.value.hint == f"similar names: {similar}"


def test_a_file_is_refused_with_its_folder(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (app / "web.yaml").write_text("a: 1\n")
    monkeypatch.chdir(app.parent)
    with pytest.raises(InvalidInput, match="it is a file") as refused:
        open_path(f"{app.name}/web.yaml")
    assert refused.value.hint == f"name its folder: {app.name}"


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


@pytest.fixture
def tree(tmp_path: Path) -> FolderTree:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.yaml").write_bytes(b"b: 1\n" * 20_000)
    (tmp_path / "a.yaml").write_bytes(b"a: 1\n")
    (tmp_path / "link").symlink_to("inner/b.yaml")
    os.mkfifo(tmp_path / "pipe")
    return FolderTree(tmp_path, max_file_bytes=100_000)


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("", Entry.FOLDER),
        ("inner", Entry.FOLDER),
        ("inner/b.yaml", Entry.FILE),
        ("link", Entry.LINK),
        ("pipe", None),
        ("absent", None),
        ("a.yaml/x", None),
        ("with\0nul", None),
    ],
)
def test_what_stands_at_a_path(tree: FolderTree, path: str, entry: Entry | None) -> None:
    assert tree.entry(path) is entry


def test_the_names_in_a_folder_are_sorted(tree: FolderTree) -> None:
    assert tree.names("") == ("a.yaml", "inner", "link", "pipe")


def test_a_file_of_many_chunks_is_read_whole(tree: FolderTree) -> None:
    assert tree.read("inner/b.yaml") == b"b: 1\n" * 20_000


def test_a_link_is_its_target_and_never_followed(tree: FolderTree) -> None:
    assert tree.read("link") == b"inner/b.yaml"


def test_an_absent_file_is_a_key_error(tree: FolderTree) -> None:
    with pytest.raises(KeyError):
        tree.read("absent")


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(InvalidInput, match="large: the file is larger than the limit of 10 bytes; split it"):
        FolderTree(tmp_path, max_file_bytes=10).read("large")


def test_a_folder_cannot_be_read_as_a_file(tree: FolderTree) -> None:
    with pytest.raises(InvalidInput, match="inner: the file cannot be read"):
        tree.read("inner")


def test_equal_ids_mean_equal_bytes(tree: FolderTree, tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_bytes(b"a: 1\n")
    assert tree.blob_id("a.yaml") == tree.blob_id("copy.yaml") != tree.blob_id("inner/b.yaml")


def test_the_documented_limit_of_a_file_is_the_one_that_counts() -> None:
    text = f"| one file | {FILE_MIB} MiB; `GITSYNC_FILE_MIB` sets it, from 1 to {MAX_FILE_MIB} |"
    assert text in (DOCS / "yaml.md").read_text()


@pytest.mark.parametrize("text", ["0", "65", "-1", "1.5", "", "²", "many"])
def test_another_limit_is_a_number_of_mib(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GITSYNC_FILE_MIB", text)
    with pytest.raises(InvalidInput, match=f"{text!r} is not a number of MiB"):
        file_limit()


def test_the_limit_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_FILE_MIB", "3")
    assert file_limit() == 3 << 20
