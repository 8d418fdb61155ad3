"""
Each case prints what Kustomize 5.8.1 prints: ``cases/*.txt`` hold a tree, file by file, and the output last.

``tools/compare_kustomize.py`` writes such files for what it finds.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gitsync.render.build import build
from gitsync.render.kustomize.files import ParseCache
from gitsync.render.yaml.writer import write_all
from gitsync.source.local import FolderTree

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
TOPS = ("over", "base")
OLDEST = (5, 8)
"""The first Kustomize that sets fields inside texts, and so copies values as the cases expect."""
HEADER = re.compile(r"(?m)^-- (\S+) --\n")


def unpacked(case: Path, folder: Path) -> tuple[str, str]:
    """Write the files of a case; return the folder to build, and what it has to print."""
    _, *parts = HEADER.split(case.read_text())
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    expected = files.pop("expected")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return next(top for top in TOPS if (folder / top).exists()), expected


def kustomize_version() -> tuple[int, ...]:
    """Return the version of Kustomize in the kubectl on PATH, empty without one."""
    if shutil.which("kubectl") is None:
        return ()
    command = ["kubectl", "version", "--client", "--output=json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    version = json.loads(run.stdout).get("kustomizeVersion", "") if run.returncode == 0 else ""
    return tuple(map(int, re.findall(r"\d+", version)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_prints_what_kustomize_prints(case: Path, tmp_path: Path) -> None:
    top, expected = unpacked(case, tmp_path)

    assert write_all(build(FolderTree(tmp_path), top).manifests) == expected


@pytest.mark.kubectl
@pytest.mark.skipif(kustomize_version() < OLDEST, reason="kubectl has no Kustomize of 5.8 or newer")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_kubectl_prints_what_a_case_expects(case: Path, tmp_path: Path) -> None:
    top, expected = unpacked(case, tmp_path)

    run = subprocess.run(["kubectl", "kustomize", tmp_path / top], capture_output=True, text=True, check=True)
    assert run.stdout == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_cached_build_of_a_case_is_the_same(case: Path, tmp_path: Path) -> None:
    top, expected = unpacked(case, tmp_path)
    cache = ParseCache()
    base = tmp_path / "base" / "r.yaml"
    text = base.read_text()
    base.write_text(text + "\n---\napiVersion: v1\nkind: Other\nmetadata: {name: another}\n")
    build(FolderTree(tmp_path), top, cache=cache)
    base.write_text(text)

    assert write_all(build(FolderTree(tmp_path), top, cache=cache).manifests) == expected
    assert write_all(build(FolderTree(tmp_path), top, cache=cache).manifests) == expected
