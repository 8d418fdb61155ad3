"""What readers see of the live objects of an Application."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.state.state import LiveObjects
from gitsync.state.views import Views
from tests.fakes.ports import FakeCluster, FakeReaderPorts
from tests.server.fakes import application, resource

POD = ObjectRef("", "Pod", "shop", "web-1")
KEY = "gitsync/shop"


def objects_of(view: ApplicationView) -> LiveObjects:
    """Return a cluster with the Deployment ``web`` and its Pod, as the readers of a view find them."""
    cluster: Any = FakeCluster()
    for item in view.resources:
        cluster.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(item.ref.name)})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web"}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": {**_named("web-1"), "ownerReferences": [owner]}})
    live: Any = FakeReaderPorts(cluster).live
    views = Views()
    views.publish(view)
    return LiveObjects(cluster, live, views)


def _named(name: str) -> Manifest:
    return {"name": name, "namespace": "shop", "uid": f"uid-{name}"}


@pytest.mark.parametrize("is_readable", [True, False])
def test_only_what_the_policy_lets_it_read_is_shown(is_readable: bool) -> None:
    web = resource("web", "Deployment")
    reason = "" if is_readable else "namespace shop is not allowed by policy bank"
    web = replace(web, version="v1", change=replace(web.change, unobserved=reason))
    objects = objects_of(application(resources=[web]))
    assert [objects.live(KEY, ref) is not None for ref in (web.ref, POD)] == [is_readable, is_readable]
    assert bool(objects.dependents(KEY, web.ref)) is is_readable


def test_restarts_are_counted_by_why_containers_ended_last() -> None:
    cluster: Any = FakeCluster()
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    for name, statuses in (
        ("waits", [{"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": killed}]),
        ("ended", [{"restartCount": 2, "state": killed}, {"restartCount": 1, "state": {"running": {}}}]),
        ("new", None),
    ):
        cluster.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": _named(name), "status": {"containerStatuses": statuses}}
        )
    live: Any = FakeReaderPorts(cluster).live
    assert LiveObjects(cluster, live, Views()).restarts() == {"OOMKilled": 5, "": 1}
