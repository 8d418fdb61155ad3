"""How many tokens agents used, as their metrics report it."""

from __future__ import annotations

from collections.abc import Mapping

from gitsync.ports import MetricsProvider

_QUERY = "sum by (namespace, service) (increase(gen_ai_client_token_usage_sum[1d]))"
"""By the metric of the GenAI semantic conventions 1.37; scrapes by a ServiceMonitor have the label ``service``."""
_MAX_AGE = 60.0


class TokenUsage:
    """Read the tokens of the last day from the operator's Prometheus; without one no number is known."""

    def __init__(self, metrics: MetricsProvider | None) -> None:
        self._metrics = metrics

    def by_service(self) -> Mapping[tuple[str, str], int]:
        """Return the tokens by namespace and name of the Service, at most a minute old; never waits."""
        # None until Prometheus has answered: pages are shown without the numbers
        result = self._metrics.read(_QUERY, _MAX_AGE) if self._metrics is not None else None
        samples = result.samples if result is not None else ()
        return {
            (sample.series.get("namespace", ""), sample.series.get("service", "")): round(sample.value)
            for sample in samples
            # round() takes neither infinity nor NaN, for which the comparison is false as well
            if sample.value < float("inf")
        }
