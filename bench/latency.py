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
from gitsync.sync.polling.git_watcher import PUSH_DEBOUNCE
from tests.asgi_server import Served, serve
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.git_http_server import GitServer
from tests.waiting import until

_RUNS = 5
_OBJECTS = "/apis/apps/v1/namespaces/shop/deployments"
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
            edited = {f"shop/{name}.yaml": deployment(name, replicas=1) for name in map(edited_name, range(_RUNS))}
            world.repo.commit("first", {"shop/web.yaml": deployment("web", replicas=1), **edited})
            measure(world, git.url("origin.git"), authority)
        finally:
            world.close()


def measure(world: World, url: str, authority: Path) -> None:
    """Print the latencies of an Application of a repository over HTTPS."""
    world.application(source={"repoURL": url})
    engine = world.start(git_ca=authority)
    until(lambda: replicas(world) == 1, 30)
    print(f"push to live, polled each second:   {figures(lambda run: push(world, 10 + run))}")
    print(f"edit to correction:                 {figures(lambda run: edit(world, edited_name(run)))}")
    world.application(source={"repoURL": url}, sync={"interval": "1h"})
    with serve(create_app(engine, webhook_secret=_SECRET)) as dashboard:
        by_webhook = figures(lambda run: push(world, 20 + run, lambda: notify(dashboard, url), pause=PUSH_DEBOUNCE))
        print(f"push to live, by webhook:           {by_webhook}")


def notify(dashboard: Served, url: str) -> None:
    """Send the push event of a Git server."""
    body = orjson.dumps({"repository": {"clone_url": url}})
    digest = hmac.new(_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push"}
    answer = dashboard.ask("/webhook/github", method="POST", body=body, headers=headers)
    assert orjson.loads(answer.text)["matched"] == 1, answer


def edited_name(run: int) -> str:
    """Return the name of the object that a run edits: repeated edits of one field are corrected with growing delays."""
    return f"edited-{run}"


def replicas(world: World, name: str = "web") -> int | None:
    found = world.get("Deployment", name, api="apps/v1")
    return found["spec"]["replicas"] if found else None


def push(world: World, wanted: int, notify: Callable[[], None] = lambda: None, pause: float = 0.0) -> float:
    """Push a commit after a pause, and return the seconds until the cluster has it."""
    time.sleep(pause)
    world.repo.commit(f"{wanted} replicas", {"shop/web.yaml": deployment("web", replicas=wanted)})
    began = time.perf_counter()
    notify()
    until(lambda: replicas(world) == wanted, 30)
    return time.perf_counter() - began


def edit(world: World, name: str) -> float:
    """Change a field by hand, and return the seconds until it is corrected."""
    found, declared = world.get("Deployment", name, api="apps/v1") or {}, replicas(world, name)
    metadata = {key: value for key, value in found["metadata"].items() if key != "resourceVersion"}
    body = {**found, "metadata": metadata, "spec": {**found["spec"], "replicas": 5}}
    began = time.perf_counter()
    world.client.send("PUT", f"{_OBJECTS}/{name}", body, {"fieldManager": "kubectl-edit"})
    until(lambda: replicas(world, name) == declared, 30)
    return time.perf_counter() - began


def figures(act: Callable[[int], float]) -> str:
    """Return the median and the maximum of the seconds that an act takes."""
    times = [act(run) for run in range(_RUNS)]
    return f"median {statistics.median(times):.2f} s, maximum {max(times):.2f} s"


if __name__ == "__main__":
    main()
