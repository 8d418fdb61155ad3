"""Advice on plans from an OpenAI-compatible endpoint, once per plan; it may raise a risk class, never lower one."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from urllib.parse import urlsplit

import orjson

from gitsync.errors import RecordUnavailable
from gitsync.integrations.http import RequestFailed, host_of, request
from gitsync.integrations.reasoner_messages import INSTRUCTIONS, InvalidResponse, question, read_answer
from gitsync.objects.application import Application, OpenAI
from gitsync.objects.change import Plan
from gitsync.ports import Advice, AdviceCache, Clock

_TRIES = 2  # one retry: after a failure of the server, or an answer without the requested form
_HOUR = 3600.0
_REMEMBERED = 1024


class Advisor:
    """
    Implement the port Reasoner. ``hosts`` are those that the operator lets Applications ask.

    Whatever fails ends in an Advice that raises nothing and says so. ``answers`` keeps what was answered by plan
    digest, so that a restart sends no request again.
    """

    def __init__(self, hosts: Collection[str], clock: Clock, answers: AdviceCache, *, threads: int = 4) -> None:
        self._hosts = frozenset(host.strip() for host in hosts if host.strip())
        self._clock = clock
        self._answers = answers
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reasoner")
        self._lock = threading.Lock()
        self._asked: OrderedDict[tuple[str, OpenAI], Future[Advice]] = OrderedDict()
        self._spent: dict[str, deque[tuple[float, int]]] = {}

    def advise(self, app: Application, plan: Plan, key: str) -> Advice | None:
        """Return what the application's reasoner says of a plan, None while it has not answered."""
        endpoint = app.openai
        if endpoint is None:
            return Advice()
        host = host_of(endpoint.endpoint)
        # checked for each request: the operator's list limits to which hosts plans are sent
        if host not in self._hosts:
            return Advice(_fallback_note(f"host {host or 'of the endpoint'} is not in GITSYNC_REASONER_HOSTS"))
        with self._lock:
            # by digest and endpoint: another model may give other advice on the same plan
            future = self._asked.get((plan.digest, endpoint))
            if future is None:
                kept = self._kept(plan, endpoint)
                if kept is not None:
                    return kept
                if self._is_over_budget(app.key, endpoint):
                    return Advice(_fallback_note("its budget for this hour is spent"))
                # before the request: a plan that fails each time must use up the budget too
                self._spend(app.key, 0)
                future = self._pool.submit(self._ask, app.key, endpoint, plan, key)
                self._asked[plan.digest, endpoint] = future
                if len(self._asked) > _REMEMBERED:
                    self._asked.popitem(last=False)
        return future.result() if future.done() else None

    def close(self) -> None:
        """Cancel pending requests and send no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _kept(self, plan: Plan, endpoint: OpenAI) -> Advice | None:
        try:
            return self._answers.advice(plan.digest, _endpoint_hash(endpoint))
        # lost: the saved request; it is sent again
        except RecordUnavailable:
            return None

    def _store_advice(self, plan: Plan, endpoint: OpenAI, advice: Advice) -> None:
        # an answer that cannot be stored still counts; after a restart it is requested again
        with contextlib.suppress(RecordUnavailable):
            self._answers.keep_advice(plan.digest, _endpoint_hash(endpoint), advice)

    def _is_over_budget(self, application: str, endpoint: OpenAI) -> bool:
        since = self._clock.monotonic() - _HOUR
        # of all: an Application that is gone would keep its entry otherwise
        for name in [name for name, entries in self._spent.items() if entries[-1][0] <= since]:
            del self._spent[name]
        spent = [entry for entry in self._spent.get(application, ()) if entry[0] > since]
        if spent:
            self._spent[application] = deque(spent)
        # a request is entered before it is sent, without tokens, and again with those that its answer took
        calls = sum(not used for _, used in spent)
        tokens = sum(used for _, used in spent)
        return calls >= endpoint.calls_per_hour or tokens >= endpoint.tokens_per_hour

    def _spend(self, application: str, tokens: int) -> None:
        self._spent.setdefault(application, deque()).append((self._clock.monotonic(), tokens))

    def _ask(self, application: str, endpoint: OpenAI, plan: Plan, key: str) -> Advice:
        try:
            asked = question(plan)
        except orjson.JSONEncodeError:
            return Advice(_fallback_note("the plan has values without a JSON form"))
        failure = ""
        for _ in range(_TRIES):
            try:
                body = complete(endpoint, key, INSTRUCTIONS, asked)
                advice, tokens = read_answer(body, endpoint.model)
            except RequestFailed as error:
                failure = f"it {error}"
                if not error.retryable:
                    break
            except InvalidResponse as error:
                failure = f"its answer {error}"
            else:
                with self._lock:
                    self._spend(application, tokens)
                self._store_advice(plan, endpoint, advice)
                return advice
        return Advice(_fallback_note(failure))


def _endpoint_hash(endpoint: OpenAI) -> str:
    """Return a hash of the endpoint and the model."""
    return hashlib.sha256(f"{endpoint.endpoint}\n{endpoint.model}".encode()).hexdigest()


def _fallback_note(why: str) -> str:
    return f"(Explained by rules alone; the reasoner was not heard: {why}.)"


_MOST = 256 << 10
_ANSWER_TOKENS = 700


def complete(target: OpenAI, key: str, system: str, user: str) -> bytes:
    """Return the body of a chat completion; raise RequestFailed, whose text holds nothing of key or answer."""
    parts = urlsplit(target.endpoint)
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/chat/completions"
    sent = _body(target.model, system, user)
    status, body = request("POST", url, _headers(key), sent, timeout=target.timeout, max_bytes=_MOST)
    if status != 200:
        # 429 and 5xx are the server's state; anything else would be answered in the same way again
        raise RequestFailed(f"answered {status}", retryable=status == 429 or status >= 500)
    return body


def _headers(key: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return headers | {"Authorization": f"Bearer {key}"} if key else headers


def _body(model: str, system: str, user: str) -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return orjson.dumps(
        {
            "model": model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": _ANSWER_TOKENS,
            "response_format": {"type": "json_object"},
        }
    )
