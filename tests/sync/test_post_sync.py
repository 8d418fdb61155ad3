"""When metrics are queried, and which readings count for a commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gitsync.objects.application import MetricQuery, PostSync, SyncPolicy
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.parsing import duration
from gitsync.ports import MetricResult, Sample
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.sync.input import AnalysisRun, SyncState
from gitsync.sync.planner import Planned
from gitsync.sync.post_sync import PostSyncAnalysis
from tests.sync.factories import NOW, A, run


class FakeMetrics:
    """A monitoring system with one fixed answer; records the accepted age of each query."""

    def __init__(self, reading: MetricResult | None) -> None:
        self.reading = reading
        self.ages: list[float] = []

    def read(self, query: str, max_age: float) -> MetricResult | None:
        self.ages.append(max_age)
        return self.reading


def post_sync(timeout: float, lasting: str) -> PostSync:
    query = MetricQuery(name="rate", query="up", max="1", for_seconds=lasting)
    return PostSync(
        on_degraded="Rollback", health_timeout=duration(timeout), degraded_for=duration(0.0), queries=(query,)
    )


def limited(
    now: datetime = NOW,
    timeout: float = 600.0,
    watch: AnalysisRun | None = None,
    last_good: str = "",
    lasting: str = "0s",
) -> Planned:
    report = run(now=now)
    assert report.planned is not None
    app = replace(report.app, sync=SyncPolicy(post_sync=post_sync(timeout, lasting)))
    state = replace(report.state, analysis=watch, last_good=last_good)
    return replace(report.planned, inputs=replace(report.inputs, app=app, state=state))


@pytest.fixture
def records(tmp_path: Path) -> Iterator[SqlRecords]:
    made = SqlRecords(RecordDatabase(f"sqlite:///{tmp_path / 'history.db'}"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("watched", "timeout", "age"),
    [
        pytest.param(0.0, 600.0, 0.0, id="nothing from before the commit"),
        pytest.param(4.0, 600.0, 4.0, id="nothing from before the commit, a moment later"),
        pytest.param(60.0, 600.0, 15.0, id="every 15 s"),
        pytest.param(60.0, 100.0, 5.0, id="more often where the time is short"),
        pytest.param(60.0, 5.0, 0.5, id="but not without a rest"),
    ],
)
def test_a_reading_is_of_the_commit_that_is_judged(
    records: SqlRecords, watched: float, timeout: float, age: float
) -> None:
    asked = FakeMetrics(None)
    now = NOW + timedelta(seconds=watched)
    PostSyncAnalysis(records, asked).evaluate(limited(now, timeout, AnalysisRun("c" * 40, NOW)), {})
    assert asked.ages == [age]


def test_a_watch_of_another_commit_does_not_count(records: SqlRecords) -> None:
    planned = limited(watch=AnalysisRun("b" * 40, NOW - timedelta(hours=1), {"rate": NOW - timedelta(hours=1)}))
    found = PostSyncAnalysis(records, FakeMetrics(MetricResult((Sample(0.5),)))).evaluate(planned, {}).state
    assert found.analysis == AnalysisRun("c" * 40, NOW)
    assert found.last_good == ""


def test_a_commit_that_is_good_is_not_asked_about(records: SqlRecords) -> None:
    asked = FakeMetrics(MetricResult((Sample(5.0),)))
    planned = limited(watch=AnalysisRun("c" * 40, NOW), last_good="c" * 40)
    found = PostSyncAnalysis(records, asked).evaluate(planned, {}).state
    assert (asked.ages, found.analysis, found.rollback) == ([], None, None)


def test_one_that_is_just_over_its_limit_at_the_end_is_waited_for(records: SqlRecords) -> None:
    planned = limited(NOW + timedelta(seconds=601), watch=AnalysisRun("c" * 40, NOW), lasting="60s")
    found = PostSyncAnalysis(records, FakeMetrics(MetricResult((Sample(5.0),)))).evaluate(planned, {}).state
    assert (found.last_good, found.rollback) == ("", None)
    assert found.analysis is not None
    assert set(found.analysis.exceeded_since) == {"rate"}


def test_without_a_good_commit_there_is_nothing_to_go_back_to(records: SqlRecords) -> None:
    planned = limited()
    crashing = replace(planned.observation, health={A: HealthStatus(Health.DEGRADED, "crashes")})
    found = PostSyncAnalysis(records, None).evaluate(replace(planned, observation=crashing), {}).state
    assert found.rollback is not None
    assert found.rollback.message == (
        "ConfigMap shop/a: crashes, and no commit is known to be good: "
        "held until there is a newer commit than cccccccccccc"
    )
    assert [record.outcome.value for record in records.history()] == ["Held"]


def test_only_a_lasting_degradation_is_a_failure(records: SqlRecords) -> None:
    analysis, start = PostSyncAnalysis(records, None), AnalysisRun("c" * 40, NOW)
    rollback = SyncPolicy(post_sync=PostSync(on_degraded="Rollback", degraded_for=duration(30.0)))

    def found(seconds: float, run: AnalysisRun, health: Health) -> SyncState:
        planned = limited(NOW + timedelta(seconds=seconds), watch=run, last_good="a" * 40)
        observation = replace(planned.observation, health={A: HealthStatus(health, "is sick")})
        app = replace(planned.app, sync=rollback)
        planned = replace(planned, observation=observation, inputs=replace(planned.inputs, app=app))
        return analysis.evaluate(planned, {}).state

    first = found(1, start, Health.DEGRADED)
    assert first.rollback is None
    assert first.analysis is not None
    assert first.analysis.degraded_since == NOW + timedelta(seconds=1)
    still = found(30, first.analysis, Health.DEGRADED)
    assert still.rollback is None
    recovered = found(30, first.analysis, Health.PROGRESSING)
    assert recovered.analysis is not None
    assert recovered.analysis.degraded_since is None
    lasting = found(31, first.analysis, Health.DEGRADED)
    assert lasting.rollback is not None
    assert (lasting.rollback.to_commit, lasting.rollback.bad_commit) == ("a" * 40, "c" * 40)
