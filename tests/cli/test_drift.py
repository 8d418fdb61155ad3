"""The history of drift, read from the records beside the controller."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from gitsync.objects.change import Action, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy, OpenDrift, ended_link
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from tests.cli.conftest import Gitsync, Shop
from tests.fakes.ports import START


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data folder whose audit has drift of two Applications."""
    field = FieldDifference(".data.a", "/data/a", Difference.CHANGED, "1", "2", (FieldOwner("kubectl-edit"),))
    step = Change(ObjectRef("", "ConfigMap", "shop", "a"), Action.UPDATE, differences=(field,))
    drift = OpenDrift(step, START - timedelta(seconds=2))
    records = SqlRecords(RecordDatabase(f"sqlite:///{tmp_path}/history.db"))
    records.audit(ended_link(f"gitsync/{name}", drift, START, EndedBy.SELF_HEAL) for name in ("shop", "blog"))
    records.close()
    return tmp_path


def test_the_history_lists_what_ended_newest_first(gitsync: Gitsync, data: Path) -> None:
    done = gitsync("drift", "--history", "--data", data, "-o", "json")
    assert done.code == 0
    assert [row["application"] for row in done.json] == ["gitsync/blog", "gitsync/shop"]
    row = done.json[0]
    assert (row["from"], row["to"], row["manager"], row["by"], row["seconds"]) == (
        *("1", "2", "kubectl-edit"),
        *("self-heal", 2.0),
    )


def test_an_audit_log_of_the_api_server_names_the_users(gitsync: Gitsync, data: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    target = {"resource": "configmaps", "namespace": "shop", "name": "a"}
    event = {
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/shop/configmaps/a?fieldManager=kubectl-edit",
        "verb": "update",
        "user": {"username": "ada"},
        "objectRef": target,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": (START - timedelta(seconds=3)).isoformat(),
    }
    log.write_text(json.dumps(event, separators=(",", ":")) + "\n")
    done = gitsync("drift", "shop", "--history", "--data", data, "--audit-log", log, "-o", "json")
    assert [row["person"] for row in done.json] == ["ada"]


def test_an_audit_log_needs_the_history(gitsync: Gitsync, data: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text("")
    done = gitsync("drift", "--data", data, "--audit-log", log)
    assert done.code == 2
    assert "--audit-log: names the users of past drift only; add --history" in done.err


def test_the_history_of_one_application(gitsync: Gitsync, data: Path) -> None:
    done = gitsync("drift", "shop", "--history", "--data", data)
    assert "gitsync/shop" in done.out
    assert "gitsync/blog" not in done.out
    assert "no drift has ended yet" in gitsync("drift", "other", "--history", "--data", data).out
    assert "no drift has ended yet" in gitsync("drift", "--history", "-n", "other", "--data", data).out


def test_a_report_has_what_runs_now_and_what_was_decided(shop: Shop) -> None:
    report = shop("report", "-o", "json", "--since", "1h").json
    assert [(item["application"], item["images"]) for item in report["scores"]] == [("gitsync/shop", 0.0)]
    assert [item["object"] for item in report["unpinnedImages"]] == ["Deployment shop/web"]
    assert "# gitsync report" in shop("report").out
    assert "is not a time" in shop("report", "--since", "soon").err


def test_the_pods_of_an_application_are_listed_with_what_they_use(shop: Shop) -> None:
    rows = shop("top", "pods", "-o", "json").json
    assert {row["application"] for row in rows} == {"gitsync/shop"}
    assert all(row["pod"].startswith("web-") for row in rows)
    assert "NODE" in shop("top", "pods").out.splitlines()[0]
