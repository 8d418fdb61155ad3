"""The pages of charts, artifacts and several sources: commands are run and manifests applied, block by block."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.cli.output import Exit
from gitsync.objects.application import parse_application
from tests.contract.stage import APPLICATION, Stage
from tests.git_repository import ENV, GitRepo, git
from tests.http_service import serve_http
from tests.registry import docker_registry, helm, need
from tests.waiting import until

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("helm", "artifacts", "sources")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(gitsync [^`]*)`")


def page(name: str) -> str:
    """Return the text of a page."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def application_of(text: str) -> dict[str, Any]:
    """Return the Application of a block, which may be a part of one, with what it leaves out."""
    manifest = yaml.safe_load(textwrap.dedent(text))
    if set(manifest) == {"helm"}:
        web = next(block for language, block in _BLOCK.findall(page("helm")) if "kind: Application" in block)
        manifest = application_of(web) | {}
        manifest["spec"]["source"]["helm"] |= yaml.safe_load(textwrap.dedent(text))["helm"]
    head = {"apiVersion": APPLICATION, "kind": "Application", "metadata": {"name": "web", "namespace": "shop"}}
    return {**head, **manifest}


@pytest.mark.parametrize("name", PAGES)
def test_the_manifests_of_a_page_are_valid(name: str) -> None:
    """Needs none of the programs that the other tests need."""
    for language, text in _BLOCK.findall(page(name)):
        if language == "yaml" and re.search(r"(?m)^ +(sources?|helm):$", text):
            parse_application(application_of(text))


@dataclass
class Reader:
    """Who reads a page from the top: blocks come in its order, with the names of servers that are here."""

    stage: Stage
    name: str
    registry: str
    charts: str
    """The URL of a Helm repository, of which ``folder / "charts"`` has the files."""
    folder: Path
    repos: dict[str, GitRepo] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._blocks = _BLOCK.findall(page(self.name))

    def repo(self, name: str) -> GitRepo:
        """Return a repository of ``git.example.com/shop``."""
        if name not in self.repos:
            self.repos[name] = GitRepo(self.folder / "git" / name)
        return self.repos[name]

    def here(self, text: str) -> str:
        """Return a text of the page with the places of the test."""
        places = {
            **{f"https://git.example.com/shop/{name}.git": repo.url for name, repo in self.repos.items()},
            "https://charts.example.com/stable": self.charts,
            "https://stefanprodan.github.io/podinfo": self.charts,
            "ghcr.io/stefanprodan": f"{self.registry}/stefanprodan",
            "registry.example.com": self.registry,
            "namespace: shop": f"namespace: {self.stage.system}",
            "-n shop": f"-n {self.stage.system}",
            "-n gitsync": f"-n {self.stage.system}",
        }
        for written, local in places.items():
            text = text.replace(written, local)
        return text

    def block(self, language: str) -> str:
        """Return the next block of the page, which has to be of this language."""
        found, text = self._blocks.pop(0)
        assert found == language, text
        return self.here(text)

    def end(self) -> None:
        """Fail unless all blocks were read."""
        assert self._blocks == []

    def run(self, command: str, cwd: Path, expected: int = Exit.OK) -> str:
        """Run a command of the page and return what it printed."""
        tools = {
            **os.environ,
            **ENV,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.stage.kubeconfig),
            "GITSYNC_DATA": str(self.stage.folder / "data"),
            "GITSYNC_ALLOW_FILE_URLS": "true",
            "GITSYNC_GIT_HTTP_HOSTS": f"{self.registry},{self.charts.split('/')[2]}",
            "COSIGN_PASSWORD": "",
        }
        done = subprocess.run(["bash", "-c", command], cwd=cwd, env=tools, capture_output=True, text=True)
        assert done.returncode == expected, (command, done.stdout, done.stderr)
        return done.stdout

    def commands(self, cwd: Path) -> str:
        """Run the next block of commands line by line, and return what the last one printed."""
        return [self.run(line, cwd) for line in self.block("").splitlines()][-1]

    def declare(self, text: str, **spec: Any) -> dict[str, Any]:
        """Apply an Application of the page that polls each second and needs no approval."""
        manifest = yaml.safe_load(self.here(yaml.safe_dump(application_of(text))))
        spec = {**manifest["spec"], "sync": {"interval": "1s"}, "risk": {"approval": "Never"}, **spec}
        if self.stage.account:  # with the rights of the installation, the controller has none to write
            spec["destination"] = {"serviceAccountName": self.stage.account, **spec.get("destination", {})}
        return dict(self.stage.apply({**manifest, "spec": spec}))

    def live(self, kind: str, name: str, api: str = "v1") -> dict[str, Any]:
        return dict(self.stage.get(kind, name, namespace=self.stage.system, api=api) or {})

    def replicas(self, name: str = "web") -> int:
        return int(self.live("Deployment", name, "apps/v1").get("spec", {}).get("replicas", -1))

    def waits(self, condition: Callable[[], Any]) -> None:
        until(condition, describe=lambda: self.stage.status("web"))

    def message(self) -> str:
        return str((self.stage.status("web").get("revision") or {}).get("message"))

    def problems(self) -> str:
        return str(self.stage.status("web").get("conditions"))


