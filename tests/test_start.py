"""``gitsync build PATH`` starts without what only other commands need, and is the same command for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: value}\n"


def gitsync(*arguments: object, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, *options, "-m", "gitsync", *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "kustomization.yaml").write_text("namePrefix: p-\nresources: [a.yaml]\n")
    (tmp_path / "a.yaml").write_text(CONFIG_MAP)
    return tmp_path


def test_it_prints_what_it_prints_with_options(app: Path) -> None:
    short, long = gitsync("build", app), gitsync("build", app, "--output", "yaml")

    assert "name: p-a" in short.stdout
    assert (short.stdout, short.returncode) == (long.stdout, 0)


def test_it_refuses_as_with_options(app: Path) -> None:
    (app / "a.yaml").unlink()
    short, long = gitsync("build", app), gitsync("build", app, "--output", "yaml")

    assert "a.yaml" in short.stderr
    assert (short.stderr, short.returncode) == (long.stderr, 2)


def test_it_prints_all_before_it_ends(app: Path) -> None:
    (app / "a.yaml").write_text("---\n".join(CONFIG_MAP.replace("a}", f"a{n}}}") for n in range(2000)))

    done = gitsync("build", app)

    assert done.stdout.count("kind: ConfigMap\n") == 2000
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_full_disk_is_one_line_and_an_exit_code(app: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "gitsync", "build", str(app)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == 70


def test_options_are_still_parsed(app: Path) -> None:
    assert "Usage" in gitsync("build", "--help").stdout
    assert gitsync("build", "--nothing").returncode == 2


def test_it_loads_nothing_that_takes_long(app: Path) -> None:
    loaded = {
        line.rpartition("|")[2].strip()
        for line in gitsync("build", app, options=("-X", "importtime")).stderr.splitlines()
    }

    assert "gitsync.render.build" in loaded
    assert not loaded & {"typer", "pydantic", "git", "rich", "yaml", "orjson"}
    assert not loaded & {"dataclasses", "pathlib", "hashlib", "json", "decimal", "difflib"}
    late = ("provenance.recorder", "plain", "ignore_file", "kustomize.variables", "kustomize.crds")
    assert not loaded & {"gitsync.objects.remote", *(f"gitsync.render.{name}" for name in late)}


def test_the_controller_loads_no_schema_library_before_the_first_schema() -> None:
    code = "import sys, gitsync.wiring; print(sorted({'jsonschema', 'lark', 'referencing'} & sys.modules.keys()))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
