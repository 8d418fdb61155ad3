from __future__ import annotations

import errno
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from gitsync.workers import protocol
from gitsync.workers.server import RenderServer, serve
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
