"""A chart of a registry, its values from Git and an overlay on top: synced, upgraded, reverted and previewed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitsync.preview.report import PreviewReport
from tests.contract.manifests import config_map
from tests.contract.stage import Stage, eventually
from tests.fakes.code_host import HostServer
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.registry import docker_registry, need, push_chart

TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:{{ .Chart.Version }}"}]}
"""
PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {priorityClassName: system-node-critical}}}
"""


@dataclass
class Place:
    """A stage with a registry, and a repository ``team/shop`` at a Git host with pull requests."""

    stage: Stage
    registry: str
    repo: GitRepo
    host: HostServer

    def push(self, version: str) -> None:
        push_chart(self.stage.folder, self.registry, version, {"values.yaml": "", "templates/web.yaml": TEMPLATE})

    def source(self, **members: Any) -> dict[str, Any]:
        """Return the repository as a source."""
        return {"repoURL": self.repo.url, "credentials": {"secretRef": {"name": "git"}}, **members}

    def start(self, **source: Any) -> None:
        """Declare the Application and start the controller."""
        stage = self.stage
        stage.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "git", "namespace": stage.system},
                "stringData": {"username": "bot", "password": "TOKEN"},
            }
        )
        stage.application(pullRequests={"host": "Gitea"}, **source)
        git_host = self.repo.url.split("/")[2]
        hosts = {"git_http_hosts": f"{self.registry},{git_host}", "git_http_sign_in": git_host}
        stage.start(remotes=(f"oci://{self.registry}/charts/*",), **hosts)

    def propose(self, number: int, path: str, text: str) -> None:
        """Open a pull request that writes a file."""
        work = self.repo.work
        git(work, "checkout", "-q", "-b", f"change/{number}")
        head = self.repo.commit({path: text}, f"Change {number}", push=False)
        git(work, "push", "-q", "origin", f"{head}:refs/pull/{number}/head")
        git(work, "checkout", "-q", "main")
        self.host.add(number, head)

    def previewed(self) -> PreviewReport:
        """Wait for the preview of the pull request, and return it."""
        engine = self.stage.engine
        assert engine is not None
        views = eventually(self.stage, engine.pull_requests.proposals)
        assert views[0].problem == ""
        report = views[0].report
        assert isinstance(report, PreviewReport)
        return report

    def is_live(self, version: str, replicas: int) -> bool:
        """Whether exactly this is applied, and in sync."""
        live = self.stage.get("Deployment", "web", api="apps/v1")
        if live is None or self.stage.status().get("sync") != "Synced":
            return False
        image = live["spec"]["template"]["spec"]["containers"][0]["image"]
        return (image, live["spec"]["replicas"]) == (f"web:{version}", replicas)


@pytest.fixture
def place(stage: Stage, tmp_path: Path) -> Iterator[Place]:
    need("helm", "docker-registry")
    root = tmp_path / "team"
    host = HostServer()

    def api(path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        host.requests.append((authorization, path, body))
        code, answer = host.answer("POST" if body else "GET", path, json.loads(body) if body else None)
        return code, json.dumps(answer).encode()

    with docker_registry(tmp_path / "registry") as registry, GitServer(tmp_path) as server:
        server.api = api
        host.base = server.url("").rstrip("/")
        repo = GitRepo(root / "shop", server.url("team/shop.git"))
        (root / "shop.git").symlink_to(repo.origin)
        yield Place(stage, registry, repo, host)
        stage.stop()


def test_a_chart_with_values_and_objects_of_git(place: Place) -> None:
    stage = place.stage
    place.push("1.0.0")
    overlay = {
        "base/settings.yaml": json.dumps(config_map("settings", tier="base")),
        "base/kustomization.yaml": "resources: [settings.yaml]\n",
        "prod/kustomization.yaml": "resources: [../base]\npatches:\n- path: tier.yaml\n",
        "prod/tier.yaml": json.dumps(config_map("settings", tier="prod")),
    }
    place.repo.commit({"values/prod.yaml": "replicas: 2\n", **overlay})
    chart = {"name": "web", "repoURL": f"oci://{place.registry}/charts", "chart": "web", "revision": ">=1 <2"}
    place.propose(1, "values/prod.yaml", "replicas: 5\n")
    sources = [
        {**chart, "helm": {"valueFiles": ["$values/values/prod.yaml"]}},
        place.source(name="values"),
        place.source(name="overlay", path="prod"),
    ]
    place.start(sources=sources)
    eventually(stage, lambda: place.is_live("1.0.0", 2))
    assert stage.live("ConfigMap", "settings")["data"] == {"tier": "prod"}
    first = {part["name"]: part["commit"] for part in stage.status()["revision"]["sources"]}
    assert set(first) == {"web", "values", "overlay"}

    (change,) = place.previewed().changes
    assert change.applications == (f"{stage.system}/app",)
    (step,) = change.steps
    assert step.object.endswith("/web")
    assert [(field.path, field.before, field.after) for field in step.fields] == [(".spec.replicas", 2, 5)]

    place.push("1.1.0")
    eventually(stage, lambda: place.is_live("1.1.0", 2))
    place.repo.commit({"values/prod.yaml": "replicas: 3\n"})
    eventually(stage, lambda: place.is_live("1.1.0", 3))
    git(place.repo.work, "revert", "--no-edit", "HEAD")
    git(place.repo.work, "push", "-q", "origin", "main")
    eventually(stage, lambda: place.is_live("1.1.0", 2))
    assert stage.plan_writes() == []


def test_an_overlay_on_a_chart(place: Place) -> None:
    stage = place.stage
    for version in ("1.0.0", "1.1.0"):
        place.push(version)

    def overlay(version: str) -> str:
        chart = f"{{name: web, repo: 'oci://{place.registry}/charts', version: '{version}', releaseName: web}}"
        return f"helmCharts:\n- {chart[:-1]}, valuesFile: values.yaml}}\npatches:\n- path: patch.yaml\n"

    files = {"prod/values.yaml": "replicas: 2\n", "prod/patch.yaml": PATCH}
    place.repo.commit({"prod/kustomization.yaml": overlay("1.0.0"), **files})
    place.propose(1, "prod/kustomization.yaml", overlay("1.1.0"))
    place.start(source=place.source(path="prod"))
    eventually(stage, lambda: place.is_live("1.0.0", 2))
    pod = stage.live("Deployment", "web", api="apps/v1")["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-node-critical"

    # the preview reads the chart that the pull request names, by the rights of the Application
    (change,) = place.previewed().changes
    assert (change.problem, change.base_problem) == ("", "")
    (step,) = change.steps
    assert step.object.endswith("/web")
    assert [(field.before, field.after) for field in step.fields] == [("web:1.0.0", "web:1.1.0")]

    place.repo.commit({"prod/kustomization.yaml": overlay("1.1.0")})
    eventually(stage, lambda: place.is_live("1.1.0", 2))
    git(place.repo.work, "revert", "--no-edit", "HEAD")
    git(place.repo.work, "push", "-q", "origin", "main")
    eventually(stage, lambda: place.is_live("1.0.0", 2))
    assert stage.plan_writes() == []
