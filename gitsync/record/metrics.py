"""Metrics of finished syncs, in the process's registry of Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from gitsync.objects.record import SyncRecord

_SYNCS = Counter("gitsync_syncs", "Finished syncs", ["outcome", "trigger"])
_DURATION = Histogram(
    "gitsync_sync_duration_seconds",
    "How long syncs took, with waiting for health",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600),
)
_STEPS = Counter("gitsync_sync_steps", "Objects written by syncs", ["action", "outcome"])


def count(record: SyncRecord) -> None:
    """Count a sync that is over."""
    _SYNCS.labels(record.outcome.value, record.trigger).inc()
    _DURATION.observe(record.duration_ms / 1000)
    for step in record.steps:
        _STEPS.labels(step.action, step.outcome.value).inc()
