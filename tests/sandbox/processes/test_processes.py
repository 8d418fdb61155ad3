"""Pods that run as processes: files, variables, addresses, probes, logs, restarts, the end, and Services."""

from __future__ import annotations

import base64
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes.client
import kubernetes.config
import pytest

from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client
from tests.waiting import until

pytestmark = pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8")

PROGRAM = str(Path(__file__).with_name("container_program.py"))
IMAGES = {"example.com/server": Image((sys.executable, PROGRAM), env={"FROM_IMAGE": "yes"})}
NAMESPACE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def api() -> Iterator[Client]:
    with Sandbox(images=IMAGES) as sandbox:
        yield Client(sandbox)


def pod(name: str, *args: str, spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "example.com/server:1", "args": [name, *args]} | container
    main.setdefault("ports", [{"name": "http", "containerPort": 8080}])
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [main], **(spec or {})}}


def create(api: Client, kind: str, manifest: dict[str, Any]) -> None:
    answer = api.ask("POST", f"{NAMESPACE}/{kind}", manifest)
    assert answer.status == 201, answer.body


def read(api: Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{NAMESPACE}/pods/{name}").json
    return found


def container_of(api: Client, name: str) -> dict[str, Any]:
    statuses = read(api, name).get("status", {}).get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[0]
    return found


def run(api: Client, manifest: dict[str, Any]) -> str:
    """Create a Pod and return its address once it is ready."""
    create(api, "pods", manifest)
    name = manifest["metadata"]["name"]
    until(lambda: container_of(api, name).get("ready"), 20, lambda: read(api, name).get("status"))
    return str(read(api, name)["status"]["podIP"])


def ask(address: str, path: str = "/") -> Any:
    with urllib.request.urlopen(f"http://{address}:8080{path}", timeout=60) as answer:
        return json.load(answer)


TCP = {"tcpSocket": {"port": "http"}, "periodSeconds": 1}


def log(api: Client, name: str, query: str = "") -> str:
    return api.get(f"{NAMESPACE}/pods/{name}/log{query}").body.decode()


def test_a_container_has_its_variables_arguments_and_files(api: Client) -> None:
    create(api, "configmaps", {"metadata": {"name": "settings"}, "data": {"a.txt": "first"}})
    secret = {"metadata": {"name": "key"}, "data": {"token": base64.b64encode(b"hidden").decode()}}
    create(api, "secrets", secret)
    env = [
        {"name": "SETTINGS", "value": "/etc/app/a.txt"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "GREETING", "value": "$(NODE) and $$(NODE)"},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    mounts = {"volumeMounts": [{"name": "files", "mountPath": "/etc/app"}]}
    volumes = {"volumes": [{"name": "files", "configMap": {"name": "settings"}}]}
    limits = {"resources": {"limits": {"memory": "512Mi"}}}
    given = pod("files", "$(TOKEN)", spec=volumes, env=env, readinessProbe=TCP, **mounts, **limits)
    answer = ask(run(api, given))
    assert answer["settings"] == "first"
    assert answer["args"] == ["files", "hidden"]
    seen = {name: answer["env"][name] for name in ("TOKEN", "GREETING", "MEMORY", "FROM_IMAGE", "HOSTNAME")}
    assert seen == {
        "TOKEN": "hidden",
        "GREETING": "node-a and $(NODE)",
        "MEMORY": "512",
        "FROM_IMAGE": "yes",
        "HOSTNAME": "files",
    }
    api.merge(f"{NAMESPACE}/configmaps/settings", {"data": {"a.txt": "second"}})
    assert ask(answer["env"]["POD_IP"])["settings"] == "second"


def test_nothing_of_this_process_reaches_a_container(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_TEST_SECRET", "x")
    assert "GITSYNC_TEST_SECRET" not in ask(run(api, pod("clean", readinessProbe=TCP)))["env"]


def test_pods_listen_on_the_same_port_of_their_own_addresses(api: Client) -> None:
    first, second = (run(api, pod(name, readinessProbe=TCP)) for name in ("one", "two"))
    assert first != second
    assert [ask(address)["args"] for address in (first, second)] == [["one"], ["two"]]


def test_a_container_is_ready_when_its_probe_passes(api: Client) -> None:
    probe = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
    create(api, "pods", pod("probed", readinessProbe=probe))
    until(lambda: "request /ready" in log(api, "probed"), 20)
    assert not container_of(api, "probed")["ready"]
    home = Path(ask(read(api, "probed")["status"]["podIP"])["env"]["HOME"])
    (home / "ready").touch()
    until(lambda: container_of(api, "probed")["ready"], 20)
    (home / "ready").unlink()
    until(lambda: not container_of(api, "probed")["ready"], 20)


def test_a_failing_liveness_probe_restarts_the_container(api: Client) -> None:
    probe = {"exec": {"command": ["test", "-e", "/data/alive"]}, "periodSeconds": 1, "failureThreshold": 1}
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    create(
        api, "pods", pod("alive", spec={"volumes": [{"name": "data", "emptyDir": {}}]}, livenessProbe=probe, **mounts)
    )
    until(lambda: container_of(api, "alive").get("restartCount"), 20)
    ended = container_of(api, "alive")["lastState"]["terminated"]
    assert ended["exitCode"] in (0, 143)  # the signal may come before the program handles it


def test_logs_of_a_run_and_of_the_one_before(api: Client) -> None:
    create(api, "pods", pod("failing", args=["exit", "3"]))
    until(
        lambda: container_of(api, "failing").get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff", 30
    )
    status = container_of(api, "failing")
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["restartCount"] >= 3
    assert log(api, "failing") == log(api, "failing", "?previous=true") == "starts as exit 3\n"


def test_a_followed_log_ends_with_its_container(api: Client) -> None:
    address = run(api, pod("followed", readinessProbe=TCP))
    connection = api.connect()
    api.send(connection, "GET", f"{NAMESPACE}/pods/followed/log?follow=true&tailLines=1")
    answer = connection.getresponse()
    ask(address, "/hello")
    assert api.ask("DELETE", f"{NAMESPACE}/pods/followed").status == 200
    lines = answer.read().decode().splitlines()
    connection.close()
    assert "request /hello" in lines
    assert lines[-1] == "drained"


def test_the_exit_code_decides_the_phase_of_a_pod_that_does_not_restart(api: Client) -> None:
    for name, code, phase in (("good", "0", "Succeeded"), ("bad", "7", "Failed")):
        create(api, "pods", pod(name, args=["exit", code], spec={"restartPolicy": "Never"}))
        until(lambda name=name, phase=phase: read(api, name)["status"].get("phase") == phase, 20)
        assert container_of(api, name)["state"]["terminated"]["exitCode"] == int(code)


def test_a_process_that_ignores_its_signal_is_killed_after_the_grace_period(api: Client) -> None:
    create(api, "pods", pod("stubborn", spec={"terminationGracePeriodSeconds": 1}))
    until(lambda: "starts as" in log(api, "stubborn"), 20)
    api.ask("DELETE", f"{NAMESPACE}/pods/stubborn")
    until(lambda: api.get(f"{NAMESPACE}/pods/stubborn").status == 404, 20)


def test_open_connections_to_the_proxy_end_with_the_sandbox() -> None:
    with Sandbox(images=IMAGES) as sandbox, ExitStack() as closing:
        address = urlsplit(sandbox.proxy_url)
        ends = [
            closing.enter_context(socket.create_connection((address.hostname, address.port), 30)) for _ in range(50)
        ]
        sandbox.stop()
        gc.collect()  # what nothing closed is a warning, which fails the test
        for end in ends:
            with suppress(ConnectionResetError):
                assert end.recv(1) == b""


def test_a_service_is_reached_by_name_through_the_proxy(api: Client) -> None:
    ports = {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "named"}}
    create(api, "services", {"metadata": {"name": "named"}, "spec": ports})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": api.sandbox.proxy_url}))
    with pytest.raises(urllib.error.HTTPError, match="502") as refused:
        opener.open("http://named.default.svc/", timeout=60)
    refused.value.close()
    run(api, pod("named", readinessProbe=TCP))

    def answers() -> bool:
        try:
            with opener.open("http://named.default.svc.cluster.local/x?y=1", timeout=60) as answer:
                return bool(json.load(answer)["path"] == "/x?y=1")
        except urllib.error.HTTPError as error:
            error.close()
            return False

    until(answers, 20)


def test_an_image_that_is_not_listed_and_a_tag_for_failures_stay_simulated(api: Client) -> None:
    create(api, "pods", pod("simulated", image="example.com/other:1"))
    until(lambda: container_of(api, "simulated").get("ready"), 20)
    assert read(api, "simulated")["status"]["podIP"].startswith("10.244.")
    create(api, "pods", pod("crashing", image="example.com/server:crash"))
    until(lambda: container_of(api, "crashing").get("restartCount"), 20)
    assert "the process ends with exit code 1" in log(api, "crashing", "?previous=true")


_SANDBOX = """
import sys
from pathlib import Path
from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.server import Sandbox

with Sandbox(images={"example.com/server": Image((sys.executable, sys.argv[1]))}) as sandbox:
    print(sandbox.url, sandbox.token, flush=True)
    sys.stdin.read()
"""


def test_processes_end_when_the_sandbox_is_killed() -> None:
    command = [sys.executable, "-c", _SANDBOX, PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sandbox:
        assert sandbox.stdout is not None
        url, token = sandbox.stdout.readline().split()
        body = json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("orphan", readinessProbe=TCP)}).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{url}{NAMESPACE}/pods", body, headers), timeout=60).close()

        def address() -> str:
            request = urllib.request.Request(f"{url}{NAMESPACE}/pods/orphan", headers=headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                status = json.load(answer)["status"]
            return status["podIP"] if (status.get("containerStatuses") or [{}])[0].get("ready") else ""

        until(address, 20)
        where = address()
        assert ask(where)["args"] == ["orphan"]
        os.kill(sandbox.pid, signal.SIGKILL)

        def is_gone() -> bool:
            try:
                ask(where)
            except OSError:
                return True
            return False

        until(is_gone, 10)


def test_a_client_signs_in_as_the_pod_and_its_token_is_replaced_before_it_expires(api: Client) -> None:
    spec = {"serviceAccountName": "default"}
    address = run(api, pod("caller", spec=spec, readinessProbe=TCP))
    config = ask(address)["env"]["KUBECONFIG"]

    def who() -> str:
        with kubernetes.config.new_client_from_config(config) as client:
            review = kubernetes.client.AuthenticationV1Api(client).create_self_subject_review({})
        return str(review.status.user_info.username)

    assert who() == "system:serviceaccount:default:default"
    assert Path(config).stat().st_mode & 0o077 == 0
    for _ in range(3):
        api.ask("POST", "/sandbox/clock", {"advance": 3000})
        assert until(lambda: _answer(who), 10) == "system:serviceaccount:default:default"


def test_a_pod_without_a_token_has_no_way_in(api: Client) -> None:
    spec = {"automountServiceAccountToken": False}
    address = run(api, pod("silent", spec=spec, readinessProbe=TCP))
    assert "KUBECONFIG" not in ask(address)["env"]


def _answer(ask: Callable[[], str]) -> str:
    with suppress(kubernetes.client.ApiException):
        return ask()
    return ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
def test_the_usage_of_a_process_is_measured(api: Client) -> None:
    run(api, pod("used", readinessProbe=TCP))
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/used"
    until(lambda: api.get(path).status == 200, 10)
    metrics = api.get(path).json
    usage = metrics["containers"][0]["usage"]
    assert metrics["containers"][0]["name"] == "main"
    assert int(usage["cpu"].removesuffix("n")) > 0
    assert int(usage["memory"].removesuffix("Ki")) > 4 * 1024
    assert float(metrics["window"].removesuffix("s")) >= 1
