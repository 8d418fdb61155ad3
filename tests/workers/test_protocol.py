from __future__ import annotations

from typing import Any

import orjson
import pytest

from gitsync.errors import Conflict, GitsyncError, InvalidInput, SourceUnavailable
from gitsync.objects.charts import ChartOptions, ClusterValues
from gitsync.objects.manifest import Manifest
from gitsync.render.build import Build
from gitsync.render.resources.resource import Origin
from gitsync.render.yaml.reader import read_all
from gitsync.workers import protocol
from gitsync.workers.protocol import BuildHistory


def over_the_wire(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as it is when it has travelled."""
    arrived: dict[str, Any] = orjson.loads(protocol.frame(message)[protocol.LENGTH_BYTES :])
    return arrived


def test_a_build_arrives_as_it_was_sent() -> None:
    manifests = ({"kind": "A", "data": {"é": "\u2028"}}, {"kind": "B"})
    sources = (Origin("odd\udcff", 0), Origin("é", 1))
    build = Build(manifests, frozenset({"a/b.yaml", "odd\udcff", "é"}), ("careful",), sources)
    assert protocol.to_build(over_the_wire(protocol.of_build(build))) == build


def test_equal_texts_of_all_builds_are_one_object() -> None:
    def received(name: str) -> Manifest:
        manifest = {"kind": "Pod", "metadata": {"name": name}, "spec": {"args": ["a", {"image": "registry/web:1"}]}}
        build = Build((manifest,), frozenset(), sources=(Origin("a.yaml", 0),))
        message = protocol.as_received(protocol.of_build(build))
        [arrived] = protocol.to_build(message).manifests
        assert arrived == manifest
        return arrived

    first = received("a")
    second = received("b")
    images = [manifest["spec"]["args"][1]["image"] for manifest in (first, second)]
    assert images[0] is images[1]
    assert first["spec"]["args"][0] is second["spec"]["args"][0]


def test_equal_manifests_of_another_process_are_shared_and_numbers_are_not_booleans() -> None:
    def manifests(value: object) -> tuple[Manifest, ...]:
        return tuple({"kind": "A", "metadata": {"name": name}, "spec": {"x": value}} for name in "ab")

    former = Build(manifests(1), frozenset())
    new = Build((manifests(1)[0], manifests(True)[1]), frozenset({"a"}))
    shared = protocol.shared_build(new, former)
    assert shared.manifests[0] is former.manifests[0]
    assert shared.manifests[1] is new.manifests[1]
    assert shared.files_read == {"a"}


def test_of_what_the_receiver_has_only_the_position_travels() -> None:
    kept: tuple[Manifest, ...] = ({"kind": "A"}, {"kind": "B"}, {"kind": "C"})
    origins = (Origin("a", 0), Origin("b", 0), Origin("c", 0))
    before = Build(kept, frozenset({"a", "b", "c"}), ("old",), origins)
    received = protocol.to_build(over_the_wire(protocol.of_build(before)))
    after = Build(
        (kept[2], {"kind": "B", "x": 1}, kept[0]),
        frozenset({"a", "b", "d"}),
        sources=(Origin("d", 0), Origin("b", 0), Origin("a", 0)),
    )
    message = over_the_wire(protocol.of_build(after, before))
    assert message["kept"] == [-1, -1, 0]
    assert message["manifests"] == [kept[2], {"kind": "B", "x": 1}]
    arrived = protocol.to_build(message, received)
    assert arrived == after
    assert arrived.manifests[2] is received.manifests[0]


def test_the_files_read_travel_only_where_they_differ() -> None:
    before = Build((), frozenset({"a"}))
    assert protocol.of_build(before, before)["files_read"] is None
    assert protocol.to_build(protocol.of_build(before, before), before) == before
    assert protocol.of_build(Build((), frozenset({"b"})), before)["files_read"] == ["b"]


def test_a_date_arrives_as_it_was_written() -> None:
    manifests = tuple(read_all("d: 2001-01-01\ne: '2001-01-02'\nf: [2001-01-01 01:02:03]\n"))
    sent = protocol.frame({"manifests": manifests})
    assert (
        sent[protocol.LENGTH_BYTES :]
        == b'{"manifests":[{"d":"2001-01-01","e":"2001-01-02","f":["2001-01-01 01:02:03"]}]}'
    )


@pytest.mark.parametrize("kind", [InvalidInput, SourceUnavailable])
def test_an_error_arrives_as_it_was_sent(kind: type[GitsyncError]) -> None:
    error = protocol.to_error(protocol.of_error(kind("what", location="a.yaml:1", object="ConfigMap a", hint="cure")))
    assert type(error) is kind
    assert str(error) == "a.yaml:1: ConfigMap a: what; cure"


def test_another_error_arrives_as_invalid_input() -> None:
    assert type(protocol.to_error(protocol.of_error(Conflict("odd\udcff")))) is InvalidInput


def test_a_frame_has_its_length_before_it() -> None:
    assert protocol.frame({"a": 1}) == b'\x00\x00\x00\x07{"a":1}'


def test_what_json_cannot_hold_is_refused() -> None:
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        protocol.frame({"manifests": deep})


def test_too_large_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_FRAME", 1 << 20)
    with pytest.raises(InvalidInput, match="the manifests take 2 MiB, the limit is 1 MiB"):
        protocol.frame({"manifests": "x" * (2 << 20)})


def request(path: str, commit: str = "1") -> dict[str, str]:
    return {"git_dir": "repo", "path": path, "renderer": "Auto", "commit": commit}


def test_the_last_build_of_a_folder_is_kept() -> None:
    recent = BuildHistory()
    for commit in "12":
        recent.keep(request("a", commit), Build((), frozenset({commit})))
    last = recent.last(request("a", "3"))
    assert last is not None
    assert last.commit == "2"
    assert last.build.files_read == {"2"}
    assert recent.last(request("b")) is None
    assert recent.last({**request("a"), "renderer": "Plain"}) is None


def test_a_build_of_another_process_is_forgotten() -> None:
    recent = BuildHistory()
    recent.keep(request("a"), Build((), frozenset()))
    recent.keep(request("b"), Build((), frozenset()))
    recent.forget(request("a", "2"))
    recent.forget(request("never"))
    assert recent.last(request("a")) is None
    assert recent.last(request("b")) is not None


def test_the_folder_that_was_not_built_for_longest_is_forgotten() -> None:
    recent = BuildHistory()
    recent.keep(request("first"), Build((), frozenset()))
    for number in range(63):
        recent.keep(request(str(number)), Build((), frozenset()))
    recent.keep(request("first"), Build((), frozenset()))
    recent.keep(request("more"), Build((), frozenset()))
    assert recent.last(request("0")) is None
    assert recent.last(request("1")) is not None
    assert recent.last(request("first")) is not None


def test_the_options_of_a_chart_arrive_as_they_were_sent() -> None:
    values = (ClusterValues("Secret shop/login", "a: b", is_secret=True), ClusterValues("ConfigMap shop/sizes"))
    options = ChartOptions("web", "shop", ("a.yaml",), api_versions=("v1",), cluster_values=values)

    assert protocol.to_chart(protocol.as_received({"chart": protocol.of_chart(options)})["chart"]) == options
