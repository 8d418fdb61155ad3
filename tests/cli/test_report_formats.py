"""A report of a period in each format: complete, and safe whatever names it has."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from gitsync.cli.commands.report import ReportFormat, to_text
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy, PastField
from gitsync.services.period_report import ApplicationScore, ImageUse, PeriodReport, Share, UserDecision
from tests.fakes.ports import START

WEB = ObjectRef("apps", "Deployment", "shop", "web")
FIELD = PastField(
    *("gitsync/shop", WEB, ".spec.replicas", 1, 4, "kubectl", None),
    *(START - timedelta(seconds=4), START, EndedBy.SELF_HEAL),
)
HOSTILE = "=cmd|<script>"
REPORT = PeriodReport(
    START - timedelta(days=30),
    START,
    drift=(FIELD,),
    verdicts={"approve": 1},
    decisions=(UserDecision("gitsync/shop", "approve", HOSTILE, START, "d" * 12, "why"),),
    images=(ImageUse("gitsync/shop", WEB, "c", "web:1"),),
    unevaluated=(ObjectRef("agents.gitsync.dev", "Agent", "shop", "triage"),),
    scores=(ApplicationScore("gitsync/shop", Share(1, 1), Share(0, 1), Share(0, 1), Share(1, 1)),),
)


@pytest.mark.parametrize("output", ReportFormat)
def test_each_format_has_all_findings(output: ReportFormat) -> None:
    text = to_text(REPORT, output)
    assert "web:1" in text
    assert "triage" in text
    assert "kubectl" in text
    assert text.endswith("\n")


@pytest.mark.parametrize("output", [ReportFormat.MARKDOWN, ReportFormat.HTML])
def test_names_of_others_are_no_markup(output: ReportFormat) -> None:
    text = to_text(REPORT, output)
    assert "<script>" not in text
    assert "=cmd|&lt;" not in text if output is ReportFormat.MARKDOWN else "&lt;script&gt;" in text


def test_a_spreadsheet_runs_nothing_of_a_table() -> None:
    rows = list(csv.reader(io.StringIO(to_text(REPORT, ReportFormat.CSV))))
    assert [row[4] for row in rows if row[0] == "Decisions of users"] == [f"'{HOSTILE}"]


def test_json_has_the_score_and_the_times() -> None:
    document = json.loads(to_text(REPORT, ReportFormat.JSON))
    assert document["scores"][0]["score"] == 50
    assert document["secondsToEnd"] == {"median": 4.0, "p95": 4.0}
    assert "40 x drift" in document["formula"]


def test_sarif_names_a_rule_for_each_result() -> None:
    log = json.loads(to_text(REPORT, ReportFormat.SARIF))
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert log["version"] == "2.1.0"
    assert [result["ruleId"] for result in run["results"]] == ["drift", "unpinned-image", "agent-without-evaluation"]
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]


def test_policy_reports_have_the_results_of_each_namespace() -> None:
    role = replace(FIELD, ref=ObjectRef("rbac.authorization.k8s.io", "ClusterRole", "", "view"))
    report = replace(REPORT, drift=(FIELD, role))
    of_cluster, of_shop = json.loads(to_text(report, ReportFormat.POLICY_REPORT))["items"]
    assert (of_cluster["kind"], of_cluster["metadata"]) == ("ClusterPolicyReport", {"name": "gitsync"})
    assert (of_shop["kind"], of_shop["metadata"]) == ("PolicyReport", {"name": "gitsync", "namespace": "shop"})
    assert of_shop["summary"] == {"pass": 0, "fail": 2, "warn": 1, "error": 0, "skip": 0}
    assert [(item["policy"], item["result"]) for item in of_shop["results"]] == [
        ("drift", "warn"),
        ("unpinned-image", "fail"),
        ("agent-without-evaluation", "fail"),
    ]
    assert of_shop["results"][0]["resources"] == [{"kind": "Deployment", "name": "web", "namespace": "shop"}]


def test_what_a_pod_ran_is_a_result_of_its_workload() -> None:
    ran = replace(FIELD, path="image", changed_to="runs web:2", manager="", pod="web-1")
    text = to_text(replace(REPORT, drift=(ran,)), ReportFormat.SARIF)
    assert "Deployment shop/web: Pod web-1 runs web:2" in text


@pytest.mark.parametrize("output", ReportFormat)
def test_an_empty_report_is_one_too(output: ReportFormat) -> None:
    assert to_text(PeriodReport(START, START), output)
