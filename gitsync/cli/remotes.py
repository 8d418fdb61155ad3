"""Render with the folders in other repositories that a command allows; without credentials."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gitsync.cli.options import load_settings
from gitsync.errors import InvalidInput, RemoteNeeded
from gitsync.gate.policy import Policy
from gitsync.integrations.artifacts import ArtifactClient
from gitsync.objects.tree import Tree
from gitsync.ports import Credentials, RemoteBase
from gitsync.render.build import Build
from gitsync.source.file_rules import file_limit
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import SAFE_SCHEMES, PlainHosts
from gitsync.sync.remote_bases import RemoteFetcher, mounted


def render_with_remotes(
    tree: Tree, render: Callable[[Tree], Build], allowed: Sequence[str], faults: list[InvalidInput] | None
) -> Build:
    """Return a build with folders of the allowed repositories, fetched for this build; see ``build`` for ``faults``."""

    def attempt(fetched: Mapping[str, RemoteBase]) -> Build:
        built = render(mounted(tree, fetched))
        # a collector of faults keeps the error that is raised otherwise
        needed = next((fault for fault in faults or () if isinstance(fault, RemoteNeeded)), None)
        if faults and needed:
            faults.clear()
            raise needed
        return built

    # the schemes without encryption only where the user names them
    plain = {scheme for scheme in ("file", "http") if any(url.startswith(f"{scheme}:") for url in allowed)}
    with tempfile.TemporaryDirectory(prefix="gitsync-remotes-") as folder:
        limits = SourceLimits(file_bytes=file_limit())
        settings = load_settings()
        hosts = PlainHosts.parse(settings.git_http_hosts, "")
        transport = Transport(tuple(sorted(SAFE_SCHEMES | plain)), hosts, limits, settings.git_ca)
        source = Repositories(Path(folder), transport, ArtifactClient())
        policy = Policy(name="--remote", remotes=tuple(allowed))
        try:
            return RemoteFetcher(source, lambda url: Credentials(), (policy,)).collect(attempt)[1]
        finally:
            source.close()
