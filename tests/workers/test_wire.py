from __future__ import annotations

import pytest

from gitsync.errors import Conflict, GitsyncError, InvalidInput, SourceUnavailable
from gitsync.render.build import Build
from gitsync.render.yaml_reader import read_all
from gitsync.workers import wire


def test_a_build_arrives_as_it_was_sent() -> None:
    build = Build(({"kind": "A", "data": {"é": "\u2028"}},), frozenset({"a/b.yaml", "odd\udcff", "é"}), ("careful",))
    assert wire.to_build(wire.of_build(build)) == build


def test_a_date_arrives_as_it_was_written() -> None:
    manifests = tuple(read_all("d: 2001-01-01\ne: '2001-01-02'\nf: [2001-01-01 01:02:03]\n"))
    sent = wire.frame({"manifests": manifests})
    assert (
        sent[wire.LENGTH_BYTES :] == b'{"manifests":[{"d":"2001-01-01","e":"2001-01-02","f":["2001-01-01 01:02:03"]}]}'
    )


@pytest.mark.parametrize("kind", [InvalidInput, SourceUnavailable])
def test_an_error_arrives_as_it_was_sent(kind: type[GitsyncError]) -> None:
    error = wire.to_error(wire.of_error(kind("what", where="a.yaml:1", subject="ConfigMap a", cure="cure")))
    assert type(error) is kind
    assert str(error) == "a.yaml:1: ConfigMap a: what; cure"


def test_another_error_arrives_as_invalid_input() -> None:
    assert type(wire.to_error(wire.of_error(Conflict("odd\udcff")))) is InvalidInput


def test_a_frame_has_its_length_before_it() -> None:
    assert wire.frame({"a": 1}) == b'\x00\x00\x00\x07{"a":1}'


def test_what_json_cannot_hold_is_refused() -> None:
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        wire.frame({"manifests": deep})


def test_too_large_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 1 << 20)
    with pytest.raises(InvalidInput, match="the manifests take 2 MiB, the limit is 1 MiB"):
        wire.frame({"manifests": "x" * (2 << 20)})
