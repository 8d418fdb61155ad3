"""What a CI runner says about the change that it checks: base, head, and where its summary is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.preview.annotations import Runner

_NO_COMMIT = "0" * 40
"""What push events name as the commit before the first one of a branch."""


@dataclass(frozen=True, slots=True)
class CiJob:
    """
    A job of a CI runner.

    ``bases`` are revisions of the base, the first that exists counts; ``summary`` is the file whose Markdown the runner
    shows beside the job, None where it has none.
    """

    runner: Runner
    bases: tuple[str, ...]
    head: str
    summary: Path | None = None


def detect(env: Mapping[str, str]) -> CiJob:
    """
    Return the job that the environment describes: GitHub, Forgejo or Gitea Actions, GitLab CI, or a plain shell.

    Raise InvalidInput where the runner's description of the event cannot be read.
    """
    if env.get("GITHUB_ACTIONS") == "true":  # Forgejo's and Gitea's runners set it too, for compatibility
        return _actions(env)
    if env.get("GITLAB_CI") == "true":
        return _gitlab(env)
    return CiJob(Runner.PLAIN, (), "HEAD")


def _actions(env: Mapping[str, str]) -> CiJob:
    event = _event(env.get("GITHUB_EVENT_PATH", ""))
    queue = event.get("merge_group") or {}
    target = env.get("GITHUB_BASE_REF", "")
    previous = str(event.get("before") or "")
    candidates = (
        # a merge queue tests a commit of its own, on top of this base
        str(queue.get("base_sha") or ""),
        f"refs/remotes/origin/{target}" if target else "",
        previous if previous != _NO_COMMIT else "",
    )
    summary = env.get("GITHUB_STEP_SUMMARY", "")
    return CiJob(Runner.ACTIONS, tuple(filter(None, candidates)), "HEAD", Path(summary) if summary else None)


def _event(path: str) -> dict[str, Any]:
    if not path:
        return {}
    import orjson

    try:
        event = orjson.loads(Path(path).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InvalidInput("cannot read the event of the job", location="GITHUB_EVENT_PATH") from error
    return event if isinstance(event, dict) else {}


def _gitlab(env: Mapping[str, str]) -> CiJob:
    target = env.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "")
    previous = env.get("CI_COMMIT_BEFORE_SHA", "")
    candidates = (
        f"refs/remotes/origin/{target}" if target else "",
        env.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),  # where the job fetched only the source branch
        previous if previous != _NO_COMMIT else "",
    )
    return CiJob(Runner.GITLAB, tuple(filter(None, candidates)), "HEAD")
