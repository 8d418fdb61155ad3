"""Small repositories before and after a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.application import parse_application
from gitsync.preview.compare import JoinedRoot, Preview, Rules, Sides, preview
from gitsync.preview.report import PreviewReport, report_of
from gitsync.preview.roots import Root
from tests.render.kustomize_cases import MemoryTree

Files = Mapping[str, str]


def tree(files: Files) -> MemoryTree:
    """Return the tree of files given as texts."""
    return MemoryTree({path: text.encode() for path, text in files.items()})


def compare(base: Files, result: Files, rules: Rules | None = None, below: tuple[str, ...] = ()) -> Preview:
    """Return the preview of a change of these files."""
    paths = base.keys() | result.keys()
    changed = frozenset(path for path in paths if base.get(path) != result.get(path))
    return preview(Sides(tree(base), tree(result), changed), lambda url: True, rules, below)


def compare_joined(base: Files, result: Files, *sources: dict[str, Any], own: Files | None = None) -> Preview:
    """
    Return the preview of a change for an Application with these sources, whose names the paths begin with.

    ``own`` are the files of the repository, which are those of one source.
    """
    spec = {"sources": [{"repoURL": "https://git.example.com/x", **source} for source in sources]}
    app = parse_application({"metadata": {"name": "shop", "namespace": "default"}, "spec": spec})
    changed = frozenset(path for path in base.keys() | result.keys() if base.get(path) != result.get(path))
    alone = Sides(tree(own or {}), tree(own or {}), frozenset())
    root = JoinedRoot(Root("", app), Sides(tree(base), tree(result), changed))
    return preview(alone, lambda url: True, joined=[root])


def report(base: Files, result: Files, rules: Rules | None = None) -> PreviewReport:
    """Return the report of a change of these files, without authors."""
    return report_of(compare(base, result, rules), "a" * 40, "b" * 40, lambda places: {})


def deployment(name: str = "web", *, replicas: int = 1, image: str = "web:1", cpu: str = "100m") -> str:
    """Return the text of a Deployment."""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: main
        image: {image}
        resources: {{requests: {{cpu: {cpu}, memory: 64Mi}}}}
"""
