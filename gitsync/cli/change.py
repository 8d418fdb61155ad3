"""
The change that a command previews: commits of a clone, what is staged, or a pull request by its URL.

A CI runner says what its base and head are, and where its summary is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from gitsync.cli.options import close_at_end, load_settings
from gitsync.errors import InvalidInput
from gitsync.objects.application import GitSource
from gitsync.objects.record import Commit
from gitsync.objects.tree import Tree
from gitsync.objects.urls import matches_url
from gitsync.ports import Credentials, MergeResult
from gitsync.ports.hosts import CodeHost
from gitsync.preview.text import Runner
from gitsync.source.object_reader import ObjectReader
from gitsync.source.proposals import LocalRepository, merge

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


_DEFAULT_BASES: Final = ("refs/remotes/origin/HEAD", "origin/main", "origin/master", "main", "master")
"""What a change is compared with where nothing is named: the branch that a clone checks out, then common names."""


@dataclass(frozen=True, slots=True)
class PreviewedChange:
    """A merge, the files before and after it, whose lines who wrote, and the folders that are meant."""

    merge: MergeResult
    base: Tree
    result: Tree
    is_own: Callable[[str], bool]
    """Whether a URL is that of the repository."""
    authors: Callable[[Collection[str]], dict[str, Commit]]
    below: tuple[str, ...] = ()


def local_change(span: str, paths: list[str], job: CiJob | None, *, staged: bool) -> PreviewedChange:
    """Return the change of a range of commits, or what is staged, in the repository of the first path."""
    repository = LocalRepository(Path(paths[0] if paths and Path(paths[0]).exists() else "."))
    merged = repository.staged() if staged else _merged(repository, span, job)
    urls = repository.urls()
    below = [Path(os.path.abspath(path)).relative_to(repository.top).as_posix() for path in paths]
    base = repository.tree(merged.base)
    result = repository.tree(merged.commit)
    close_at_end(base.close)
    close_at_end(result.close)
    return PreviewedChange(
        merged,
        base,
        result,
        # without a remote every URL may be that of this repository
        lambda url: not urls or any(matches_url(own, url) for own in urls),
        partial(repository.authors, merged.commit),
        tuple("" if path == "." else path for path in below),
    )


def _merged(repository: LocalRepository, span: str, job: CiJob | None) -> MergeResult:
    base, _, head = span.replace("...", "..").partition("..")
    head = head or (job.head if job else "HEAD")
    if base:
        return merge(repository, repository.commit(base), repository.commit(head))
    candidates = (*(job.bases if job else ()), *_DEFAULT_BASES)
    base_commit = next((commit for name in candidates if (commit := repository.find_commit(name))), "")
    if not base_commit:
        raise InvalidInput(
            "no base to compare with: the repository has no remote branch",
            hint="name it: gitsync preview main..HEAD",
        )
    return merge(repository, base_commit, repository.commit(head))


# pull requests, read from their host without a clone


_PULL_REQUEST: Final = re.compile(
    r"(?P<repository>https?://[^?#]+?)/(?P<part>pull|pulls|-/merge_requests)/(?P<number>[1-9][0-9]{0,8})/?"
)
_HOSTS: Final = {"pull": "GitHub", "pulls": "Gitea", "-/merge_requests": "GitLab"}
"""The program of a host by the part of its addresses of pull requests."""


def repository_at_host(url: str, kind: str, token: str) -> CodeHost:
    """Return the repository of a URL at its host, by a token of the user."""
    from gitsync.source.hosts.opening import ApiHosts  # late: few commands reach a host

    folder = TemporaryDirectory(prefix="gitsync-")
    close_at_end(folder.cleanup)
    repositories = load_settings().repositories(Path(folder.name))
    close_at_end(repositories.close)
    return ApiHosts(repositories.transport).host_of(GitSource(repo_url=url), kind, _signed_in(token))


def _signed_in(token: str) -> Credentials:
    # hosts take the token for the password of any user
    return Credentials(username="gitsync", password=token) if token else Credentials()


def pull_request_change(url: str, token: str, *, file_urls: bool = False) -> PreviewedChange:
    """
    Return the change of a pull request by its page, read from its host into a mirror that ends with the command.

    ``token`` signs in at this host alone; empty for a public repository. Raise InvalidInput for another URL.
    """
    from gitsync.source.hosts.opening import ApiHosts  # late: most changes are those of a clone
    from gitsync.workers.previews import line_authors

    match = _PULL_REQUEST.fullmatch(url)
    if match is None:
        raise InvalidInput(
            "is not the page of a pull request",
            location="--pr",
            hint="write https://HOST/OWNER/NAME/pull/NUMBER as GitHub has it, or that of Gitea, Forgejo or GitLab",
        )
    settings = load_settings()
    repo_url = f"{match['repository']}.git"
    credentials = _signed_in(token)
    folder = TemporaryDirectory(prefix="gitsync-")
    close_at_end(folder.cleanup)
    repositories = settings.repositories(Path(folder.name), file_urls=file_urls)
    close_at_end(repositories.close)
    hosts = ApiHosts(repositories.transport)
    pull = hosts.host_of(GitSource(repo_url=repo_url), _HOSTS[match["part"]], credentials).pull_request(
        int(match["number"])
    )
    source = GitSource(repo_url=repo_url, revision=pull.base_branch)
    base = repositories.resolve(source, credentials)
    merged, result = repositories.merge(source, credentials, base, pull.head, ref=pull.ref)
    reader = ObjectReader(result.git_dir)
    close_at_end(reader.close)
    return PreviewedChange(
        merged,
        repositories.snapshot(source, credentials, base).tree,
        result.tree,
        lambda other: matches_url(repo_url, other),
        partial(line_authors, result.git_dir, reader, merged.commit),
    )
