"""What operators met in the life of an installation, each with the rights that the manifests install."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.crds import application_crd, definitions
from gitsync.errors import Rejected
from gitsync.objects.keys import FIELD_MANAGER, VERSION_ANNOTATION
from gitsync.objects.manifest import Manifest, metadata_of
from tests.contract.installed import DEPLOYER, controller, install, kubeconfig_of
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import APPLICATION, PATCHES, Stage, eventually
from tests.flow.tcp_proxy import Proxy
from tests.http_service import serve_http
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLICATIONS = 5


def ready_message(stage: Stage, name: str = "app") -> str:
    """Return the message of the condition Ready of an Application."""
    conditions = stage.status(name).get("conditions") or []
    return next((str(item["message"]) for item in conditions if item["type"] == "Ready"), "")


# --- rights of the component agents ---


@pytest.mark.own_rights
def test_the_component_agents_gives_applications_no_right(stage: Stage) -> None:
    """An Application without a ServiceAccount once wrote by the rights that the controller has for Agents."""
    install(stage, "agents")
    manifest = deployment("escalated", replicas=1)
    stage.commit({"web.yaml": {**manifest, "metadata": {**manifest["metadata"], "namespace": stage.system}}})
    with controller(stage):
        stage.application(destination={"namespace": stage.system, "allowClusterScoped": False})
        eventually(stage, lambda: "serviceAccountName" in str(stage.status().get("conditions")))
    assert stage.get("Deployment", "escalated", namespace=stage.system, api="apps/v1") is None


# --- an older version after a newer one ---


def older(definition: Manifest, version: str) -> Manifest:
    """Return a definition as an older version has it: without ``preserveResourcesOnDeletion``."""
    older_definition: Manifest = copy.deepcopy(definition)
    annotations = {VERSION_ANNOTATION: version} if version else {}
    metadata_of(older_definition)["annotations"] = annotations
    for entry in older_definition["spec"]["versions"]:
        spec = entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["description"] = "of an older version"
        spec["properties"].get("sync", {"properties": {}})["properties"].pop("preserveResourcesOnDeletion", None)
    return older_definition


def refusal(stage: Stage, definition: Manifest) -> str:
    """Return why the API server refuses a definition, empty where it would take it; nothing is stored."""
    path = f"{DEFINITIONS}/{metadata_of(definition)['name']}"
    query = {"fieldManager": FIELD_MANAGER, "force": "true", "dryRun": "All"}
    try:
        stage.raw("PATCH", path, definition, content_type=PATCHES["apply"], query=query)
    except Rejected as error:
        return f"{error.code} {error}"
    return ""


def test_manifests_of_an_older_version_do_not_replace_definitions(stage: Stage) -> None:
    """The API server would drop the values of fields that the older ones lack, and what they protect is lost later."""
    install(stage)
    for definition in definitions():
        for version in ("", "0.4.0"):
            reason: str = until(lambda d=definition, v=version: refusal(stage, older(d, v)))  # type: ignore[misc]
            assert reason.startswith("403 "), "the code after which a controller continues"
            assert f"is of gitsync {version or 'before 0.5.0'}, and would drop fields" in reason
        for version in ("0.5.0.dev7", "0.10.0", "1.0.0"):
            assert refusal(stage, older(definition, version)) == "", version
    with controller(stage):
        stage.application("keep", sync={"preserveResourcesOnDeletion": True})
        # as a controller of before 0.5.0 does at its start
        with pytest.raises(Rejected):
            stage.cluster.apply(older(application_crd(), ""), manager=FIELD_MANAGER)
        eventually(stage, lambda: stage.status("keep").get("phase"))
    live = stage.live("Application", "keep", namespace=stage.system, api=APPLICATION)
    assert live["spec"]["sync"]["preserveResourcesOnDeletion"] is True


# --- Applications that meet ---


def test_a_broken_application_holds_no_prune_of_another(stage: Stage) -> None:
    install(stage)
    first = stage.commit({"a.yaml": config_map("a", x="1"), "b.yaml": config_map("b", x="1")})
    stage.application("broken", source={"repoURL": "https://git.invalid/none.git"}, **DEPLOYER)
    stage.application(**DEPLOYER)
    with controller(stage):
        stage.synced(first)
        eventually(stage, lambda: "git.invalid" in ready_message(stage, "broken"))
    second = stage.commit({"a.yaml": None})
    with controller(stage):  # after a start, what the broken one declares is not known
        stage.synced(second)
    assert stage.get("ConfigMap", "a") is None
    assert stage.live("ConfigMap", "b")


def test_applications_created_together_share_no_object(stage: Stage) -> None:
    """The oldest by creation, then by name, writes; the others name it and write nothing."""
    install(stage)
    names = ("fc", "fb", "fa")
    for name in names:
        stage.commit({f"{name}/web.yaml": deployment("shared", replicas=1, image=f"{name}:1")})
    with controller(stage):
        for name in names:
            stage.application(name, source={"path": f"app/{name}"}, **DEPLOYER)

        def created(name: str) -> tuple[str, str]:
            live = stage.live("Application", name, namespace=stage.system, api=APPLICATION)
            return live["metadata"]["creationTimestamp"], name

        oldest = min(names, key=created)
        others = [name for name in names if name != oldest]
        eventually(stage, lambda: all(f"{stage.system}/{oldest}" in ready_message(stage, name) for name in others))
        eventually(stage, lambda: stage.status(oldest).get("sync") == "Synced")
    live = stage.live("Deployment", "shared", api="apps/v1")
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == f"{oldest}:1"
    # each change of the Pods would be a rollout
    assert live["metadata"]["generation"] == 1


# --- messages of an outage ---


@contextmanager
def inbox() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield a URL of Apprise, and the messages that it gets."""
    messages: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serve_http(Handler) as port:
        yield f"json://127.0.0.1:{port}/", messages


