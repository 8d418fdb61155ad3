"""``.gitsyncignore`` leaves files and folders out of a folder of plain manifests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.build import build
from gitsync.source.local import FolderTree

FILES = (
    "a.yaml", "b.tmpl.yaml", "charts/web/Chart.yaml", "charts/web/templates/d.yaml", "deep/a/x.yaml", "deep/x.yaml",
    "examples/e.yaml", "deep/examples/f.yaml", "x1.yaml", "x2.yaml", "xa.yaml",
)  # fmt: skip
CASES = [
    ("charts",),
    ("charts/", "*.tmpl.yaml"),
    ("/*/",),
    ("charts/**", "examples/"),
    ("charts", "/examples"),
    ("charts", "deep/**/x.yaml"),
    ("charts", "x[0-9].yaml", "!x2.yaml"),
    ("charts", "x[!0-9].yaml"),
    ("# a comment", "", "charts", "x?.yaml"),
    ("*", "!a.yaml"),
    ("charts", "deep/*", "!deep/x.yaml"),
    ("charts", "deep*"),
]


def manifest(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name.replace('/', '-')}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        file = tmp_path / "app" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("name: web\n" if name.endswith("Chart.yaml") else manifest(name))
    return tmp_path


def rendered(folder: Path, *lines: str) -> set[str]:
    (folder / "app" / ".gitsyncignore").write_text("\n".join(lines))
    made = build(FolderTree(folder), "app")
    assert "app/.gitsyncignore" in made.files_read
    return {origin.file.removeprefix("app/") for origin in made.sources}


@pytest.mark.parametrize("lines", CASES, ids=" ".join)
def test_it_ignores_what_git_ignores(folder: Path, lines: tuple[str, ...]) -> None:
    """git itself says which files the patterns leave; of these, a chart is never applied."""
    found = rendered(folder, *lines)
    git = ["git", "-C", str(folder / "app")]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-from=.gitsyncignore"], capture_output=True, text=True, check=True
    )
    assert found == set(listed.stdout.split()) - {".gitsyncignore"}


def test_a_chart_below_the_folder_names_the_file(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"charts/web is a Helm chart.*or exclude the folder in \.gitsyncignore"):
        build(FolderTree(folder), "app")


def test_an_invalid_pattern_is_reported_with_its_line(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"app/\.gitsyncignore:2: 'x\[z-a\]' is not a pattern"):
        rendered(folder, "charts", "x[z-a]")
