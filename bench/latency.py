"""Measure a running controller on a sandbox: seconds from push to live, and from a manual edit to its correction."""

from __future__ import annotations

import hashlib
import hmac
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from gitsync.sandbox.http.transport.tls import make_certificate
from gitsync.sandbox.server import Sandbox
from gitsync.server.app import create_app
from tests.asgi_server import Served, serve
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.git_http_server import GitServer
from tests.waiting import until

_RUNS = 5
_OBJECT = "/apis/apps/v1/namespaces/shop/deployments/web"
_SECRET = "a secret"


def main() -> None:
    """Print the median and the maximum of each latency."""
    certificate = make_certificate()
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox() as sandbox,
        GitServer(Path(folder) / "git", certificate) as git,
    ):
        authority = Path(folder) / "ca.crt"
        authority.write_text(certificate.authority)
        world = World(Path(folder), sandbox)
        try:
            world.namespace("shop")
            world.repo.commit("first", {"shop/web.yaml": deployment("web", replicas=1)})
            measure(world, git.url("origin.git"), authority)
        finally:
            world.close()


def measure(world: World, url: str, authority: Path) -> None:
    """Print the latencies of an Application of a repository over HTTPS."""
    world.application(source={"repoURL": url})
    engine = world.start(git_ca=authority)
    until(lambda: replicas(world) == 1, 30)
    print(f"push to live, polled each second:   {figures(lambda run: push(world, 10 + run))}")
    print(f"edit to correction:                 {figures(lambda _: edit(world))}")
    world.application(source={"repoURL": url}, sync={"interval": "1h"})
    with serve(create_app(engine, webhook_secret=_SECRET)) as dashboard:
        by_webhook = figures(lambda run: push(world, 20 + run, lambda: notify(dashboard, url)))
        print(f"push to live, by webhook:           {by_webhook}")


def notify(dashboard: Served, url: str) -> None:
    """Send the push event of a Git server."""
    body = orjson.dumps({"repository": {"clone_url": url}})
    digest = hmac.new(_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push"}
    answer = dashboard.ask("/webhook/github", method="POST", body=body, headers=headers)
    assert orjson.loads(answer.text)["matched"] == 1, answer


def replicas(world: World) -> int | None:
    found = world.get("Deployment", "web", api="apps/v1")
    return found["spec"]["replicas"] if found else None


def push(world: World, wanted: int, notify: Callable[[], None] = lambda: None) -> float:
    """Push a commit, and return the seconds until the cluster has it."""
    world.repo.commit(f"{wanted} replicas", {"shop/web.yaml": deployment("web", replicas=wanted)})
    began = time.perf_counter()
    notify()
    until(lambda: replicas(world) == wanted, 30)
    return time.perf_counter() - began


def edit(world: World) -> float:
    """Change a field by hand, and return the seconds until it is corrected."""
    found, declared = world.get("Deployment", "web", api="apps/v1") or {}, replicas(world)
    metadata = {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}
    body = {**found, "metadata": metadata, "spec": {**found["spec"], "replicas": 5}}
    began = time.perf_counter()
    world.client.send("PUT", _OBJECT, body, {"fieldManager": "kubectl-edit"})
    until(lambda: replicas(world) == declared, 30)
    return time.perf_counter() - began


def figures(act: Callable[[int], float]) -> str:
    """Return the median and the maximum of the seconds that an act takes."""
    times = [act(run) for run in range(_RUNS)]
    return f"median {statistics.median(times):.2f} s, maximum {max(times):.2f} s"


if __name__ == "__main__":
    main()