@contextmanager
def line_to_api(stage: Stage) -> Iterator[tuple[Proxy, Path]]:
    """Yield a line to the API server that can be cut, and the kubeconfig of the controller's account through it."""
    kubeconfig = kubeconfig_of(stage, "gitsync")
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].rpartition(":")
    with Proxy(int(port)) as line:
        cluster["server"] = f"{host}:{line.port}"
        kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        yield line, kubeconfig


def test_an_outage_of_the_api_server_is_not_one_of_git(stage: Stage) -> None:
    """Each Application once reported that Git cannot be read, which was never away."""
    install(stage)
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"username": "u", "password": "p"}}
    stage.apply({**secret, "metadata": {"name": "git", "namespace": stage.system}})
    names = [f"app{number}" for number in range(APPLICATIONS)]
    commit = stage.commit({f"{name}/a.yaml": config_map(name, x="1") for name in names})
    for name in names:
        source = {"path": f"app/{name}", "credentials": {"secretRef": {"name": "git"}}}
        stage.application(name, source=source, **DEPLOYER)
    rules = stage.folder / "notifications.yaml"
    with inbox() as (url, messages), line_to_api(stage) as (line, kubeconfig):
        rules.write_text(f"- urls: ['{url}']\n  interval: 2\n  settle: 2\n")
        with controller(stage, kubeconfig, GITSYNC_NOTIFICATIONS=rules):
            for name in names:
                stage.synced(commit, name)
            server = f"https://127.0.0.1:{line.port} "
            line.down(True)
            until(lambda: messages, describe=lambda: "no message of the outage")
            line.down(False)
            until(lambda: any(message["title"].endswith("Recovered") for message in messages))
    failures = [message for message in messages if not message["title"].endswith("Recovered")]
    # how many messages they are depends on when each was seen: tests of the notifier decide that by a clock of theirs
    assert {message["title"].rpartition(": ")[2] for message in failures} == {"Unknown"}
    for message in failures:
        assert server in message["message"], "the system that did not answer"
        assert "Git" not in message["message"]
    assert {stage.live("ConfigMap", name)["data"]["x"] for name in names} == {"1"}
