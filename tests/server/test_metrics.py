"""What machines read."""

from __future__ import annotations

import re

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from gitsync import __version__
from gitsync.gate.policy import Policy, Require
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.ports import EndedReconcile
from gitsync.runtime.work_costs import Interval
from gitsync.state.costs import Costs
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


def test_an_application_is_counted_by_its_replica_alone(site: Open) -> None:
    opened = site([application("ours", resources=[resource("a")]), application("theirs", resources=[resource("b")])])
    opened.engine.is_replica = True
    opened.engine.others = frozenset({"gitsync/theirs"})
    counts = values(opened)
    assert counts["gitsync_applications_phase['Synced']"] == 1
    assert counts["gitsync_resources['Synced']"] == 1


def test_the_version_is_a_label(site: Open) -> None:
    opened = site()
    assert values(opened)[f"gitsync_build_info['{__version__}']"] == 1
    assert f'gitsync_build_info{{version="{__version__}"}} 1' in opened.get("/metrics").text


def test_pages_name_the_version(site: Open) -> None:
    assert f"<p>gitsync {__version__}</p>" in site([application()]).get("/").text


OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
"""What Prometheus asks for, in short."""


def test_openmetrics_has_the_trace_of_a_reconcile_as_an_exemplar(site: Open) -> None:
    class Traces:
        def add(self, done: EndedReconcile) -> str:
            return "a" * 32

    opened = site([application()])
    opened.engine.view.costs = Costs(Traces())
    opened.engine.view.costs.add(EndedReconcile("gitsync/shop", NOW, (Interval("plan", 0.0, 0.02, 0.01),)))
    answer = opened.get("/metrics", Accept=OPENMETRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(answer.text)}
    exemplars = [sample.exemplar for sample in families["gitsync_reconcile_stage_seconds"].samples if sample.exemplar]
    assert [(exemplar.labels, exemplar.value) for exemplar in exemplars] == [({"trace_id": "a" * 32}, 0.02)]
    # the same series, whatever the format
    text = text_string_to_metric_families(opened.get("/metrics").text)
    names = {sample.name for family in text for sample in family.samples}
    assert {sample.name for family in families.values() for sample in family.samples} == names


def test_clock_and_disk_are_measured(site: Open) -> None:
    counts = values(site())
    assert counts["gitsync_clock_seconds[]"] == NOW.timestamp()
    assert (counts["gitsync_data_size_bytes[]"], counts["gitsync_data_available_bytes[]"]) == (1000, 250)


def test_a_controller_that_cannot_sync_is_not_ready(site: Open) -> None:
    opened = site()
    assert opened.get("/readyz").status == 200
    assert values(opened)["gitsync_ready[]"] == 1
    opened.engine.found_problems = ("cannot renew our Lease: 401", "Application.gitsync.dev has not been listed yet")
    assert values(opened)["gitsync_ready[]"] == 0
    answer = opened.get("/readyz")
    assert answer.status == 503
    assert "cannot renew our Lease: 401; Application.gitsync.dev has not been listed yet" in answer.text


def test_requests_for_applications_and_sizes_of_caches_are_counted(site: Open) -> None:
    opened = site([application()])
    opened.engine.view.costs.requests_of("gitsync/shop").increment()
    found = values(opened)
    assert found["gitsync_application_api_requests_total[]"] == 1
    assert (found["gitsync_cached_objects['pods']"], found["gitsync_cached_objects['deployments.apps']"]) == (3, 2)
    assert found["gitsync_cache_entries['events']"] == 0
    assert found["gitsync_container_restarts['OOMKilled']"] == 3
    assert found["gitsync_database_bytes[]"] == 4096


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


@pytest.mark.parametrize("sign_in", [{}, {"token": "a token that people share"}])
def test_without_a_token_of_their_own_metrics_are_open_until_a_policy_names_viewers(
    site: Open, sign_in: dict[str, str]
) -> None:
    opened = site([application()], **sign_in)
    assert opened.get("/metrics").status == 200
    require = Require.model_validate({"viewers": {"groups": ["auditors"]}})
    opened.engine.policies.named = (Policy(name="vault", applications=("gitsync/vault",), require=(require,)),)
    refused = opened.get("/metrics")
    assert refused.status == 403
    assert "GITSYNC_METRICS_TOKEN" in refused.text
    assert "gitsync_" not in refused.text


def test_guesses_of_the_token_of_the_metrics_are_delayed(site: Open) -> None:
    opened = site(token="a token that people share", metrics_token="a token of the monitoring system")
    right = {"Authorization": "Bearer a token of the monitoring system"}
    assert opened.get("/metrics", **right).status == 200
    assert 429 in [opened.get("/metrics", Authorization=f"Bearer {number}").status for number in range(12)]
    assert opened.get("/metrics", **right).status == 200, "a token that was valid before is not delayed"


def test_no_name_of_an_application_stands_in_the_open_metrics(site: Open) -> None:
    opened = site([application("very-secret-name")], token="a token")
    assert not re.search("very-secret-name", opened.get("/metrics").text)


def test_who_has_the_token_gets_series_of_each_application_on_request(site: Open) -> None:
    views = [application("shop"), application("vault", health="Degraded")]
    opened = site(views, token="a token that people share", metrics_token="a token of the monitoring system")
    right = {"Authorization": "Bearer a token of the monitoring system"}
    assert "gitsync/shop" not in opened.get("/metrics", **right).text
    text = opened.get("/metrics?applications=true", **right).text
    assert (
        'gitsync_application_info{application="gitsync/vault",health="Degraded",phase="Synced",sync="Synced"} 1' in text
    )
    seen = floatToGoString(NOW.timestamp() - 3)
    assert f'gitsync_application_seen_seconds{{application="gitsync/shop"}} {seen}' in text
    assert 'gitsync_application_drift_corrected_total{application="gitsync/shop"} 0' in text


def test_open_metrics_have_no_series_of_each_application(site: Open) -> None:
    refused = site([application("shop")]).get("/metrics?applications=true")
    assert (refused.status, "gitsync/shop" in refused.text) == (403, False)
    assert "GITSYNC_METRICS_TOKEN" in refused.text
