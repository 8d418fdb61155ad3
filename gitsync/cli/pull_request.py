"""The change of a pull request by its page, read from its host without a clone."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gitsync.cli.change import PreviewedChange
from gitsync.cli.options import close_at_end, load_settings
from gitsync.errors import InvalidInput
from gitsync.objects.application import GitSource
from gitsync.objects.urls import matches_url
from gitsync.ports import Credentials
from gitsync.source.hosts.opening import ApiHosts
from gitsync.source.object_reader import ObjectReader
from gitsync.workers.previews import line_authors

_PULL_REQUEST: Final = re.compile(
    r"(?P<repository>https?://[^?#]+?)/(?P<part>pull|pulls|-/merge_requests)/(?P<number>[1-9][0-9]{0,8})/?"
)
_HOSTS: Final = {"pull": "GitHub", "pulls": "Gitea", "-/merge_requests": "GitLab"}
"""The program of a host by the part of its addresses of pull requests."""


def pull_request_change(url: str, token: str, *, file_urls: bool = False) -> PreviewedChange:
    """
    Return the change of a pull request by its page, read from its host into a mirror that ends with the command.

    ``token`` signs in at this host alone; empty for a public repository. Raise InvalidInput for another URL.
    """
    match = _PULL_REQUEST.fullmatch(url)
    if match is None:
        raise InvalidInput(
            "is not the page of a pull request",
            location="--pr",
            hint="write https://HOST/OWNER/NAME/pull/NUMBER as GitHub has it, or that of Gitea, Forgejo or GitLab",
        )
    settings = load_settings()
    repo_url = f"{match['repository']}.git"
    # hosts take the token for the password of any user
    credentials = Credentials(username="gitsync", password=token) if token else Credentials()
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
