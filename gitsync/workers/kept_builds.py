"""KeptBuilds: the last build of each Application in files, so that a restart renders only what Git changed."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from pathlib import Path
from typing import Final

import orjson

import gitsync.render
from gitsync.files import PRIVATE, write_file
from gitsync.objects.application import Application
from gitsync.render.build import Build
from gitsync.workers import protocol
from gitsync.workers.helm import helm_fingerprint

_KEPT_SECONDS: Final = 30 * 86_400.0
"""30 days; a build that was neither written nor read meanwhile belongs to no Application any more."""
_log = logging.getLogger(__name__)


class KeptBuilds:
    """
    Implement ``gitsync.ports.RenderStore`` in a folder, one file for each Application and source.

    A build of another version of the renderer, or one that cannot be read, counts as absent; a failed write is logged.
    A build with files of other repositories is not kept: it depends on more than the commit. Neither is one with values
    of Secrets, which are in no file of ours.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._renderer = _fingerprint(Path(gitsync.render.__file__).parent)

    def load(self, app: Application) -> tuple[str, Build] | None:
        """Return the commit and the build that were kept last for this source."""
        file = self._file(app)
        try:
            message = orjson.loads(file.read_bytes())
            if message["renderer"] != self._renderer:
                return None
            # Reading renews it: ``clean`` deletes what nothing has used for long.
            os.utime(file)
            return str(message["commit"]), protocol.to_build(message["build"])
        # what an older version or a crash left counts as absent: rendering again is always right
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def keep(self, app: Application, commit: str, build: Build) -> None:
        """Keep a build instead of the one before, which stays right for its own commit where this one is not kept."""
        if build.remotes or (build.chart is not None and build.chart.has_secrets):
            return
        message = {"renderer": self._renderer, "commit": commit, "build": protocol.of_build(build)}
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self._file(app), orjson.dumps(message), PRIVATE)
        # lost: the time of one render after a restart
        except OSError as error:
            _log.warning("a build was not kept, and will be rendered again after a restart: %s", error)

    def clean(self) -> None:
        """Delete the builds that no Application has used for long."""
        limit = time.time() - _KEPT_SECONDS
        for file in self._folder.glob("*"):
            # lost: nothing; another process may have deleted it, or the next start does
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < limit:
                    file.unlink()

    def _file(self, app: Application) -> Path:
        source = app.source
        secrets = (part.credentials_secret for part in source.parts)
        folders = (part for render in app.renders for part in (render.path, render.renderer))
        key = "\0".join((app.uid, source.repo_url, *secrets, *folders))
        return self._folder / hashlib.sha256(key.encode()).hexdigest()


def _fingerprint(folder: Path) -> str:
    """Return a hash that differs between versions of the renderer."""
    files = sorted(folder.rglob("*.py"))
    # Size and time, not content: hashing the renderer would slow each start.
    facts = [f"{file.relative_to(folder)} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    # what a chart renders to depends on the version of Helm
    facts.append(helm_fingerprint())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
