"""Answers of Prometheus are numbers, or say why they are none."""

from __future__ import annotations

import json
import math

import pytest

from gitsync.integrations.prometheus.response import read_answer
from gitsync.ports import MetricResult, Sample
from tests.integrations.prometheus.fake_server import Answer, failure, scalar, success, vector


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
