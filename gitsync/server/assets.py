"""Find templates and static files: package data in an installed wheel, ``web/`` in a checkout."""

from __future__ import annotations

import hashlib
from functools import cache
from os import PathLike, stat_result
from pathlib import Path, PurePath

from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
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
def static_version() -> str:
    """
    Return the start of a hash of all static files, which is the folder in their URLs.

    It is one for all, as the modules of the script name each other by relative URLs.
    """
    digest = hashlib.sha256()
    # a folder lists its files in any order: replicas have to agree on one version
    for file in sorted((web_folder() / "static").iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def static_url(name: str) -> str:
    """Return the URL of a static file, which may be cached for ever."""
    return f"/static/{static_version()}/{name}"


class Assets(StaticFiles):
    """The static files: kept for ever where the URL names the version of all, asked for again otherwise."""

    def lookup_path(self, path: str) -> tuple[str, stat_result | None]:
        """Return the file of a path, which may begin with a version: a page of an earlier one still finds its files."""
        # the last part alone: the folder is flat, and every version is answered with the files of now
        return super().lookup_path(PurePath(path).name)

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the file with how long it may be kept."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        # under another version the content is not that of the URL: a cache would keep the wrong one
        is_current = static_version() in PurePath(scope["path"]).parts
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_current else "no-cache"
        return response
