"""Compare the YAML reader and writer with PyYAML's C loader and dumper on 2,000 Deployments, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import yaml

from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write_all

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{0}
  namespace: shop
  labels:
    app.kubernetes.io/name: web-{0}
    app.kubernetes.io/part-of: shop
  annotations:
    example.com/description: "A web server, number {0}"
spec:
  replicas: 3
  selector:
    matchLabels:
      app.kubernetes.io/name: web-{0}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: web-{0}
    spec:
      containers:
      - name: web
        image: registry.example.com/shop/web:1.{0}.0
        args: ["--port", "8080", "--verbose"]
        ports:
        - containerPort: 8080
          name: http
        env:
        - name: LOG_LEVEL
          value: info
        resources:
          requests: {{cpu: 100m, memory: 128Mi}}
          limits:
            cpu: "1"
            memory: 256Mi
        livenessProbe:
          httpGet:
            path: /healthz
            port: http
          initialDelaySeconds: 10
"""


def best(run: Callable[[], Any], times: int = 3) -> float:
    """Return the seconds of the fastest of some runs."""
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return min(durations)


def main() -> None:
    text = "---\n".join(DEPLOYMENT.format(index) for index in range(2000))
    documents = read_all(text)
    rows = (
        ("read", lambda: read_all(text), lambda: list(yaml.load_all(text, yaml.CSafeLoader))),
        ("write", lambda: write_all(documents), lambda: yaml.dump_all(documents, Dumper=yaml.CSafeDumper)),
    )
    for name, ours, theirs in rows:
        our_time, their_time = best(ours), best(theirs)
        ratio = their_time / our_time
        print(f"yaml {name}: 2,000 Deployments in {our_time:.3f} s, PyYAML {their_time:.3f} s, ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
