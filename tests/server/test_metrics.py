"""What machines read."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, resource


def values(site: Site) -> dict[str, float]:
    text = site.get("/metrics").text
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_applications_are_counted(site: Open) -> None:
    broken = application("broken", health="Degraded", held=("it waits",))
    found = values(site([application(resources=[resource("a"), resource("b", sync="OutOfSync")]), broken]))
    assert found["gitsync_applications_health['Degraded']"] == 1
    assert found["gitsync_resources['OutOfSync']"] == 1
    assert found["gitsync_applications_awaiting_approval[]"] == 1
    assert found["gitsync_applications_behind_git[]"] == 0
    assert found["gitsync_oldest_look_seconds[]"] == 3
    assert found["gitsync_queue_length[]"] == 0


@pytest.mark.parametrize("status", ["True", "False"])
def test_applications_are_counted_by_whether_their_source_is_ready(site: Open, status: str) -> None:
    view = application()
    view.status["conditions"].append({"type": "SourceReady", "status": status, "message": "401"})
    found = values(site([view, application("new")]))
    counted = {name: found[f"gitsync_source_ready['{name}']"] for name in ("True", "False", "Unknown")}
    assert counted == {"True": 0, "False": 0, "Unknown": 1} | {status: 1}


def test_finished_syncs_are_counted_with_their_duration(site: Open) -> None:
    opened = site()
    before = values(opened)
    step = Step("/ConfigMap/shop/a", "update", "Safe", "why", Outcome.SUCCEEDED)
    record = SyncRecord("gitsync/a", Commit("c"), "commit", NOW, 300, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))
    opened.engine.records.save(record)
    after = values(opened)
    for name, more in (
        ("gitsync_syncs_total['Succeeded', 'commit']", 1),
        ("gitsync_sync_steps_total['Succeeded', 'update']", 1),
        ("gitsync_sync_duration_seconds_sum[]", 0.3),
    ):
        assert round(after[name] - before.get(name, 0.0), 6) == more


def test_no_name_of_an_application_stands_in_the_open_metrics(site: Open) -> None:
    opened = site([application("very-secret-name")], token="a token")
    assert not re.search("very-secret-name", opened.get("/metrics").text)
