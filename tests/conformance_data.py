"""Find the conformance data, which lives beside the project and never in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def conformance_dir() -> Path:
    """Return the folder of the suites: ``GITSYNC_CONFORMANCE``, or ``../shared/conformance``."""
    return Path(os.environ.get("GITSYNC_CONFORMANCE") or ROOT.parent / "shared" / "conformance")


def suite(name: str) -> Path:
    """Return the folder of one suite; skip the test (or module) where it is absent."""
    folder = conformance_dir() / name
    if not folder.is_dir():
        pytest.skip(f"no conformance suite {name!r}: set GITSYNC_CONFORMANCE", allow_module_level=True)
    return folder
