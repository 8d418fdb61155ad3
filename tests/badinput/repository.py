"""Turn a bad-input case into what it says: files, a repository, an application."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.git_repository import ENV, git

CANARIES = ("CANARY-7f3a9c", "Q0FOQVJZLTdmM2E5Yw")
GOOD = {
    "app/kustomization.yaml": (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- cm.yaml\n"
    ),
    "app/cm.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: good\n  namespace: team-a\n{annotations}data:\n  k: v\n"
    ),
}


@dataclass(frozen=True, slots=True)
class Places:
    """The values of the placeholders of a case."""

    repo: str
    outside: Path
    marker: Path
    canary_port: int

    def fill(self, value: Any) -> Any:
        """Return a value with its placeholders replaced, at every depth."""
        if isinstance(value, str):
            up = "../" * 20 + str(self.outside).lstrip("/")
            for name, text in (
                ("$UP_OUTSIDE", up),
                ("$OUTSIDE", str(self.outside)),
                ("$MARKER", str(self.marker)),
                ("$CANARY_PORT", str(self.canary_port)),
                ("$REPO", self.repo),
            ):
                value = value.replace(name, text)
            return value
        if isinstance(value, dict):
            return {key: self.fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        return value


@dataclass(slots=True)
class Entries:
    """The files of one commit as git modes and bytes."""

    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def add(self, case: Mapping[str, Any]) -> Entries:
        """Add the files, links and gitlinks that a case, a variant or a step names."""
        for path, content in (case.get("files") or {}).items():
            for name, data in _expanded(path, content):
                self.files[name] = ("100644", data)
        for path, encoded in (case.get("files_base64") or {}).items():
            self.files[path] = ("100644", base64.b64decode(encoded))
        for path, target in (case.get("symlinks") or {}).items():
            self.files[path] = ("120000", target.encode())
        for path, commit in (case.get("gitlinks") or {}).items():
            self.files[path] = ("160000", commit.encode())
        for folder in case.get("delete") or ():
            self.files = {path: item for path, item in self.files.items() if not path.startswith(f"{folder}/")}
        return self


def _expanded(path: str, content: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(content, str):
        yield path, content.encode()
    elif "count" in content:
        for index in range(content["count"]):
            yield path.replace("{i}", str(index)), content["content"].replace("{i}", str(index)).encode()
    else:
        text = content.get("prefix", "") + content["repeat"] * content["times"] + content.get("suffix", "")
        yield path, text.encode()


class BareRepo:
    """A bare repository that takes commits whole, by fast-import, so that any mode and name can be in them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        git(path.parent, "init", "-q", "--bare", "-b", "main", str(path))
        self._commits = 0

    @property
    def url(self) -> str:
        """The URL to follow."""
        return f"file://{self.path}"

    def commit(self, entries: Entries, message: str = "Change", author: str = "Ada <ada@example.test>") -> str:
        """Make exactly these files the content of main, and return the commit's id."""
        self._commits += 1
        stamp = f"{1_800_000_000 + self._commits} +0000"
        parts = [b"commit refs/heads/main\n"]
        parts += [f"{role} {author} {stamp}\n".encode() for role in ("author", "committer")]
        parts.append(b"data %d\n%b\n" % (len(message.encode()), message.encode()))
        if self._commits > 1:
            parts.append(b"from refs/heads/main^0\n")
        parts.append(b"deleteall\n")
        for path, (mode, data) in entries.files.items():
            if mode == "160000":
                parts.append(b"M 160000 %b %b\n" % (data, _quoted(path)))
            else:
                parts.append(b"M %b inline %b\ndata %d\n%b\n" % (mode.encode(), _quoted(path), len(data), data))
        subprocess.run(
            ["git", "fast-import", "--quiet"], cwd=self.path, env=ENV, input=b"".join(parts), check=True,
            capture_output=True,
        )  # fmt: skip
        return git(self.path, "rev-parse", "main")

    def undo(self) -> None:
        """Take the newest commit off main, as a forced push does."""
        git(self.path, "update-ref", "refs/heads/main", "main^")

    def rename_author(self, name: str) -> str:
        """Put a commit by an author of this name, whatever its characters, in the place of the newest one."""
        raw = git(self.path, "cat-file", "commit", "main").replace("author Ada <", f"author {name} <", 1)
        return self._replace(f"{raw}\n")

    def branch(self, name: str) -> None:
        """Make a branch of this name at the newest commit, where git allows the name."""
        arguments = ("git", "update-ref", f"refs/heads/{name}", "main")
        subprocess.run(arguments, cwd=self.path, env=ENV, capture_output=True, check=False)

    def _replace(self, raw: str) -> str:
        commit = git(self.path, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw.encode())
        git(self.path, "update-ref", "refs/heads/main", commit)
        return commit


def _quoted(path: str) -> bytes:
    return b'"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode() + b'"'


def application(case: Mapping[str, Any], defaults: Mapping[str, Any], name: str, url: str) -> dict[str, Any]:
    """Return the Application of a case: the defaults with what it overrides, in our spelling."""
    fields = {**defaults, "repoURL": url, **(case.get("app") or {})}
    sync: dict[str, Any] = {"prune": fields["prune"]}
    sync["interval"] = fields["interval"] if "interval" in (case.get("app") or {}) else "1s"
    destination = {"namespace": fields["namespace"], "allowClusterScoped": False}
    if "serviceAccountName" in fields:
        destination["serviceAccountName"] = fields["serviceAccountName"]
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "gitsync"},
        "spec": {
            "source": {
                "repoURL": fields["repoURL"],
                "revision": fields["targetRevision"],
                "path": fields["path"],
            },
            "destination": destination,
            "sync": sync,
        },
    }
