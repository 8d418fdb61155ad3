"""What agents and Pods used, as metrics report it: tokens by Prometheus, CPU and memory by ``metrics.k8s.io``."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gitsync.agents.budget import Prices
from gitsync.errors import GitsyncError
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.ports import Clock, MetricSeries, MetricsHistory, MetricsProvider

_QUERY = "sum by (namespace, service) (increase(gen_ai_client_token_usage_sum[1d]))"
"""By the metric of the GenAI semantic conventions 1.37; scrapes by a ServiceMonitor have the label ``service``."""
_MAX_AGE = 60.0


_WEEK: Final = (
    "sum by (namespace, service, gen_ai_token_type) (increase(gen_ai_client_token_usage_sum[7d]))",
    'sum by (namespace, service) (increase(gen_ai_client_token_usage_count{gen_ai_token_type="input"}[7d]))',
    'sum by (namespace, service) (increase(gen_ai_client_token_usage_sum{gen_ai_token_type="output"}[7d]))',
)
"""All tokens, the number of requests, which each count their input once, and the tokens of answers."""
_WEEK_AGE: Final = 3600.0


@dataclass(frozen=True, slots=True)
class TokenWeek:
    """What an agent sent to its models in seven days: tokens, the requests that they were in, and those of answers."""

    tokens: float
    requests: float
    answered: float = 0.0


_OPERATIONS: Final = "gen_ai_client_operation_duration_seconds"
"""Latency and number of requests to the model; names as in docs/agents-operate.md."""


def figure_queries(ref: ObjectRef, period: str) -> dict[str, str]:
    """Return the queries for the figures of an Agent in a period such as ``[600s] offset 60s``."""
    agent = f'namespace="{ref.namespace}", service="{ref.name}"'
    chat = f'{agent}, gen_ai_operation_name="chat"'
    answered = f"sum(increase({_OPERATIONS}_count{{{chat}}}{period}))"
    failed = f'sum(increase({_OPERATIONS}_count{{{chat}, error_type!=""}}{period}))'
    called = f"sum(increase(agent_tool_calls_total{{{agent}}}{period}))"
    good = f'sum(increase(agent_tool_calls_total{{{agent}, outcome="ok"}}{period}))'
    return {
        "requests": answered,
        # a series of errors exists only after the first one
        "errors": f"({failed} or vector(0)) / {answered}",
        "latency": f"histogram_quantile(0.95, sum by (le) (increase({_OPERATIONS}_bucket{{{chat}}}{period})))",
        "toolsOk": f"({good} or vector(0)) / {called}",
        "tokens": f"sum(increase(gen_ai_client_token_usage_sum{{{agent}}}{period}))",
    }


def cost_query(ref: ObjectRef, period: str, prices: Prices) -> str:
    """Return the query for what an Agent's tokens cost in a period; ``prices`` are those of its budget."""
    terms = []
    for model, price in sorted(prices.items()):
        for direction, amount in (("input", price.input), ("output", price.output)):
            labels = f'namespace="{ref.namespace}", service="{ref.name}", gen_ai_token_type="{direction}"'
            # a JSON string is one of PromQL too
            series = f"gen_ai_client_token_usage_sum{{{labels}, gen_ai_request_model={json.dumps(model)}}}{period}"
            terms.append(f"(sum(increase({series})) or vector(0)) * {amount / 1e6!r}")
    return " + ".join(terms)


