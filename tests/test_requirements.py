"""The requirements files are complete: `make` installs exactly what they list, and pip resolves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INSTALLERS = ("Makefile", "tools/make_image_root.sh")


@pytest.mark.parametrize("name", INSTALLERS)
def test_hashed_requirements_are_installed_without_resolving(name: str) -> None:
    """With hashes, pip before 24 refuses a package with extras as not pinned once a newer version is published."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if "--require-hashes" in line]

    assert lines
    assert [line for line in lines if "--no-deps" not in line] == []


def test_the_installed_environment_lacks_no_dependency() -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements*.txt")), ids=lambda path: path.name)
def test_each_requirement_is_pinned_and_hashed(path: Path) -> None:
    lines = path.read_text().replace("\\\n", " ").splitlines()
    requirements = [line for line in lines if line.strip() and not line.startswith("#")]

    assert requirements
    assert [line[:60] for line in requirements if not re.match(r"[\w.\[\]-]+==\S+ .*--hash=sha256:", line)] == []
