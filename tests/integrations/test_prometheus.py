"""Queries to a Prometheus server, and its answers."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gitsync.errors import InvalidInput
from gitsync.integrations.prometheus import Prometheus, read_answer
from gitsync.ports import MetricResult, Sample
from gitsync.runtime.clock import SystemClock
from tests.integrations.fake_prometheus import Answer, failure, prometheus, scalar, success, vector

FRESH = 3600.0


def heard(client: Prometheus, query: str = "up", max_age: float = FRESH) -> MetricResult:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = client.read(query, max_age)
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("no reading")


def test_a_query_is_asked_as_it_is_written() -> None:
    query = 'sum(rate(errors_total{path=~"/a&b+c"}[5m])) / 2'
    with prometheus(prefix="/prom") as server:
        server.default = scalar("0.5")
        client = Prometheus(f"{server.url}/", SystemClock())
        assert client.read(query, FRESH) is None, "it returns at once"
        assert heard(client, query) == MetricResult((Sample(0.5),))
        assert server.queries == [query]
        assert "Authorization" not in server.headers[0]
        client.close()


def test_an_answer_is_shared_until_it_is_too_old() -> None:
    with prometheus() as server:
        client = Prometheus(server.url, SystemClock())
        heard(client)
        heard(client)
        assert len(server.queries) == 1
        server.default = scalar("7")
        time.sleep(0.06)
        assert client.read("up", 0.05) is None, "an old answer is queried again"
        assert heard(client) == MetricResult((Sample(7.0),))
        assert len(server.queries) == 2
        client.close()


def test_the_token_is_read_for_each_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    with prometheus() as server:
        client = Prometheus(server.url, SystemClock(), token=token)
        heard(client, "a")
        token.write_text("two\n")
        heard(client, "b")
        assert [headers["Authorization"] for headers in server.headers] == ["Bearer one", "Bearer two"]
        token.unlink()
        assert heard(client, "c").problem == "the token for Prometheus cannot be read"
        client.close()


def test_a_redirect_is_not_followed() -> None:
    with prometheus() as server:
        server.default = (302, b"")
        client = Prometheus(server.url, SystemClock())
        assert heard(client).problem == "Prometheus answered 302"
        assert server.queries == ["up"]
        client.close()


def test_a_server_that_is_away_is_said_to_be() -> None:
    with prometheus() as server:
        pass
    client = Prometheus(server.url, SystemClock())
    assert heard(client).problem == "Prometheus cannot be reached"
    client.close()


def test_a_slow_server_is_not_waited_for() -> None:
    with prometheus() as server:
        server.delay = 0.6
        client = Prometheus(server.url, SystemClock(), seconds=0.2)
        assert heard(client).problem == "Prometheus did not answer within 0.2 s"
        client.close()


def test_an_endless_answer_is_cut_off() -> None:
    with prometheus() as server:
        server.default = vector(*[({"pod": "x" * 100 + str(i)}, "1") for i in range(10_000)])
        client = Prometheus(server.url, SystemClock())
        assert heard(client).problem == "Prometheus answered more than the limit"
        client.close()


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    with prometheus(certificate(tmp_path)) as server:
        client = Prometheus(server.url, SystemClock())
        assert heard(client).problem == "Prometheus cannot be reached"
        assert server.queries == []
        client.close()


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "ftp://x", "http://user:secret@x", "http://x?a=b", "http://x#a", "http://["]
)
def test_only_a_plain_url_is_taken(url: str) -> None:
    with pytest.raises(InvalidInput, match="GITSYNC_PROMETHEUS"):
        Prometheus(url, SystemClock())


def certificate(folder: Path) -> Path:
    """Return a file with a key and a certificate for 127.0.0.1 that is signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.mark.parametrize(
    ("answer", "samples"),
    [
        pytest.param(scalar("0.25"), (Sample(0.25),), id="a scalar"),
        pytest.param(vector(({}, "1e3")), (Sample(1000.0),), id="one series without labels"),
        pytest.param(
            vector(({"__name__": "up", "pod": "b", "job": "x"}, "1"), ({"pod": "c"}, "NaN"), ({"pod": "a"}, "+Inf")),
            (Sample(1.0, '{job="x", pod="b"}'), Sample(math.inf, '{pod="a"}')),
            id="several series, without those that are not numbers",
        ),
    ],
)
def test_numbers_are_read_with_their_labels(answer: Answer, samples: tuple[Sample, ...]) -> None:
    assert read_answer(*answer) == MetricResult(samples)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(vector(), "no data", id="no series"),
        pytest.param(vector(({}, "NaN")), "NaN", id="no number"),
        pytest.param(scalar("NaN"), "NaN", id="a scalar that is not a number"),
        pytest.param(success("scalar", None), "NaN", id="a scalar without a value"),
        pytest.param(success("vector", [{"metric": {}, "histogram": [1.0, {}]}]), "NaN", id="a histogram"),
        pytest.param(success("matrix", []), "gives a matrix", id="numbers of many moments"),
        pytest.param(success("string", [1.0, "x"]), "gives a string", id="a text"),
        pytest.param(failure(400, "bad_data", "parse error: x\ny"), "answered 400: parse error: x\\ny", id="refused"),
        pytest.param(failure(503, "timeout", "query timed out"), "answered 503: query timed out", id="too slow"),
        pytest.param((502, b"<html>"), "Prometheus answered 502", id="a proxy's page"),
        pytest.param((302, b""), "Prometheus answered 302", id="a redirect"),
        pytest.param((200, b"[]"), "not with a response of its API", id="another JSON"),
        pytest.param((200, b'{"status": "success"}'), "gives a None", id="no data member"),
        pytest.param(vector(*[({"i": str(i)}, "1") for i in range(1001)]), "aggregate them", id="too many series"),
    ],
)
def test_what_is_no_number_says_why(answer: Answer, problem: str) -> None:
    reading = read_answer(*answer)
    assert reading.samples == ()
    assert problem in reading.problem


def test_labels_cannot_fill_the_status() -> None:
    body = json.loads(vector(({"pod": "x" * 5000}, "1"))[1])
    reading = read_answer(200, json.dumps(body).encode())
    assert len(reading.samples[0].labels) == 200
