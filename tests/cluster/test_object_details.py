"""Events and logs of objects are read from the API server when they are opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.object_details import ApiObjectDetails
from gitsync.errors import GitsyncError
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.server import Sandbox
from tests.waiting import until


def test_events_are_those_of_the_object_and_logs_those_of_the_container(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}, {"name": "proxy", "image": "proxy:1"}]},
    }
    with Sandbox() as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        details, cluster = ApiObjectDetails(client), KubernetesCluster(client)
        cluster.apply(pod, manager="test")
        ref = ObjectRef("", "Pod", "default", "web")
        until(lambda: any(event.reason == "Started" for event in details.events(ref)))
        events = details.events(ref)
        assert all(event.last and event.message and event.type for event in events)
        assert [event.last for event in events] == sorted((event.last for event in events), reverse=True)
        assert details.events(ObjectRef("", "Pod", "default", "other")) == ()
        assert details.events(ObjectRef("", "Namespace", "", "default")) == ()

        until(lambda: (cluster.read(ref, "v1") or {})["status"].get("phase") == "Running")
        assert isinstance(details.logs("default", "web", "proxy", lines=1), str)
        assert len(details.logs("default", "web", "app", lines=1).splitlines()) <= 1
        with pytest.raises(GitsyncError, match="previous terminated container"):
            details.logs("default", "web", "app", previous=True)
        with pytest.raises(GitsyncError, match="not found"):
            details.logs("default", "gone", "app")
        client.close()
