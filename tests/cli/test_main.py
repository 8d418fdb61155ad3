from __future__ import annotations

import gc
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gitsync import __version__
from gitsync.cli.errors import exit_on_error
from gitsync.cli.main import load_command
from gitsync.cli.output import Exit
from gitsync.errors import InvalidInput, SourceDenied, SourceUnavailable
from tests.cli.conftest import Gitsync, process


def test_help_starts_fast() -> None:
    times = []
    for _ in range(5):
        began = _spent()
        assert process("--help").code == 0
        times.append(_spent() - began)
    assert min(times) < 0.3  # seconds of computing, whatever else runs on the machine


def _spent() -> float:
    """Return the processor time of all processes that this one started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_help_loads_nothing_heavy() -> None:
    heavy = ["kubernetes", "sqlalchemy", "fastapi", "uvicorn", "pydantic", "git", "orjson", "rich"]
    code = f"import sys, gitsync.cli.main; sys.exit(','.join(m for m in {heavy!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_a_build_of_manifests_loads_nothing_that_only_charts_need(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    command = [sys.executable, "-X", "importtime", "-m", "gitsync", "build", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "gitsync.render.build" in loaded
    assert not loaded & {"dataclasses", "inspect", "json", "hashlib", "urllib.parse", "gitsync.render.kustomize.charts"}


@pytest.mark.parametrize("name", ["status", "nothing"])
def test_garbage_is_collected_once_a_command_is_loaded(name: str) -> None:
    with suppress(ModuleNotFoundError):
        load_command(name)
    assert gc.isenabled()


def test_the_version_is_printed(gitsync: Gitsync) -> None:
    assert gitsync("--version").out == f"gitsync {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["build"], ["build", ".", "-o", "xml"], ["run", "--port", "99999"], ["status", "--huh"]]
)
def test_a_usage_error_exits_with_2(gitsync: Gitsync, arguments: list[str]) -> None:
    done = gitsync(*arguments)

    assert done.code == 2
    assert "Usage: gitsync" in done.err


def raising(error: BaseException) -> Exit:
    raise error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("no"), 2),
        (SourceUnavailable("away"), 3),
        (SourceDenied("a token is needed"), 2),
        (PermissionError(13, "Permission denied", "/data"), 2),
        (OSError("nowhere"), 70),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x\ny"), 70),
    ],
)
def test_every_failure_has_its_code_and_at_most_one_line(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITSYNC_DEBUG", raising=False)
    with pytest.raises(SystemExit) as left:
        exit_on_error(lambda: raising(error))()

    output = capsys.readouterr().err
    assert left.value.code == code
    assert output.count("\n") == (0 if code == 130 else 1)
    assert ("GITSYNC_DEBUG=1" in output) is (code == 70)


def test_a_bug_is_raised_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_DEBUG", "1")

    with pytest.raises(ZeroDivisionError):
        exit_on_error(lambda: raising(ZeroDivisionError()))()


def test_a_bad_variable_is_named(gitsync: Gitsync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_WORKERS", "many")

    done = gitsync("audit", "verify")

    assert done.code == 2
    assert done.err.startswith("gitsync: GITSYNC_WORKERS: ")


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    objects = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{i}}}\ndata: {{a: '{'x' * 500}'}}\n"
        for i in range(500)
    )
    (tmp_path / "a.yaml").write_text(objects)
    command = f"{sys.executable} -m gitsync build {tmp_path} | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "apiVersion: v1\n", "")
