"""Find templates and static files: package data in an installed wheel, ``web/`` in a checkout."""

from __future__ import annotations

import hashlib
from functools import cache
from os import PathLike, stat_result
from pathlib import Path

from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import QueryParams
from starlette.types import Scope

from gitsync.errors import InvalidInput
from gitsync.shipped import shipped_folder


def web_folder() -> Path:
    """Return the folder that holds ``templates`` and ``static``; raise InvalidInput when there is none."""
    folder = shipped_folder("web")
    if not (folder / "templates").is_dir():
        raise InvalidInput("the dashboard's templates are missing", hint="install gitsync again")
    return folder


@cache
def fingerprint(name: str) -> str:
    """Return the start of a static file's hash, for URLs that may be cached for ever."""
    return hashlib.sha256((web_folder() / "static" / name).read_bytes()).hexdigest()[:12]


class Assets(StaticFiles):
    """The static files: kept for ever where the URL names the content, asked for again otherwise."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the file with how long it may be kept."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        named = QueryParams(scope["query_string"]).get("v") == fingerprint(Path(full_path).name)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if named else "no-cache"
        return response