class TokenUsage:
    """Read what agents used from the operator's Prometheus; without one no number is known."""

    def __init__(self, metrics: MetricsProvider | None, history: MetricsHistory | None = None) -> None:
        self._metrics = metrics
        self._history = history

    def over_time(self, ref: ObjectRef, period: timedelta, prices: Prices) -> Mapping[str, MetricSeries]:
        """
        Return the figures of an Agent over a period, a minute old at most; those that are known; never waits.

        With the prices of models, ``cost`` is one of them.
        """
        if self._history is None:
            return {}
        seconds = period.total_seconds()
        # each value is of the time since the one before, but not of less than a few scrapes
        step = f"[{max(seconds / _STEPS, _LEAST_RATE):.0f}s]"
        queries = figure_queries(ref, step) | ({"cost": cost_query(ref, step, prices)} if prices else {})
        series = {name: self._history.read_series(query, seconds, _MAX_AGE) for name, query in queries.items()}
        return {name: values for name, values in series.items() if values is not None and values.points}

    def by_service(self) -> Mapping[tuple[str, str], int]:
        """Return the tokens by namespace and name of the Service, at most a minute old; never waits."""
        return {place: round(tokens) for place, tokens in self._sums(_QUERY, _MAX_AGE).items()}

    def last_week(self) -> Mapping[tuple[str, str], TokenWeek]:
        """Return the last seven days by namespace and name of the Service, an hour old at most; never waits."""
        tokens, requests, answered = (self._sums(query, _WEEK_AGE) for query in _WEEK)
        return {
            place: TokenWeek(tokens[place], requests[place], answered.get(place, 0.0))
            for place in tokens.keys() & requests.keys()
        }

    def _sums(self, query: str, max_age: float) -> dict[tuple[str, str], float]:
        # None until Prometheus has answered: pages are shown without the numbers
        result = self._metrics.read(query, max_age) if self._metrics is not None else None
        sums: dict[tuple[str, str], float] = {}
        for sample in result.samples if result is not None else ():
            # an infinite counter is a fault of an exporter; for NaN the comparison is false as well
            if sample.value < float("inf"):
                place = (sample.series.get("namespace", ""), sample.series.get("service", ""))
                sums[place] = sums.get(place, 0.0) + sample.value
        return sums


_STEPS: Final = 60
_LEAST_RATE: Final = 300.0
"""Seconds that a rate is of at least: scrapes are a minute apart at most."""
_PATIENCE: Final = 0.5
"""Seconds that a page waits for numbers: a metrics server answers within milliseconds, or is down."""
POD_METRICS: Final = GroupKind("metrics.k8s.io", "PodMetrics")
PodMetrics = Mapping[tuple[str, str], Manifest]
"""The PodMetrics by namespace and name of their Pods."""


def by_pod(metrics: Iterable[Manifest]) -> PodMetrics:
    """Return PodMetrics by namespace and name of their Pods."""
    return {(str(metadata_of(item).get("namespace")), str(metadata_of(item).get("name"))): item for item in metrics}


@dataclass(frozen=True, slots=True)
class UsageSample:
    """What the Pods of an object used together at a time; None for an amount that no metrics server knows."""

    time: datetime
    millicores: int | None
    mebibytes: int | None
    restarts: int


class UsageHistory:
    """
    Keep what the Pods of objects used while their pages were opened: the last hour, of the objects shown last.

    It asks for nothing: a page adds what it shows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: OrderedDict[ObjectRef, deque[UsageSample]] = OrderedDict()

    def add(self, ref: ObjectRef, sample: UsageSample) -> tuple[UsageSample, ...]:
        """Keep a sample of an object, and return those of its last hour, oldest first."""
        with self._lock:
            samples = self._samples.setdefault(ref, deque(maxlen=_SAMPLES))
            self._samples.move_to_end(ref)
            if len(self._samples) > _OBJECTS:
                self._samples.popitem(last=False)
            # pages are loaded again at each event: the newest values replace those of some seconds before
            if len(samples) > 1 and sample.time - samples[-2].time < _APART:
                samples.pop()
            samples.append(sample)
            return tuple(item for item in samples if sample.time - item.time <= _HOUR)


_HOUR: Final = timedelta(hours=1)
_APART: Final = timedelta(seconds=30)
_SAMPLES: Final = 120
"""Samples of an hour, at most two in a minute."""
_OBJECTS: Final = 500
"""Objects of which samples are kept, about 5 MB."""


class PodUsage:
    """
    Read what the Pods use, with one list a minute while pages are opened, and none otherwise.

    ``read`` lists the PodMetrics, and yields none without a request where no metrics server is installed.
    """

    def __init__(self, read: Callable[[], Iterable[Manifest]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        # one thread: a server that hangs is asked once
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pod-usage")
        self._lock = threading.Lock()
        self._asked = float("-inf")
        self._answer: Future[PodMetrics] | None = None
        self.history = UsageHistory()

    def by_pod(self) -> PodMetrics:
        """Return the PodMetrics, about a minute old at most; none of a server that does not answer at once."""
        now = self._clock.monotonic()
        with self._lock:
            answer = self._answer
            if answer is None or (answer.done() and now - self._asked >= _MAX_AGE):
                answer = self._answer = self._pool.submit(self._list)
                self._asked = now
        wait([answer], _PATIENCE)
        return answer.result() if answer.done() else {}

    def close(self) -> None:
        """Ask no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _list(self) -> PodMetrics:
        try:
            return by_pod(self._read())
        # a page shows all else about a Pod without what it uses
        except GitsyncError:
            return {}
