"""What a sandbox with a folder keeps over a restart, and over a kill."""

from __future__ import annotations

import http.client
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.sandbox.server import Sandbox
from gitsync.sandbox.storage import ObjectStore, SqliteJournal
from tests.child_process import child_process
from tests.sandbox.http_client import Client

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
    command = [sys.executable, "-c", SERVE, str(tmp_path)]
    with child_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url, token = process.stdout.readline().split()
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        acknowledged = []
        for number in range(200):
            body = json.dumps({"metadata": {"name": f"c{number}"}})
            connection.request("POST", MAPS, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            if answer.status == 201:
                acknowledged.append(f"c{number}")
        connection.close()
    with Sandbox(tmp_path, controllers=False) as sandbox:
        assert set(Client(sandbox).get(MAPS).names) == set(acknowledged)
    assert len(acknowledged) == 200


def test_the_kubeconfig_in_the_folder_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("old")
    with Sandbox(tmp_path, controllers=False) as sandbox:
        config = sandbox.kubeconfig(tmp_path / "kubeconfig")
        assert config.stat().st_mode & 0o777 == 0o600
        assert sandbox.token in config.read_text()


def test_a_folder_belongs_to_one_sandbox_at_a_time(tmp_path: Path) -> None:
    with Sandbox(tmp_path, controllers=False), pytest.raises(InvalidInput, match="stop the sandbox"):
        Sandbox(tmp_path, controllers=False).start()
    with Sandbox(tmp_path, controllers=False) as again:
        assert Client(again).get("/healthz").status == 200


def test_a_file_that_is_none_of_a_sandbox_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sandbox.db").write_bytes(b"something else" * 100)
    with pytest.raises(InvalidInput, match="not a file of a sandbox"):
        Sandbox(tmp_path, controllers=False).start()


def test_a_port_in_use_is_refused_with_its_cure() -> None:
    with Sandbox(controllers=False) as sandbox:
        port = int(sandbox.url.rpartition(":")[2])
        with pytest.raises(InvalidInput, match="name another port"):
            Sandbox(port=port, controllers=False).start()


def test_a_write_that_the_disk_refuses_fails_alone(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "sandbox.db")
    store = ObjectStore(journal)
    store.write("/things", "/a", {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}})
    journal._connection.execute("PRAGMA query_only=ON")
    with pytest.raises(sqlite3.OperationalError):
        store.write("/things", "/b", {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "b"}})
    journal._connection.execute("PRAGMA query_only=OFF")
    store.write("/things", "/c", {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "c"}})
    assert sorted(store.collection("/things").objects) == ["/a", "/c"]
    assert sorted(key for _, key, _, _ in journal.objects()) == ["/a", "/c"]
    journal.close()


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
