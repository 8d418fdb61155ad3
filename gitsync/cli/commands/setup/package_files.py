"""Folders that are shipped with the program: manifests and the demo's repository."""

from __future__ import annotations

from pathlib import Path


def shipped_folder(name: str) -> Path:
    """Return a folder of the checkout, or of the package data of an installed wheel."""
    package = Path(__file__).resolve().parents[3]
    packed = package / "_shipped" / name
    return packed if packed.is_dir() else package.parent / name
