"""Check that the render steps that compare many entries grow linearly: time N entries, then 4 N."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gitsync.render.build import build
from gitsync.render.patch.merge_keys import BUILT_IN
from gitsync.render.patch.strategic_merge import merge
from tests.render.kustomize_cases import MemoryTree

_POD = """apiVersion: v1
kind: Pod
metadata: {{name: c, namespace: {space}}}
spec:
  containers: [{{name: c, image: c:1, envFrom: [{{configMapRef: {{name: c}}}}]}}]
"""
_CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: {space}}}\n"


def references(count: int) -> None:
    """Build pods that each refer to the ConfigMap of the same name in their own namespace."""
    texts = [text.format(space=f"n{number}") for number in range(count) for text in (_CONFIG, _POD)]
    files = {"kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n", "r.yaml": "---\n".join(texts)}
    build(MemoryTree({path: text.encode() for path, text in files.items()}), "")


def environment(count: int) -> None:
    """Merge a list of environment variables into an equal one."""

    def manifest() -> dict[str, Any]:
        env = [{"name": f"V{number}", "value": "x"} for number in range(count)]
        spec = {"template": {"spec": {"containers": [{"name": "a", "env": env}]}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}

    merge(manifest(), manifest(), BUILT_IN)


def main() -> None:
    """Print the times of both steps and their growth; 4 is linear, 16 quadratic."""
    for name, act, count in (("name references", references, 200), ("strategic merge of a list", environment, 1500)):
        small, large = seconds(act, count), seconds(act, 4 * count)
        print(f"{name}: {count} in {small:.2f} s, {4 * count} in {large:.2f} s, growth {large / small:.1f}")


def seconds(act: Callable[[int], None], count: int) -> float:
    """Return the seconds that one run takes."""
    began = time.perf_counter()
    act(count)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
