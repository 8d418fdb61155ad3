"""Objects that the tests of the cluster adapter write."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest


def config_map(**data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": data}