@pytest.fixture
def reader(stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Reader]:
    need("helm", "docker-registry", "kubectl")
    charts = tmp_path / "charts"
    charts.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gitsync").write_text(
        f'#!/bin/sh\nPYTHONPATH={DOCS.parent} exec {sys.executable} -m gitsync "$@"\n'
    )
    (tmp_path / "bin" / "gitsync").chmod(0o755)

    class Charts(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(charts))

    with ExitStack() as servers:
        registry = servers.enter_context(docker_registry(tmp_path / "registry"))
        port = servers.enter_context(serve_http(Charts))
        yield Reader(stage, request.param, registry, f"http://127.0.0.1:{port}", tmp_path)
        stage.stop()


def start(reader: Reader) -> None:
    hosts = f"{reader.registry},{reader.charts.split('/')[2]}"
    reader.stage.start(remotes=(f"oci://{reader.registry}/*",), git_http_hosts=hosts)


def publish(reader: Reader, name: str, *versions: str, registry: str = "") -> None:
    """Publish versions of a chart in the Helm repository, or push them to a path of the registry."""
    for version in versions:
        folder = reader.folder / f"{name}-{version}"
        folder.mkdir()
        helm(folder, "create", name)
        helm(folder, "package", name, "--version", version, "--destination", reader.folder / "charts")
        if registry:
            archive = reader.folder / "charts" / f"{name}-{version}.tgz"
            helm(folder, "push", archive, f"oci://{reader.registry}/{registry}", "--plain-http")
    helm(reader.folder, "repo", "index", reader.folder / "charts")


