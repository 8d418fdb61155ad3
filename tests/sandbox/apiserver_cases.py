"""Replay the recorded answers of a real API server against a fresh sandbox, over HTTP."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import string
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.server import Sandbox
from tests.sandbox.answer_matching import Bindings, differences, same_message, text_differs

PATIENCE = 60.0
WORKERS = 4
Scenario = dict[str, Any]
Step = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a scenario went: what does not fit, and which texts of messages differ only in wording."""

    name: str
    problems: tuple[str, ...] = ()
    wordings: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all but the wording of messages fits."""
        return not self.problems

    @property
    def exact(self) -> bool:
        """Whether the messages fit too."""
        return not self.problems and not self.wordings


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body) if self.body.strip() else None

    def events(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines() if line.strip()]


@dataclass
class Replay:
    sandbox: Sandbox
    bindings: Bindings
    problems: list[str] = field(default_factory=list)
    wordings: list[str] = field(default_factory=list)


def scenarios(folder: Path) -> list[Scenario]:
    """Return all scenarios of a folder of recordings."""
    return [scenario for file in sorted(folder.glob("*.json")) for scenario in json.loads(file.read_text())]


def run(folder: Path, only: str = "") -> list[Outcome]:
    """Replay every scenario (whose name holds ``only``), each against a sandbox of its own."""
    wanted = [scenario for scenario in scenarios(folder) if only in scenario["name"]]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(replay, wanted))


def replay(scenario: Scenario) -> Outcome:
    """Replay one scenario; stop at the first step that does not fit, since the next depend on it."""
    namespace = "".join(random.Random(scenario["name"]).choices(string.ascii_lowercase, k=8))
    with Sandbox(controllers=bool(scenario.get("controllers"))) as sandbox:
        if sandbox.controllers is not None:  # the cluster of the recordings had neither metrics nor a StorageClass
            behaviour = sandbox.controllers.behaviour
            behaviour.metrics = False
            behaviour.start_delay, behaviour.stop_delay = 0.6, 0.5  # moments to be seen last longer than a slow poll
            sandbox.call(lambda cluster: cluster.delete(ObjectRef("storage.k8s.io", "StorageClass", "", "standard")))
        elif not any("until" in step for step in scenario["steps"]):
            sandbox.set_speed(0)  # recorded within a second, on which ages and the order of managedFields depend
        replaying = Replay(sandbox, Bindings(namespace, busy=bool(scenario.get("controllers"))))
        _prepare(replaying, controllers=bool(scenario.get("controllers")))
        for number, step in enumerate(scenario["steps"]):
            place = f"step {number} {step['method']} {step['path']}"
            try:
                found = [f"{place}: {problem}" for problem in _step(replaying, step)]
            except (OSError, http.client.HTTPException, ValueError):
                found = [f"{place}: {traceback.format_exc(limit=-2)}"]
            replaying.problems += found
            if found:
                break
        return Outcome(scenario["name"], tuple(replaying.problems), tuple(replaying.wordings))


def _prepare(replaying: Replay, *, controllers: bool) -> None:
    namespace = replaying.bindings.namespace
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    _send(replaying, {"method": "POST", "path": "/api/v1/namespaces", "body": body})
    if not controllers:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        _send(replaying, {"method": "POST", "path": path, "body": account})


def _step(replaying: Replay, step: Step) -> Iterator[str]:
    if step.get("wait"):
        time.sleep(step["wait"])
    answer = _send(replaying, step)
    deadline = time.monotonic() + PATIENCE
    while "until" in step and not _reached(step["until"], answer):
        if time.monotonic() > deadline:
            yield f"never became {step['until']}: {answer.status} {answer.body[-800:].decode(errors='replace')}"
            return
        time.sleep(0.03)
        answer = _send(replaying, step)
    if not step.get("quiet"):
        yield from _compare(replaying, step["expect"], answer)


def _send(replaying: Replay, step: Step) -> Answer:
    bindings = replaying.bindings
    headers = {"User-Agent": "conformance/1", "Accept": "application/json"}
    user = step.get("user")
    if user != "":
        headers["Authorization"] = f"Bearer {replaying.sandbox.token}"
    if user:
        headers["Impersonate-User"] = user
    body = None
    if "body" in step:
        value = bindings.resolve(step["body"])
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        headers["Content-Type"] = "application/json"
    headers.update(bindings.resolve(step.get("headers") or {}))
    address = replaying.sandbox.url.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=PATIENCE + 10)
    try:
        connection.request(step["method"], bindings.resolve(step["path"]), body, headers)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    if response.headers.get("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    return Answer(response.status, dict(response.headers), content)


def _reached(until: dict[str, Any], answer: Answer) -> bool:
    if "status" in until:
        return bool(answer.status == until["status"])
    if answer.status >= 300:
        return False
    value = answer.json()
    if "condition" in until:
        wanted = until["condition"]
        keys = ("type", "status", "reason")[: len(wanted)]
        conditions = (value.get("status") or {}).get("conditions") or []
        return any([condition.get(key) for key in keys] == wanted for condition in conditions)
    for part in until["pointer"].strip("/").split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return bool(value == until["equals"])


def _compare(replaying: Replay, expect: dict[str, Any], answer: Answer) -> Iterator[str]:
    bindings = replaying.bindings
    if answer.status != expect["status"]:
        yield f"status {answer.status} instead of {expect['status']}: {answer.body[:600].decode(errors='replace')}"
        return
    yield from _compare_headers(expect, answer, bindings)
    if "events" in expect:
        yield from differences(expect["events"], answer.events(), bindings, partial=bool(expect.get("partial")))
    if "statuses" in expect:
        yield from _compare_statuses(replaying, expect["statuses"], answer)
    if expect.get("body") is None:
        return
    body = expect["body"]
    if isinstance(body, str):
        text = answer.body.decode()
        if expect.get("partial"):
            text = text[: len(bindings.resolve(body))]
        if text_differs(body, text, bindings):
            yield f"expected the text {bindings.resolve(body)!r}, got {answer.body[:300]!r}"
        return
    found = answer.json()
    body, found = _without_messages(replaying, body, found)
    yield from differences(body, found, bindings, partial=bool(expect.get("partial")))


def _compare_headers(expect: dict[str, Any], answer: Answer, bindings: Bindings) -> Iterator[str]:
    wanted = {"Content-Type": "application/json", **(expect.get("headers") or {})}
    for name, value in wanted.items():
        given = answer.headers.get(name, "")
        if name == "Content-Type" and not answer.body:
            continue
        if text_differs(value, given, bindings):
            yield f"header {name}: expected {bindings.resolve(value)!r}, got {given!r}"
    if "Warning" in answer.headers and "Warning" not in wanted:
        yield f"header Warning: not expected, got {answer.headers['Warning']!r}"


def _compare_statuses(replaying: Replay, expected: list[Any], answer: Answer) -> Iterator[str]:
    seen: list[Any] = []
    for event in answer.events():
        obj = event["object"]
        entry = {"generation": obj["metadata"].get("generation"), "status": obj.get("status")}
        entry = {key: value for key, value in entry.items() if value is not None}
        if not seen or seen[-1] != entry:
            seen.append(entry)
    if not seen:
        yield "no statuses"
        return
    for name, index in (("first status", 0), ("last status", -1)):
        body, found = _without_messages(replaying, expected[index], seen[index])
        yield from differences(body, found, replaying.bindings, partial=False, path=name)
    wanted, found = _turns(expected), _turns(seen)
    if wanted != found:
        yield f"order of conditions: expected {wanted}, got {found}"


def _turns(statuses: list[Any]) -> list[tuple[str, str, str]]:
    """Return the conditions in the order in which they first showed."""
    turns: dict[tuple[str, str, str], None] = {}
    for entry in statuses:
        for condition in sorted((entry.get("status") or {}).get("conditions") or [], key=lambda c: str(c["type"])):
            turns[condition["type"], condition["status"], condition.get("reason", "")] = None
    return list(turns)


def _without_messages(replaying: Replay, body: Any, found: Any) -> tuple[Any, Any]:
    """Return both answers without the messages that both have; those are compared apart."""
    if isinstance(body, list) and isinstance(found, list) and len(body) == len(found):
        pairs = [_without_messages(replaying, *pair) for pair in zip(body, found, strict=True)]
        return [wanted for wanted, _ in pairs], [given for _, given in pairs]
    if not isinstance(body, dict) or not isinstance(found, dict):
        return body, found
    body, found = dict(body), dict(found)
    if isinstance(body.get("message"), str) and isinstance(found.get("message"), str):
        wanted, given = body.pop("message"), found.pop("message")
        if not same_message(wanted, given, replaying.bindings.copy()):
            replaying.wordings.append(f"expected {replaying.bindings.resolve(wanted)!r}, got {given!r}")
    for key in body.keys() & found.keys():
        body[key], found[key] = _without_messages(replaying, body[key], found[key])
    return body, found


def main(folder: Path, only: str = "") -> None:
    """Print a line for each scenario that does not pass, and the figures of each area."""
    outcomes = run(folder, only)
    areas: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        areas.setdefault(outcome.name.partition("/")[0], []).append(outcome)
        for problem in outcome.problems[:6]:
            print(f"FAIL {outcome.name}: {problem}")
        for wording in outcome.wordings[:3]:
            print(f"TEXT {outcome.name}: {wording}")
    for area, of_area in areas.items():
        passed = sum(outcome.passed for outcome in of_area)
        exact = sum(outcome.exact for outcome in of_area)
        print(f"{area}: {passed} of {len(of_area)} pass, {exact} to the letter")
    print(f"all: {sum(outcome.passed for outcome in outcomes)} of {len(outcomes)}")


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]), *sys.argv[2:3])
