"""The alert rules and the Grafana dashboard that are shipped name metrics and labels that ``/metrics`` has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gitsync.cluster import client as requests
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.ports import EndedReconcile, ProcessReport
from gitsync.runtime.work_costs import Interval
from gitsync.server.metrics import with_others
from gitsync.source import remote as git_requests
from gitsync.state.costs import QUEUE
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, resource

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "manifests" / "gitsync" / "components" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "gitsync.json").read_text())
RULES = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())["spec"]["groups"][0]["rules"]
_OF_TARGETS = {"pod", "alertname", "alertstate"}
"""Labels that Prometheus adds, also of its own series ALERTS."""


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


@pytest.fixture
def labels(site: Open) -> dict[str, set[str]]:
    """Return the labels of each sample of ``/metrics`` with several processes."""
    opened = site([application(resources=[resource("a")])])
    step = Step("/ConfigMap/shop/a", "update", "Safe", "why", Outcome.SUCCEEDED)
    opened.engine.records.save(
        SyncRecord("gitsync/a", Commit("c"), "commit", NOW, 300, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))
    )
    opened.engine.view.costs.add(EndedReconcile("gitsync/shop", NOW, (Interval("plan", 0.0, 0.02, 0.01),)))
    opened.engine.view.costs.waited(0.5)
    with git_requests.counted("https://git.example.com/shop.git", ["fetch"]):
        pass
    requests.count("GET", "/api/v1/configmaps", None, 200, 0.01)
    text = with_others(opened.get("/metrics").text, [ProcessReport("2", is_up=False)])
    families = text_string_to_metric_families(text)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def test_every_expression_names_metrics_and_labels_that_exist(labels: dict[str, set[str]]) -> None:
    found = list(expressions())
    assert len(found) > 25
    for text in found:
        names = re.findall(r"\b(?:gitsync|process)_\w+", text)
        assert names, text
        assert set(names) <= labels.keys(), text
        used = {name for part in re.findall(r"\{([^}]*)\}", text) for name in re.findall(r"(\w+)(?:=|!)", part)}
        used |= {name.strip() for part in re.findall(r"by \(([^)]*)\)", text) for name in part.split(",")}
        assert used - _OF_TARGETS <= set().union(*(labels[name] for name in names)), text


@pytest.mark.parametrize("code", ["401", "429", "500", "503", "none"])
def test_every_answer_that_stops_syncing_has_one_alert(code: str) -> None:
    alerts = [
        rule["alert"]
        for rule in RULES
        if any(re.fullmatch(pattern, code) for pattern in re.findall(r'code=~?"([^"]*)"', rule["expr"]))
    ]
    assert len(alerts) == 1, alerts


def test_stages_are_a_histogram_with_the_queue(labels: dict[str, set[str]], site: Open) -> None:
    opened = site()
    opened.engine.view.costs.waited(0.3)
    opened.engine.view.costs.waited(60.0)
    families = {family.name: family for family in text_string_to_metric_families(opened.get("/metrics").text)}
    samples = families["gitsync_reconcile_stage_seconds"].samples
    counts = {sample.labels["le"]: sample.value for sample in samples if sample.name.endswith("_bucket")}
    assert {sample.labels["stage"] for sample in samples} == {QUEUE}
    assert (counts["0.25"], counts["0.5"], counts["30.0"], counts["+Inf"]) == (0, 1, 1, 2)


def test_panels_do_not_overlap_and_alerts_say_what_to_do() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    assert all(rule["annotations"]["summary"].endswith(".") and rule["for"] for rule in RULES)


def test_every_alert_links_to_its_runbook_and_every_runbook_has_an_alert() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    runbooks = re.findall(r"^### (Gitsync\w+)$", page, re.MULTILINE)
    assert runbooks == [rule["alert"] for rule in RULES]
    links = [rule["annotations"]["runbook_url"] for rule in RULES]
    assert links == [f"docs/operations.md#{rule['alert'].lower()}" for rule in RULES]
