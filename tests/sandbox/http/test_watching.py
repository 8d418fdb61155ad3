"""List and watch: pages, revisions, bookmarks, selection, expiry."""

from __future__ import annotations

import time

import pytest

from tests.sandbox.http_client import Client


def test_pages_are_a_snapshot(api: Client) -> None:
    path = api.namespace()
    for number in range(5):
        api.create(path, f"c{number}")
    first = api.get(f"{path}?limit=2").json
    assert first["metadata"]["remainingItemCount"] == 3
    api.create(path, "c9")
    api.ask("DELETE", f"{path}/c3")
    token = first["metadata"]["continue"]
    rest = api.get(f"{path}?limit=9&continue={token}")
    assert rest.names == ["c2", "c3", "c4"]
    assert rest.json["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in rest.json["metadata"]


def test_a_page_of_a_forgotten_past_is_expired(fresh: Client) -> None:
    path = fresh.namespace()
    for number in range(3):
        fresh.create(path, f"c{number}")
    token = fresh.get(f"{path}?limit=1").json["metadata"]["continue"]
    fresh.create(path, "new")
    fresh.sandbox.call(lambda cluster: cluster.store.collection("/configmaps").forget(cluster.store.revision))
    answer = fresh.get(f"{path}?limit=1&continue={token}")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


def test_a_list_at_an_exact_revision_shows_that_state(api: Client) -> None:
    path = api.namespace()
    version = api.create(path, "old")["metadata"]["resourceVersion"]
    api.create(path, "new")
    assert api.get(f"{path}?resourceVersion={version}&resourceVersionMatch=Exact").names == ["old"]
    assert api.get(f"{path}?resourceVersion={version}&resourceVersionMatch=NotOlderThan").names == ["new", "old"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=abc", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Odd", 422),
        ("continue=bogus", 400),
        ("limit=x", 400),
        ("watch=1&timeoutSeconds=x", 400),
        ("resourceVersion=1&resourceVersionMatch=Exact", 410),
        ("watch=1&resourceVersion=abc", 500),
    ],
)
def test_options_that_make_no_sense_are_refused(api: Client, query: str, status: int) -> None:
    assert api.get(f"/api/v1/configmaps?{query}").status == status


def test_a_list_waits_for_a_revision_that_comes(api: Client) -> None:
    path = api.namespace()
    version = int(api.create(path, "a")["metadata"]["resourceVersion"])
    connection = api.connect()
    api.send(connection, "GET", f"{path}?resourceVersion={version + 1}")
    time.sleep(0.1)
    api.create(path, "b")
    assert b'"b"' in connection.getresponse().read()
    connection.close()


def test_a_watch_replays_the_past_and_goes_on(api: Client) -> None:
    path = api.namespace()
    version = api.create(path, "a")["metadata"]["resourceVersion"]
    api.create(path, "b")
    with api.watch(f"{path}?watch=1&resourceVersion={version}") as watch:
        assert watch.event()["object"]["metadata"]["name"] == "b"
        api.merge(f"{path}/b", {"data": {"x": "1"}})
        changed = watch.event()
        assert (changed["type"], changed["object"]["data"]) == ("MODIFIED", {"x": "1"})
        api.ask("DELETE", f"{path}/b")
        gone = watch.event()
    assert gone["type"] == "DELETED"
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(changed["object"]["metadata"]["resourceVersion"])


def test_a_write_that_changes_nothing_is_no_event(api: Client) -> None:
    path = api.namespace()
    version = api.create(path, "a", {"x": "1"})["metadata"]["resourceVersion"]
    with api.watch(f"{path}?watch=1&resourceVersion={version}") as watch:
        assert api.merge(f"{path}/a", {"data": {"x": "1"}}).json["metadata"]["resourceVersion"] == version
        api.create(path, "marker")
        assert watch.event()["object"]["metadata"]["name"] == "marker"


def test_leaving_a_selection_is_deleted_and_entering_is_added(api: Client) -> None:
    path = api.namespace()
    version = api.create(path, "a", labels={"in": "yes"})["metadata"]["resourceVersion"]
    with api.watch(f"{path}?watch=1&resourceVersion={version}&labelSelector=in=yes") as watch:
        api.merge(f"{path}/a", {"metadata": {"labels": {"in": "no"}}})
        left = watch.event()
        assert (left["type"], left["object"]["metadata"]["labels"]) == ("DELETED", {"in": "yes"})
        assert int(left["object"]["metadata"]["resourceVersion"]) > int(version)
        api.merge(f"{path}/a", {"metadata": {"labels": {"in": "yes"}}})
        assert watch.event()["type"] == "ADDED"


def test_initial_events_end_with_a_bookmark(api: Client) -> None:
    path = api.namespace()
    api.create(path, "a")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with api.watch(f"{path}?{query}") as watch:
        assert watch.event()["type"] == "ADDED"
        mark = watch.event()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_from_a_forgotten_past_is_told_410(api: Client) -> None:
    with api.watch(f"{api.namespace()}?watch=1&resourceVersion=1") as watch:
        assert watch.response.status == 200
        event = watch.event()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert watch.event() is None


def test_a_watch_ends_when_its_time_is_up(api: Client) -> None:
    begin = time.monotonic()
    with api.watch(f"{api.namespace()}?watch=1&timeoutSeconds=1") as watch:
        assert watch.event() is None
    assert 0.8 < time.monotonic() - begin < 60


def test_a_client_that_leaves_is_forgotten(fresh: Client) -> None:
    path = fresh.namespace()
    with fresh.watch(f"{path}?watch=1"):
        assert fresh.sandbox.call(lambda cluster: len(cluster.store.collection("/configmaps").watchers)) == 1
    deadline = time.monotonic() + 60
    while fresh.sandbox.call(lambda cluster: len(cluster.store.collection("/configmaps").watchers)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_the_first_table_of_a_watch_defines_its_columns(api: Client) -> None:
    path = api.namespace()
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with api.watch(f"{path}?watch=1", Accept=accept) as watch:
        api.create(path, "a")
        api.create(path, "b")
        first, second = watch.event()["object"], watch.event()["object"]
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not second["columnDefinitions"]


def test_a_watch_replayed_gives_the_list(api: Client) -> None:
    path = api.namespace()
    version = api.get(path).json["metadata"]["resourceVersion"]
    for number in range(6):
        api.create(path, f"c{number}")
    for number in (1, 4):
        api.ask("DELETE", f"{path}/c{number}")
    api.merge(f"{path}/c2", {"data": {"x": "1"}})
    state: dict[str, object] = {}
    with api.watch(f"{path}?watch=1&timeoutSeconds=1&resourceVersion={version}") as watch:
        for event in watch.events():
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                del state[name]
            else:
                state[name] = {key: event["object"][key] for key in ("metadata", "data") if key in event["object"]}
    listed = {item["metadata"]["name"]: item for item in api.get(path).json["items"]}
    assert state == listed
