"""Measure the first fetch of a repository with large files: seconds, and megabytes of the mirror."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

_VERSIONS = 50
_BYTES = 4 << 20
_MANIFESTS: dict[str, str | bytes | None] = {f"app/{number}.yaml": f"a: {number}\n" * 50 for number in range(500)}


def main() -> None:
    """Print the figures with and without large files, which a server leaves out where it is configured so."""
    with tempfile.TemporaryDirectory() as folder, GitServer(Path(folder) / "git") as server:
        repo = GitRepo(Path(folder) / "git")
        for version in range(_VERSIONS):
            large = random.Random(version).randbytes(_BYTES)
            repo.commit({**_MANIFESTS, "app/version.yaml": f"v: {version}", "image.bin": large}, push=False)
        git(repo.work, "push", "-q", "origin", "HEAD:main")
        source = GitSource(repo_url=server.url("origin.git"), path="app")
        for name, setting in (("with all files", "false"), ("without large files", "true")):
            git(repo.origin, "config", "uploadpack.allowFilter", setting)
            seconds, size = measure(Path(folder) / setting, source)
            print(f"first fetch {name:<20} {seconds:6.2f} s {size / 1e6:8.1f} MB")


def measure(folder: Path, source: GitSource) -> tuple[float, int]:
    """Return the seconds until a file can be read, and the bytes of the mirror."""
    repositories, started = Repositories(folder, Transport(("http",))), time.perf_counter()
    commit = repositories.resolve(source, Credentials())
    repositories.snapshot(source, Credentials(), commit).tree.read("app/version.yaml")
    seconds = time.perf_counter() - started
    repositories.close()
    return seconds, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
