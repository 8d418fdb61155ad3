from __future__ import annotations

import errno
import gc
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render.kustomize.files import ParseCache
from gitsync.runtime.garbage import return_memory
from gitsync.source.snapshot import GitTree, MeteredTree
from gitsync.workers import protocol
from gitsync.workers.server import RenderServer, TreeCache, resident_memory, serve
from tests.conformance_data import ROOT
from tests.git_repository import GitRepo


def message(frame: bytes) -> dict[str, Any]:
    assert int.from_bytes(frame[: protocol.LENGTH_BYTES]) == len(frame) - protocol.LENGTH_BYTES
    answer: dict[str, Any] = orjson.loads(frame[protocol.LENGTH_BYTES :])
    return answer


def request(tmp_path: Path, data: str = "") -> dict[str, Any]:
    repo = GitRepo(tmp_path / "repo")
    commit = repo.commit({"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n" + data})
    return {
        "git_dir": str(repo.origin),
        "commit": commit,
        "path": "",
        "renderer": "Auto",
        "seconds": 10**7,
        "file_bytes": 1 << 20,
        "max_objects": 10_000,
    }


def test_a_defect_of_ours_is_an_answer_with_a_trace() -> None:
    answer = message(RenderServer(1 << 40).answer({}))
    assert answer["error"]["message"] == "the renderer has a defect: KeyError: 'git_dir'"
    assert "Traceback" in answer["trace"]
    assert answer["is_last"]


def test_an_error_of_the_machine_is_one_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.ENFILE, "Too many open files in system")

    monkeypatch.setattr("gitsync.workers.server.build", failing)
    error = message(RenderServer(1 << 40).answer(request(tmp_path)))["error"]
    assert (error["kind"], error["message"]) == (
        "SourceUnavailable",
        "the render process cannot read the mirror: Too many open files in system",
    )


def test_the_full_parser_is_loaded_before_the_limits_hold() -> None:
    code = "import sys, gitsync.workers.server; sys.exit('yaml' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_process_starts_without_the_models_of_the_controller_and_without_gitpython() -> None:
    code = "import sys, gitsync.workers.server; print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not loaded & {"git", "pydantic", "gitsync.objects.application", "gitsync.objects.change"}


@pytest.mark.parametrize("size", [2 << 20, 4 << 20])
def test_an_object_that_no_api_server_takes_is_refused_and_not_kept(tmp_path: Path, size: int) -> None:
    server = RenderServer(1 << 40)
    asked = {**request(tmp_path, f"data:\n  large: {'x' * size}\n"), "file_bytes": 8 << 20}
    before = resident_memory()
    for _ in range(2):
        answer = message(server.answer(asked))
        assert ("build" in answer) is (size < 3 << 20)
    if size > 3 << 20:
        error = answer["error"]
        assert error["message"] == "ConfigMap a has 4.0 MiB, and an API server takes at most 3 MiB for one object"
        assert (error["location"], answer["is_last"]) == ("a.yaml", False)
        del answer
        return_memory()
        assert resident_memory() < before + size


def test_more_objects_than_a_policy_allows_are_refused_and_not_kept(tmp_path: Path) -> None:
    server = RenderServer(1 << 40)
    others = "".join(f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\n" for number in range(9))
    asked = request(tmp_path, others)
    assert len(message(server.answer({**asked, "max_objects": 10}))["build"]["manifests"]) == 10
    kept = parse_caches()
    error = message(server.answer({**asked, "max_objects": 9}))["error"]
    assert (error["kind"], error["message"]) == ("InvalidInput", "has 10 objects, the limit is 9")
    assert parse_caches() == kept - 1
    assert "build" in message(server.answer({**asked, "max_objects": 10}))


def test_what_was_made_of_a_folder_is_forgotten_on_request_and_made_again(tmp_path: Path) -> None:
    server = RenderServer(1 << 40)
    asked = request(tmp_path, "data: {a: b}\n")
    first = message(server.answer(asked))
    server.answer({**asked, "path": "absent", "forget": [protocol.folder_of(asked)]})
    [cache] = server._caches.values()
    assert (cache._entries, cache._memos, server._recent.last(asked)) == ({}, {}, None)
    assert message(server.answer(asked)) == first


def parse_caches() -> int:
    """Return how many repositories this process keeps parsed files of."""
    gc.collect()
    return sum(isinstance(item, ParseCache) for item in gc.get_objects())


def test_a_large_build_of_objects_that_are_not_large_is_answered(tmp_path: Path) -> None:
    documents = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b{number}\ndata:\n  a: {'x' * (1 << 20)}\n"
        for number in range(4)
    )
    asked = {**request(tmp_path, documents), "file_bytes": 8 << 20}
    server = RenderServer(1 << 40)
    for _ in range(2):
        assert len(message(server.answer(asked))["build"]["manifests"]) == 5


