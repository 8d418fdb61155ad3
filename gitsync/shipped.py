"""Folders that are shipped beside the program: manifests, the demo's overlays, and the files of the dashboard."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped_folder(name: str) -> Path:
    """Return a folder of the root of a checkout, or where a wheel has it; see ``force-include`` in pyproject.toml."""
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
