"""
Compare rendering with ``kubectl kustomize`` on the same tree: ``python -m bench.render [COUNT ...]``.

Both run as a program (ours is ``python -m gitsync build``), start-up included. A resource is a third of Deployments,
ConfigMaps and Services that refer to each other, with a prefix, a namespace, labels and an image. Memory is the peak
of the process. ``bench.rerender`` times the render after one file changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COUNTS = (100, 1000, 5000)
_SHORT = 1000
_SHORT_RUNS = 5
"""How often each of the two runs up to that count, which takes so little that chance would decide."""
_APP = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-{n}
  labels: {{app: app-{n}}}
spec:
  replicas: 2
  selector:
    matchLabels: {{app: app-{n}}}
  template:
    metadata:
      labels: {{app: app-{n}}}
    spec:
      containers:
      - name: main
        image: registry.example.com/app:1.0
        envFrom:
        - configMapRef: {{name: config-{n}}}
        ports:
        - {{name: http, containerPort: 8080}}
        resources:
          limits: {{cpu: 500m, memory: 256Mi}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: config-{n}
data:
  LEVEL: info
  NUMBER: "{n}"
---
apiVersion: v1
kind: Service
metadata:
  name: app-{n}
spec:
  selector: {{app: app-{n}}}
  ports:
  - {{name: http, port: 80, targetPort: http}}
"""
_BASE = "resources:\n{files}"
_OVERLAY = """\
namespace: bench
namePrefix: p-
commonLabels: {team: agents}
resources: [../base]
images:
- name: registry.example.com/app
  newTag: "2.0"
"""


@dataclass(frozen=True)
class Run:
    """How long a program took, and its peak memory in megabytes."""

    seconds: float
    megabytes: float
    output: str


def make_tree(root: Path, count: int, apps_per_file: int = 1) -> None:
    """Write a tree of about ``count`` resources."""
    base, overlay = root / "base", root / "over"
    base.mkdir()
    overlay.mkdir()
    names = []
    for first in range(0, count // 3, apps_per_file):
        name = f"app-{first}.yaml"
        apps = [_APP.format(n=n) for n in range(first, first + apps_per_file)]
        (base / name).write_text("---\n".join(apps))
        names.append(f"- {name}\n")
    (base / "kustomization.yaml").write_text(_BASE.format(files="".join(names)))
    (overlay / "kustomization.yaml").write_text(_OVERLAY)


def run(*command: str) -> Run:
    """Run a program to its end; its own peak of memory is what the system says when it ends."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return Run(seconds, usage.ru_maxrss / 1024, output.read())


def best(times: int, *command: str) -> Run:
    """Return the fastest of some runs: what else the machine does only ever adds."""
    return min((run(*command) for _ in range(times)), key=lambda one: one.seconds)


def main(counts: Sequence[int] = COUNTS) -> None:
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            make_tree(root, count)
            times = _SHORT_RUNS if count <= _SHORT else 1
            ours = best(times, sys.executable, "-m", "gitsync", "build", str(root / "over"))
            theirs = best(times, "kubectl", "kustomize", str(root / "over"))
            same = "same output" if ours.output == theirs.output else "DIFFERENT OUTPUT"
            print(
                f"render {count:>5}: {ours.seconds:6.2f} s {ours.megabytes:5.0f} MB, kubectl {theirs.seconds:7.2f} s "
                f"{theirs.megabytes:5.0f} MB, {theirs.seconds / ours.seconds:6.1f} times, {same}"
            )


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or COUNTS)
