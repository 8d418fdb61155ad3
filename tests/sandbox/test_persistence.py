"""What a sandbox with a folder keeps over a restart, and over a kill."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path

from gitsync.sandbox.server import Sandbox
from tests.sandbox.client import Client

MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_restart_goes_on_with_the_same_state_and_revisions(tmp_path: Path) -> None:
    with Sandbox(tmp_path, controllers=False) as sandbox:
        before = Client(sandbox)
        created = before.create(MAPS, "kept", {"a": "1"})
        before.create(MAPS, "gone")
        before.ask("DELETE", f"{MAPS}/gone")
        revision = int(before.get(MAPS).json["metadata"]["resourceVersion"])
        token, authority = sandbox.token, sandbox.authority
    with Sandbox(tmp_path, controllers=False) as sandbox:
        after = Client(sandbox)
        assert (sandbox.token, sandbox.authority) == (token, authority)
        assert after.get(MAPS).names == ["kept"]
        assert after.get(f"{MAPS}/kept").json == created
        assert int(after.get(MAPS).json["metadata"]["resourceVersion"]) == revision
        assert int(after.create(MAPS, "next")["metadata"]["resourceVersion"]) == revision + 1
        with after.watch(f"{MAPS}?watch=1&resourceVersion={revision - 1}") as watch:
            assert watch.event()["object"]["code"] == 410


def test_custom_resources_are_served_again_after_a_restart(tmp_path: Path) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    path = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}}
    with Sandbox(tmp_path, controllers=False) as sandbox:
        client = Client(sandbox)
        assert client.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).status == 201
        while client.get(path).status != 200:
            pass
        assert client.ask("POST", path, widget).status == 201
    with Sandbox(tmp_path, controllers=False) as sandbox:
        assert Client(sandbox).get(path).names == ["w"]


SERVE = """
import sys
from pathlib import Path
from gitsync.sandbox.server import Sandbox
sandbox = Sandbox(Path(sys.argv[1]), controllers=False)
sandbox.start()
print(sandbox.url, sandbox.token, flush=True)
sys.stdin.read()
"""


def test_no_acknowledged_write_is_lost_by_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    url, token = process.stdout.readline().split()
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    acknowledged = []
    for number in range(200):
        body = json.dumps({"metadata": {"name": f"c{number}"}})
        connection.request("POST", MAPS, body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status == 201:
            acknowledged.append(f"c{number}")
    process.kill()
    process.wait()
    connection.close()
    process.stdin.close()
    process.stdout.close()
    with Sandbox(tmp_path, controllers=False) as sandbox:
        assert set(Client(sandbox).get(MAPS).names) == set(acknowledged)
    assert len(acknowledged) == 200


def test_many_sandboxes_live_beside_each_other() -> None:
    sandboxes = [Sandbox(controllers=False) for _ in range(8)]
    for sandbox in sandboxes:
        sandbox.start()
    clients = [Client(sandbox) for sandbox in sandboxes]
    for number, client in enumerate(clients):
        client.create(MAPS, f"only{number}")
    assert [client.get(MAPS).names for client in clients] == [[f"only{number}"] for number in range(8)]
    for sandbox in sandboxes:
        sandbox.stop()
