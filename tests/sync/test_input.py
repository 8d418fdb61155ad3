"""A watch goes into the status and comes back as it was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitsync.crds import application_crd
from gitsync.objects.ref import ObjectRef
from gitsync.sync.input import AnalysisRun, RepairRequest

NOW = datetime(2026, 11, 20, 10, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "watch",
    [
        AnalysisRun("c" * 40, NOW),
        AnalysisRun("c" * 40, NOW, {"error rate": NOW, "latency": NOW.replace(second=7)}),
        AnalysisRun("c" * 40, NOW, failure="error rate 0.3 is over 0.05"),
    ],
)
def test_what_the_status_keeps_is_all_there_is(watch: AnalysisRun) -> None:
    assert AnalysisRun.from_status(watch.to_status()) == watch
    schema = application_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert watch.to_status().keys() <= schema["properties"]["postSync"]["properties"].keys()


@pytest.mark.parametrize("status", [None, {}, "watched"])
def test_without_one_there_is_none(status: object) -> None:
    assert AnalysisRun.from_status(status) is None


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"objects": ["ConfigMap"], "by": "ada"}', '{"objects": 1}'])
def test_an_annotation_of_another_form_restores_nothing(text: str) -> None:
    assert RepairRequest.from_annotation(text) == RepairRequest()


def test_a_repair_is_read_as_it_was_written() -> None:
    request = RepairRequest(frozenset({ObjectRef("", "ConfigMap", "shop", "a")}), "ada")
    assert RepairRequest.from_annotation(request.to_annotation("one")) == request
    assert request.to_annotation("one") != request.to_annotation("another")
