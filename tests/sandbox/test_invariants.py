"""Random sequences of writes keep what a cluster promises."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client

NAMES = st.sampled_from(["a", "b", "c"])
DATA = st.dictionaries(st.sampled_from(["k1", "k2", "k3"]), st.sampled_from(["1", "2"]), max_size=3)
MANAGERS = st.sampled_from(["one", "two"])
WRITES = st.one_of(
    st.tuples(st.just("create"), NAMES, DATA, MANAGERS),
    st.tuples(st.just("apply"), NAMES, DATA, MANAGERS),
    st.tuples(st.just("force"), NAMES, DATA, MANAGERS),
    st.tuples(st.just("put"), NAMES, DATA, MANAGERS),
    st.tuples(st.just("merge"), NAMES, DATA, MANAGERS),
    st.tuples(st.just("delete"), NAMES, DATA, MANAGERS),
)
FEW = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def client() -> Any:
    with Sandbox(controllers=False) as sandbox:
        yield Client(sandbox)


@pytest.fixture(scope="module")
def collected() -> Any:
    """A client of a cluster with its garbage collector at work."""
    with Sandbox() as sandbox:
        yield Client(sandbox)


def write(client: Client, path: str, step: tuple[str, str, dict[str, str], str]) -> int:
    verb, name, data, manager = step
    labels = dict.fromkeys(data, "same")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}
    match verb:
        case "create":
            return client.ask("POST", f"{path}?fieldManager={manager}", body).status
        case "apply":
            return client.apply(f"{path}/{name}", body, manager).status
        case "force":
            return client.apply(f"{path}/{name}", body, manager, "&force=true").status
        case "put":
            return client.ask("PUT", f"{path}/{name}?fieldManager={manager}", body).status
        case "merge":
            return client.merge(
                f"{path}/{name}?fieldManager={manager}", {"data": data, "metadata": {"labels": labels}}
            ).status
    return client.ask("DELETE", f"{path}/{name}").status


@FEW
@given(steps=st.lists(WRITES, min_size=1, max_size=12))
def test_a_watch_replayed_equals_the_list_and_revisions_grow(
    client: Client, steps: list[tuple[str, str, dict[str, str], str]]
) -> None:
    path = client.namespace()
    begin = client.get(path).json["metadata"]["resourceVersion"]
    assert all(write(client, path, step) in (200, 201, 404, 409) for step in steps)
    listed = client.get(path).json
    client.create(path, "end")
    state: dict[str, Any] = {}
    revision = int(begin)
    with client.watch(f"{path}?watch=1&resourceVersion={begin}") as watch:
        for event in watch.events():
            obj = event["object"]
            if obj["metadata"]["name"] == "end":
                break
            assert int(obj["metadata"]["resourceVersion"]) > revision
            revision = int(obj["metadata"]["resourceVersion"])
            assert (event["type"] == "ADDED") is (obj["metadata"]["name"] not in state)
            state[obj["metadata"]["name"]] = {key: obj[key] for key in ("metadata", "data") if key in obj}
            if event["type"] == "DELETED":
                del state[obj["metadata"]["name"]]
    assert state == {item["metadata"]["name"]: item for item in listed["items"]}


def named(owned: Iterable[dict[str, Any] | None]) -> set[str]:
    """Return the names of the members in fieldsV1 maps."""
    return {key[2:] for each in owned for key in each or () if key != "."}


@FEW
@given(steps=st.lists(WRITES, min_size=1, max_size=12))
def test_managed_fields_own_only_what_is_there(
    client: Client, steps: list[tuple[str, str, dict[str, str], str]]
) -> None:
    path = client.namespace()
    for step in steps:
        write(client, path, step)
    for item in client.get(path).json["items"]:
        entries = item["metadata"].get("managedFields", [])
        if not entries:
            continue  # an object created without fields to own is not tracked until the first apply
        fields = [entry["fieldsV1"] for entry in entries]
        assert named(each.get("f:data") for each in fields) == set(item.get("data", {}))
        labels = named(each.get("f:metadata", {}).get("f:labels") for each in fields)
        assert labels == set(item["metadata"].get("labels", {}))
        appliers = [entry["manager"] for entry in entries if entry["operation"] == "Apply"]
        assert len(appliers) == len(set(appliers))


@FEW
@given(steps=st.lists(WRITES, min_size=1, max_size=8), name=NAMES, data=DATA, manager=MANAGERS)
def test_an_apply_repeated_changes_nothing(
    client: Client,
    steps: list[tuple[str, str, dict[str, str], str]],
    name: str,
    data: dict[str, str],
    manager: str,
) -> None:
    path = client.namespace()
    for step in steps:
        write(client, path, step)
    write(client, path, ("force", name, data, manager))
    once = client.get(f"{path}/{name}").json
    write(client, path, ("apply", name, data, manager))
    assert client.get(f"{path}/{name}").json == once


OWNERS = st.lists(st.sets(st.integers(0, 5), max_size=2), min_size=3, max_size=6)
POLICIES = st.sampled_from(["Foreground", "Background", "Orphan"])


@settings(FEW, max_examples=15)
@given(owners=OWNERS, deleted=st.dictionaries(st.integers(0, 5), POLICIES, min_size=1, max_size=3))
def test_garbage_collection_leaves_no_orphan_and_takes_nobody_else(
    collected: Client, owners: list[set[int]], deleted: dict[int, str]
) -> None:
    path = collected.namespace()
    uids: list[str] = []
    for number, wanted in enumerate(owners):
        references = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{owner}", "uid": uids[owner]}
            for owner in sorted(wanted)
            if owner < number
        ]
        uids.append(collected.create(path, f"c{number}", ownerReferences=references)["metadata"]["uid"])
    for number, policy in deleted.items():
        collected.ask("DELETE", f"{path}/c{number}", {"propagationPolicy": policy})
    deadline = time.monotonic() + 60
    while True:
        left = {item["metadata"]["uid"]: item["metadata"] for item in collected.get(path).json["items"]}
        references = {uid: [each["uid"] for each in meta.get("ownerReferences", ())] for uid, meta in left.items()}
        orphans = [uid for uid, owned in references.items() if owned and not set(owned) & set(left)]
        unfinished = [uid for uid, meta in left.items() if "deletionTimestamp" in meta]
        if not orphans and not unfinished:
            break
        assert time.monotonic() < deadline, (orphans, unfinished)
        time.sleep(0.01)
    asked = {uids[number] for number in deleted if number < len(uids)}
    assert not asked & set(left)
    free = {uids[number] for number, wanted in enumerate(owners) if not any(owner < number for owner in wanted)}
    assert free - asked <= set(left)
