"""Recent: what was last built for each application; both ends of a pipe keep it, so that only what differs travels."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple

from gitsync.render.build import Build

_KEPT: Final = 64
"""Applications; the one that was not built for longest is forgotten first."""


class Built(NamedTuple):
    """What a commit was built to."""

    commit: str
    build: Build


class BuildHistory:
    """Keep the last build of each folder of a repository, as requests name it."""

    def __init__(self) -> None:
        self._built: OrderedDict[tuple[str, str, str], Built] = OrderedDict()

    def last(self, request: dict[str, Any]) -> Built | None:
        """Return the last build of what a request asks for."""
        return self._built.get(_key(request))

    def keep(self, request: dict[str, Any], build: Build) -> None:
        """Take a build for the last one."""
        key = _key(request)
        self._built[key] = Built(request["commit"], build)
        self._built.move_to_end(key)
        if len(self._built) > _KEPT:
            self._built.popitem(last=False)


def _key(request: dict[str, Any]) -> tuple[str, str, str]:
    return request["git_dir"], request["path"], request["renderer"]
