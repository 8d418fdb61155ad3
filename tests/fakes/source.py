"""A Git repository in memory: commits of manifests, and a server that may be away."""

from __future__ import annotations

import yaml

from gitsync.errors import GitsyncError
from gitsync.objects.application import GitSource
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.signers import Trust
from gitsync.objects.tree import Tree
from gitsync.ports import Credentials, Snapshot
from tests.render.kustomize_cases import MemoryTree

GIT_DIR = "/mirror"


class FakeSource:
    """
    One branch; ``error`` is raised by the server, ``check_error`` for a URL that may not be used.

    ``requests`` has the verb of each request to the server.
    """

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        self.head = ""
        self.rewritten: set[str] = set()
        """Commits that the branch does not contain any more."""
        self.error: GitsyncError | None = None
        self.check_error: GitsyncError | None = None
        self.requests: list[str] = []

    def commit(self, id: str, *manifests: Manifest, **files: str) -> None:
        """Make a commit with exactly these manifests, a file each in ``shop``, and these other files."""
        texts = {
            f"shop/{manifest['metadata']['name']}.yaml": yaml.dump(manifest, Dumper=yaml.CSafeDumper)
            for manifest in manifests
        }
        self.commits[id] = {name: text.encode() for name, text in {**texts, **files}.items()}
        self.head = id

    def check(self, source: GitSource) -> None:
        if self.check_error is not None:
            raise self.check_error

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        self._request("resolve")
        return self.head

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        self._request("fetch")

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> Snapshot:
        # from the mirror, which answers also while the server is away
        return Snapshot(Commit(commit, "Ada", message=f"commit {commit}"), self._tree(commit), GIT_DIR)

    def changed_paths(self, source: GitSource, earlier: str, later: str) -> frozenset[str] | None:
        if earlier not in self.commits:
            return None
        old = self.commits[earlier]
        new = self.commits[later]
        return frozenset(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))

    def is_forward(self, source: GitSource, earlier: str, later: str) -> bool:
        return earlier not in self.rewritten

    def authors(self, source: GitSource, earlier: str, later: str) -> frozenset[str]:
        return frozenset({"Ada"})

    def signing_users(self, source: GitSource, earlier: str, later: str, trust: Trust) -> frozenset[str]:
        return frozenset()

    def _request(self, verb: str) -> None:
        self.requests.append(verb)
        if self.error is not None:
            raise self.error

    def _tree(self, commit: str) -> Tree:
        return MemoryTree(self.commits[commit])
