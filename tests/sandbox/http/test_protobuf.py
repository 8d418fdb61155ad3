"""Reading protobuf as kubectl sends it."""

from __future__ import annotations

import pytest

from gitsync.sandbox.http.protobuf import MAGIC, Undecodable, decode


def varint(value: int) -> bytes:
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        out += bytes([byte | (0x80 if value else 0)])
        if not value:
            return out


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (2**64 - 1))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def framed(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


def pair(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


def test_a_config_map_is_read() -> None:
    meta = field(1, "c") + field(3, "") + field(8, b"") + field(11, pair("app", "web"))
    raw = field(1, meta) + field(2, pair("a", "1")) + field(2, pair("b", "")) + field(3, pair("bin", b"\x00\xff"))
    assert decode(framed("v1", "ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"app": "web"}},
        "data": {"a": "1", "b": ""},
        "binaryData": {"bin": "AP8="},
    }


def test_zero_counts_where_the_member_is_a_pointer_and_not_elsewhere() -> None:
    spec = field(1, 0) + field(5, 0) + field(4, field(2, field(1, field(1, 1) + field(3, "25%"))))
    deployment = decode(framed("apps/v1", "Deployment", field(2, spec)))
    assert deployment["spec"] == {"replicas": 0, "strategy": {"rollingUpdate": {"maxUnavailable": "25%"}}}


def test_negative_numbers_and_quantities_are_read() -> None:
    assert decode(framed("scheduling.k8s.io/v1", "PriorityClass", field(2, -5)))["value"] == -5
    hard = field(2, field(1, pair("pods", field(1, "10"))))
    assert decode(framed("v1", "ResourceQuota", hard))["spec"] == {"hard": {"pods": "10"}}


def test_the_version_decides_what_a_number_means() -> None:
    spec = field(2, field(3, 5) + field(4, 80))
    old = decode(framed("autoscaling/v1", "HorizontalPodAutoscaler", spec))
    assert old["spec"] == {"maxReplicas": 5, "targetCPUUtilizationPercentage": 80}


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        MAGIC,
        framed("v1", "Node", b""),
        framed("v1", "ConfigMap", b"\x0a\xff"),
        framed("v1", "ConfigMap", field(1, 7)),
        framed("v1", "ConfigMap", b"\x0b"),
        MAGIC + b"\xff" * 20,
    ],
    ids=["no frame", "nothing", "unknown kind", "too short", "wrong wire type", "group", "endless number"],
)
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(body)