@pytest.mark.parametrize("reader", ["helm"], indirect=True)
def test_the_page_of_charts(reader: Reader) -> None:
    stage = reader.stage
    deploy = reader.repo("deploy")
    clone = deploy.work
    git(clone, "config", "push.default", "current")
    reader._blocks.pop(0)  # the Dockerfile needs a container engine
    reader.commands(clone)
    first = reader.block("yaml")
    reader.declare(first)
    start(reader)
    reader.waits(lambda: reader.replicas() == 3 and stage.status("web").get("sync") == "Synced")
    assert reader.live("Service", "web")["spec"]["ports"][0]["port"] == 8080
    # what is applied by the command is what was applied
    (clone / "web.yaml").write_text(yaml.safe_dump(application_of(first) | {}))
    assert reader.block("") == "kubectl apply -f web.yaml\n"
    manifests = list(yaml.safe_load_all(reader.commands(clone)))
    names = {(item["kind"], item["metadata"]["name"]) for item in manifests}
    names.remove(("Pod", "web-test-connection"))  # a hook that is left out when it is applied
    assert names == {("Deployment", "web"), ("Service", "web"), ("ServiceAccount", "web")}
    assert reader.live("Pod", "web-test-connection") == {}
    assert all(reader.live(kind, name, "apps/v1" if kind == "Deployment" else "v1") for kind, name in names)
    assert next(item for item in manifests if item["kind"] == "Deployment")["spec"]["replicas"] == 2

    reader.commands(clone)
    values = reader.block("yaml")
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    stage.apply({**account, "metadata": {"name": "deployer", "namespace": stage.system}})
    allow(stage, "deployer")
    without = application_of(values)
    without["spec"]["source"]["helm"].pop("values")  # they are over those of ConfigMaps
    reader.declare(yaml.safe_dump(without), destination={"serviceAccountName": "deployer"})
    reader.waits(lambda: "sizes cannot be read" in reader.problems())
    for manifest in yaml.safe_load_all(reader.block("yaml")):
        stage.apply(manifest)
    reader.waits(lambda: reader.replicas() == 4)
    web = reader.live("Deployment", "web", "apps/v1")
    assert web["spec"]["template"]["metadata"]["annotations"]["database"] == "hunter22"
    assert "gitsync.dev/masked-fields" in web["metadata"]["annotations"]

    publish(reader, "podinfo", "6.9.0", "6.9.1", "7.0.0", registry="stefanprodan/charts")
    reader.declare(reader.block("yaml"), destination={})
    reader.waits(lambda: re.match(r"podinfo 6\.9\.1 sha256:\w+", reader.message()))
    reader.waits(lambda: reader.replicas("web-podinfo") == 2)

    # the two kustomizations lie beside the chart
    deploy.commit({"charts.yaml": None} if (clone / "charts.yaml").exists() else {})
    side = '{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true}'
    kustomization = reader.block("yaml").replace("add-sidecar.yaml", "add-sidecar.yaml\n  target: {kind: Deployment}")
    deploy.commit(
        {
            "kustomization.yaml": kustomization,
            "values-prod.yaml": "replicaCount: 2\n",
            "add-sidecar.yaml": f"[{side}]",
        }
    )
    built = list(yaml.safe_load_all(reader.run("gitsync build .", clone)))
    spec = next(item for item in built if item["kind"] == "Deployment")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["hostNetwork"]) == (3, True)

    remote = reader.block("yaml")
    deploy.commit({"kustomization.yaml": remote, "add-sidecar.yaml": None})
    (option,) = re.findall(r"`(gitsync build \. --remote [^`]*)`", page("helm"))
    built = list(yaml.safe_load_all(reader.run(reader.here(option), clone)))
    label = next(item for item in built if item["kind"] == "Deployment")["metadata"]["labels"]["helm.sh/chart"]
    assert label == "podinfo-6.9.1"
    reader.declare(yaml.safe_dump({"spec": {"source": {"repoURL": deploy.url, "path": "."}}}))
    reader.waits(lambda: reader.replicas("podinfo") == 1)
    reader.waits(lambda: stage.status("web")["revision"].get("remotes"))
    reader.end()


def allow(stage: Stage, account: str) -> None:
    """Let an account write what the charts of this module have, and read no Secrets."""
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services", "serviceaccounts", "pods"], "verbs": ["*"]},
    ]
    bind(stage, f"writes-of-{account}", account, rules)
    if stage.account:
        # as the role of the installation does for gitsync-deployer
        names = {"resources": ["serviceaccounts"], "resourceNames": [account]}
        bind(stage, f"acts-as-{account}", "gitsync", [{"apiGroups": [""], "verbs": ["impersonate"], **names}])


def bind(stage: Stage, name: str, account: str, rules: list[dict[str, list[str]]]) -> None:
    """Give an account a Role with these rules."""
    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": name, "namespace": stage.system}
    stage.apply({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": metadata}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": stage.system}]
    role = {"apiGroup": rbac, "kind": "Role", "name": metadata["name"]}
    stage.apply({**binding, "roleRef": role, "subjects": subjects})


@pytest.mark.parametrize("reader", ["artifacts"], indirect=True)
def test_the_page_of_artifacts(reader: Reader) -> None:
    deploy = reader.repo("deploy")
    clone = deploy.work

    def files(version: str) -> str:
        data = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{version: '{version}'}}\n"
        deploy.commit({"deploy/web.yaml": data})
        return data

    def has(version: str) -> bool:
        return bool(reader.live("ConfigMap", "web").get("data") == {"version": version})

    files("1.4.0")
    push = reader.block("").strip()
    first = re.findall(r"@(sha256:\w+)", reader.run(push, clone))[0]
    source = reader.block("yaml")
    reader.declare(source)
    start(reader)
    reader.waits(lambda: has("1.4.0"))
    reader.waits(lambda: reader.message() == f"web 1.4.0 {first}")
    files("1.4.7")
    second = re.findall(r"@(sha256:\w+)", reader.run(push.replace("1.4.0", "1.4.7"), clone))[0]
    reader.waits(lambda: has("1.4.7"))
    # to return to another one, its digest or version
    reader.declare(source.replace("~1.4", first))
    reader.waits(lambda: has("1.4.0"))
    reader.declare(source)
    reader.waits(lambda: has("1.4.7"))

    if shutil.which("cosign") is None:
        pytest.skip("the rest of the page needs cosign on PATH")
    verified = reader.block("yaml")
    generate, sign, secret = reader.block("").splitlines()
    reader.run(generate, clone)
    reader.run(secret, clone)
    reader.declare(verified)
    reader.waits(lambda: "it is not signed" in reader.problems())
    # a registry without TLS, and no public log of signatures
    local = "--allow-http-registry --tlog-upload=false --use-signing-config=false"
    reader.run(f"{sign.replace('sha256:…', second)} {local}", clone)
    reader.waits(lambda: "it is not signed" not in reader.problems())
    reader.waits(lambda: reader.stage.status("web").get("sync") == "Synced")
    reader.end()