def test_a_process_that_holds_much_memory_asks_to_be_replaced(tmp_path: Path) -> None:
    asked = request(tmp_path)
    assert message(RenderServer(1 << 40).answer(asked))["is_last"] is False
    assert message(RenderServer(1 << 20).answer(asked))["is_last"] is True


@pytest.mark.parametrize("word", ["no", "Yes", "ON"])
def test_a_word_that_readers_disagree_on_is_refused_in_a_config_map(tmp_path: Path, word: str) -> None:
    asked = request(tmp_path, f"data:\n  good: '{word}'\n  other: {word}t\n")
    assert message(RenderServer(1 << 40).answer(asked))["build"]["manifests"][0]["data"] == {
        "good": word,
        "other": f"{word}t",
    }
    answer = message(RenderServer(1 << 40).answer(request(tmp_path / "bad", f"data:\n  bad: {word}\n")))
    assert answer["error"]["message"].startswith(f"data.bad is {word}: a string for some")


def test_requests_are_answered_one_after_the_other_until_they_end(tmp_path: Path) -> None:
    asked = protocol.frame(request(tmp_path))
    replies = io.BytesIO()
    serve(io.BytesIO(asked * 3), replies, 1 << 40)
    written = replies.getvalue()
    assert message(written[: len(written) // 3])["build"]["manifests"][0]["metadata"] == {"name": "a"}
    assert written[: len(written) // 3] * 3 == written


def test_a_build_may_read_only_so_much(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    tree = GitTree(repo.origin, repo.commit({"a/x": "1" * 60, "a/y": "2" * 60}))
    metered = MeteredTree(tree, 100)
    assert metered.entry("a") is Entry.FOLDER
    assert metered.names("a") == ("x", "y")
    assert metered.blob_id("a/x") == tree.blob_id("a/x")
    assert metered.read("a/x") == b"1" * 60
    with pytest.raises(InvalidInput, match="a/y: the files read exceed the limit"):
        metered.read("a/y")
    assert MeteredTree(tree, 100).read("a/y") == b"2" * 60
    tree.close()


def test_the_tree_follows_the_commit(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    before, after = repo.commit({"x": "old"}), repo.commit({"x": "new"})
    trees = TreeCache()
    read = [trees.open(str(repo.origin), commit, 1 << 20).read("x") for commit in (before, before, after, before)]
    assert read == [b"old", b"old", b"new", b"old"]


MEMORY = 256 << 20


def confined(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that has confined itself."""
    program = f"from gitsync.workers.server import *\nconfine({MEMORY})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (f"bytearray({MEMORY})", "MemoryError"),
        # in memory: what is on disk may be forbidden as a whole
        ("os.write(os.memfd_create('file'), b'x' * 100_000)", "File too large"),
        ("files = [open('/dev/null') for _ in range(100)]", "Too many open files"),
    ],
)
def test_a_confined_process_cannot(code: str, error: str, tmp_path: Path) -> None:
    assert error in confined(code, tmp_path).stderr
    assert not any(file.stat().st_size for file in tmp_path.iterdir())


def test_a_confined_process_can_still_map_large_files(tmp_path: Path) -> None:
    code = (
        f"import mmap\nwith open('/dev/zero', 'rb') as f: mmap.mmap(-1, {MEMORY}, prot=mmap.PROT_READ)\nprint('mapped')"
    )
    assert confined(code, tmp_path).stdout == "mapped\n"


def test_processor_time_is_limited_from_now_on(tmp_path: Path) -> None:
    done = confined("allow_processor_time(-1)\nwhile True: pass", tmp_path)
    assert done.returncode == -24  # SIGXCPU


def test_memory_in_use_follows_what_is_held(tmp_path: Path) -> None:
    code = "before = memory_in_use()\nheld = bytearray(64 << 20)\nprint((memory_in_use() - before) >> 20)"
    assert 60 <= int(confined(code, tmp_path).stdout) <= 80
