"""Find templates and static files: package data in an installed wheel, ``web/`` in a checkout."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from gitsync.errors import InvalidInput


def web_folder() -> Path:
    """Return the folder that holds ``templates`` and ``static``; raise InvalidInput when there is none."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_web", package.parent / "web"):
        if (folder / "templates").is_dir():
            return folder
    raise InvalidInput("the dashboard's templates are missing", cure="install gitsync again")


@cache
def fingerprint(name: str) -> str:
    """Return the start of a static file's hash, for URLs that may be cached for ever."""
    return hashlib.sha256((web_folder() / "static" / name).read_bytes()).hexdigest()[:12]