@pytest.mark.parametrize("reader", ["sources"], indirect=True)
def test_the_page_of_several_sources(reader: Reader) -> None:
    stage = reader.stage
    publish(reader, "web", "6.9.0", "7.0.0")
    values = reader.repo("values")
    deploy = reader.repo("deploy")
    values.commit({"prod.yaml": "replicaCount: 2\n"})
    extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata: {a: A}\n"
    kustomization = "resources: [extra.yaml]\n"
    deploy.commit({"overlays/prod/extra.yaml": extra, "overlays/prod/kustomization.yaml": kustomization})
    reader.declare(reader.block("yaml"))
    start(reader)

    def is_at(replicas: int, text: str) -> bool:
        live = (reader.replicas(), reader.live("ConfigMap", "extra").get("data"))
        return live == (replicas, {"a": text}) and stage.status("web").get("sync") == "Synced"

    def run(span: str, *options: str, expected: int = Exit.OK, cwd: Path = values.work) -> str:
        assert f"`{span}`" in page("sources"), span
        command = span.replace("NAME", "web").replace("FOLDER", str(cwd))
        return reader.run(" ".join((command, "-n", stage.system, *options)), reader.folder, expected)

    reader.waits(lambda: is_at(2, "A"))
    parts = stage.status("web")["revision"]["sources"]
    assert [part["name"] for part in parts] == ["web", "values", "extra"]
    assert stage.status("web")["history"][0]["sources"] == parts
    first = stage.status("web")["history"][0]["id"]

    # one commit for any source that changes
    values.commit({"prod.yaml": "replicaCount: 3\n"})
    reader.waits(lambda: is_at(3, "A"))
    # before a commit
    (values.work / "prod.yaml").write_text("replicaCount: 5\n")
    assert "replicas" in run("gitsync diff NAME --local FOLDER", expected=Exit.DIFFERENT)
    git(values.work, "checkout", "prod.yaml")

    assert "`gitsync pin NAME 12`" in page("sources")
    reader.run(f"gitsync pin web {first} -n {stage.system}", reader.folder)
    reader.waits(lambda: is_at(2, "A"))
    run("gitsync unpin NAME")
    reader.waits(lambda: is_at(3, "A"))

    deploy.commit({"overlays/prod/extra.yaml": extra.replace("a: A", "a: B")})
    reader.waits(lambda: is_at(3, "B"))
    run("gitsync rollback NAME")  # of the source that changed last
    reader.waits(lambda: is_at(3, "A"))
    reader.run(f"gitsync rollback web --source values -n {stage.system}", reader.folder)
    reader.waits(lambda: is_at(2, "A"))

    # a version of the chart in the range
    publish(reader, "web", "6.9.5")
    reader.waits(lambda: "web-6.9.5" in str(reader.live("Deployment", "web", "apps/v1")["metadata"]["labels"]))

    # an object that two sources have
    git(deploy.work, "pull", "-q", "--rebase", "origin", "main")
    deploy.commit(
        {
            "overlays/prod/extra.yaml": f"{extra}---\n{extra}".replace("name: extra", "name: web", 1)
            .replace("kind: ConfigMap", "kind: ServiceAccount", 1)
            .replace("data: {a: A}\n", "", 1)
        }
    )
    reader.waits(lambda: "the sources web and extra both have it" in reader.problems())
    assert is_at(2, "A") or reader.replicas() == 2
    reader.end()
