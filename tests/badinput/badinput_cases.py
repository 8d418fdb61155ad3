"""Run the bad-input cases through a real controller on a sandbox cluster, with a healthy application beside them."""

from __future__ import annotations

import hashlib
import hmac
import logging
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from gitsync.errors import GitsyncError
from gitsync.gate.policy import Policy
from gitsync.runtime.logs import configure
from gitsync.sandbox.server import Sandbox
from gitsync.sandbox.storage import StoreEvent
from gitsync.server.app import create_app
from tests.asgi_server import Served, serve
from tests.badinput.forms import places, unsupported
from tests.badinput.memory import PeakMemory
from tests.badinput.repository import CANARIES, GOOD, BareRepo, Entries, Places, application
from tests.badinput.signed_commits import Signers
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until

PATIENCE = 60.0
SECRET = "a secret of the webhook"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a case: what was wrong, one line each."""

    name: str
    area: str
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether all was as required."""
        return not self.problems


def run(folder: Path, only: str = "") -> list[Result]:
    """Run every case (whose name or area holds ``only``); two at a time, each in a world of its own."""
    suite = orjson.loads((folder / "cases.json").read_bytes())
    wanted = [case for case in suite["cases"] if only in f"{case['area']}/{case['name']}"]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda case: run_case(case, suite["defaults"]), wanted))


def run_case(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> Result:
    """Run one case with all its variants and return what was wrong, also a form of it that cannot be run."""
    unknown = tuple(unsupported(case))
    if unknown:
        return Result(case["name"], case["area"], unknown)
    try:
        with _world(case, defaults) as trial:
            problems = tuple(trial.problems())
    except (AssertionError, GitsyncError, OSError) as error:
        problems = (f"{type(error).__name__}: {error}",)
    return Result(case["name"], case["area"], problems)


@contextmanager
def _world(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="gitsync-bad-"))
    try:
        with Sandbox() as sandbox:
            is_local = case["name"] != "git-url-local-file"
            project = defaults["project"]
            policy = Policy(
                name=project["name"],
                namespaces=tuple(project["namespaces"]),
                kinds=tuple(project["kinds"]),
                cluster_kinds=tuple(project["clusterScoped"]),
                max_prune_share=defaults["limits"]["pruneHoldFraction"],
            )
            world = World(folder, sandbox, policy=policy, allow_file_urls=is_local)
            world.namespace(defaults["app"]["namespace"])
            try:
                with (
                    PeakMemory(folder / "data") as memory,
                    _logged() as log,
                    serve(create_app(world.start(), webhook_secret=SECRET)) as web,
                ):
                    yield Trial(case, defaults, world, web, folder, log, memory, with_neighbour=is_local)
            finally:
                world.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class _Log(NamedTuple):
    """What the controller logs while a case runs, to a file and to a terminal."""

    file: StringIO
    terminal: StringIO

    @property
    def text(self) -> str:
        return self.file.getvalue() + self.terminal.getvalue()


@contextmanager
def _logged() -> Iterator[_Log]:
    """Log as the command does."""
    log, found = logging.getLogger("gitsync"), _Log(StringIO(), _Terminal())
    before = log.handlers, log.propagate, log.level
    configure(found.terminal)
    terminal = log.handlers
    configure(found.file)
    log.handlers += terminal
    try:
        yield found
    finally:
        log.handlers, log.propagate = before[:2]
        log.setLevel(before[2])


class Trial:
    """One case in its world."""

    def __init__(
        self,
        case: Mapping[str, Any],
        defaults: Mapping[str, Any],
        world: World,
        web: Served,
        folder: Path,
        log: _Log,
        memory: PeakMemory,
        *,
        with_neighbour: bool,
    ) -> None:
        self._case = case
        self._defaults = defaults
        self._world = world
        self._folder = folder
        self._log = log
        self._memory = memory
        self._neighbour = BareRepo(folder / "neighbour.git") if with_neighbour else None
        self._trap = _Trap()
        self._web = web

    def problems(self) -> Iterator[str]:
        """Run every variant, with a healthy application beside it, and yield what is wrong."""
        if "request" in self._case:
            yield from self._web_problems()
            return
        if self._neighbour is not None:
            self._apply_neighbour(1)
        variants = self._case.get("variants") or [{}]
        if "values" in self._case:
            variants = [
                {"value": value, "place": place} for value in self._case["values"] for place in places(self._case)
            ]
        if self._case.get("steps"):
            last = self._case["steps"][-1]
            signed = [{"signed": words} for words in last.get("commit_variants") or ()]
            variants = signed or last.get("variants") or [{}]
        for number, variant in enumerate(variants):
            for problem in (*self._variant(number, variant), *self._on_live_object(number, variant)):
                yield f"variant {number}: {problem}"
        if self._memory.mib > self._defaults["limits"]["memoryMiB"]:
            yield f"a git or render process used {self._memory.mib} MiB"
        if self._neighbour is not None:
            self._apply_neighbour(2)
        if self._trap.count:
            yield f"{self._trap.count} connections were made"

    def _apply_neighbour(self, version: int) -> None:
        """Let the healthy application follow a new commit, and see it synced."""
        assert self._neighbour is not None
        commit = self._neighbour.commit(
            Entries({"app/cm.yaml": ("100644", config_map("near", v=str(version)).encode())})
        )
        if version == 1:
            self._world.apply(application({}, self._defaults["app"], "neighbour", self._neighbour.url))
        self._world.synced(commit, "neighbour", PATIENCE)

    def _variant(self, number: int, variant: Mapping[str, Any]) -> Iterator[str]:
        name = f"demo-{number}"
        repo = BareRepo(self._folder / f"{name}.git")
        filler = Places(repo.url, self._folder / "outside", self._folder / "marker", self._trap.port)
        case = filler.fill({**self._case, **variant, "app": {**self._case.get("app", {}), **variant.get("app", {})}})
        place = case.get("place", "")
        if place in ("branch name", "object name", "error text"):
            case["outcome"] = "either"
        self._write_outside(case)
        is_changed = bool(case.get("steps")) or bool(case.get("live"))
        try:
            if is_changed:
                self._first_state(case, name, repo)
            message = case["value"] if place == "commit message" else "Change"
            if "signed" in variant:
                repo.commit(Entries().add(_good("changed")))
                self._signers.sign(repo.path, variant["signed"])
            elif case.get("steps"):
                repo.commit(Entries().add(case["steps"][0]).add(variant), message)
            else:
                repo.commit(self._entries(case), message)
            if place == "author":
                repo.rename_author(case["value"])
            if place == "branch name":
                case["app"] = {"targetRevision": case["value"]}
                repo.branch(case["value"])
            if not is_changed:
                refusal = self._admit(application(case, self._defaults["app"], name, repo.url))
                if refusal:
                    yield from self._judge_refusal(case, refusal)
                    return
            status = self._settled(name, case["outcome"])
            yield from self._judge(case, name, status)
            if status.get("phase") != "Synced":
                yield from self._recovery(case, name, repo)
        finally:
            self._remove(name)

    def _recovery(self, case: Mapping[str, Any], name: str, repo: BareRepo) -> Iterator[str]:
        """Push a good revision, and repair what the case says about the application: it has to sync by itself."""
        if self._neighbour is None:
            return
        first = case["steps"][0] if case.get("steps") else {}
        if "signed" in case:  # every commit since the applied one has to be signed
            repo.undo()
        commit = repo.commit(Entries().add(first if "files" in first else _good("recovered")))
        manifest = application({}, self._defaults["app"], name, repo.url)
        if "signed" in case:
            commit = self._signers.sign(repo.path, "signed by trusted key")
            manifest["spec"]["source"]["verify"] = {"mode": "SignedCommits", "secretRef": {"name": "signers"}}
        self._world.apply(manifest)
        try:
            self._world.synced(commit, name, PATIENCE)
        except AssertionError as error:
            yield f"does not recover by a good revision: {error}"

    def _on_live_object(self, number: int, variant: Mapping[str, Any]) -> Iterator[str]:
        """Put the annotation of a variant on a live object, delete that one in Git, and see the application recover."""
        if "annotation" not in variant:
            return
        name = f"live-{number}"
        repo = BareRepo(self._folder / f"{name}.git")
        notes = {f"{_domain(key)}{key}": text for key, text in variant["annotation"].items()}
        try:
            self._world.apply(application({}, self._defaults["app"], name, repo.url))
            self._world.synced(repo.commit(Entries().add(_good())), name, PATIENCE)
            metadata = {"name": "good", "namespace": "team-a", "annotations": notes}
            self._world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, "kubectl")
            other = {"app/kustomization.yaml": "resources: [x.yaml]\n", "app/x.yaml": config_map("x", k="v")}
            repo.commit(Entries().add({"files": other}))
            yield from self._leaks(name, _message(self._settled(name, "either")))
            yield from self._recovery({}, name, repo)
        finally:
            self._remove(name)

    def _write_outside(self, case: Mapping[str, Any]) -> None:
        for path, text in (case.get("outside") or {}).items():
            target = self._folder / "outside" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def _entries(self, case: Mapping[str, Any]) -> Entries:
        entries = Entries().add(case)
        if (
            not any(path.startswith("app") for path in entries.files)
            and case.get("app", {}).get("path", "app") == "app"
        ):
            notes, place = dict(case.get("annotation") or {}), case.get("place", "")
            if place == "annotation":
                notes["link"] = case["value"]
            lines = "".join(f"    {_domain(key)}{key}: {orjson.dumps(text).decode()}\n" for key, text in notes.items())
            filled = {
                path: text.replace("{annotations}", f"  annotations:\n{lines}" if lines else "")
                for path, text in GOOD.items()
            }
            written = orjson.dumps(case.get("value", "")).decode()
            if place == "object name":
                filled["app/cm.yaml"] = filled["app/cm.yaml"].replace("name: good", f"name: {written}")
            if place == "error text":
                filled["app/cm.yaml"] += f"{written}: an unknown field\n"
            entries.add({"files": filled})
        return entries

    def _first_state(self, case: Mapping[str, Any], name: str, repo: BareRepo) -> None:
        """Create the state before the case: objects of another manager, or a good revision that was synced."""
        for item in case.get("live") or ():
            if isinstance(item, dict):
                self._world.apply(item, "kubectl")
        first = case["steps"][0] if case.get("steps") else {}
        commit = repo.commit(Entries().add(first if "files" in first else _good()))
        manifest = application(case, self._defaults["app"], name, repo.url)
        if "commit" in first:
            self._signers = Signers(self._folder / f"{name}-keys")
            commit = self._signers.sign(repo.path, first["commit"])
            keys = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "signers", "namespace": NAMESPACE}}
            self._world.apply({**keys, "stringData": self._signers.keys})
            manifest["spec"]["source"]["verify"] = {"mode": "SignedCommits", "secretRef": {"name": "signers"}}
        self._world.apply(manifest)
        self._world.synced(commit, name, PATIENCE)

    def _admit(self, manifest: dict[str, Any]) -> str:
        """Apply the Application; return what the API server says when it refuses it."""
        try:
            self._world.apply(manifest)
        except GitsyncError as error:
            return str(error)
        return ""

    def _settled(self, name: str, outcome: str) -> dict[str, Any]:
        """Wait for the verdict on the application and return its status."""

        def verdict() -> dict[str, Any] | None:
            status = self._world.status(name)
            phase = status.get("phase")
            if phase in ("Failed", "AwaitingApproval"):
                return status
            return status if phase == "Synced" and outcome in ("accept", "either") else None

        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = verdict()
            if found:
                return found
            time.sleep(0.05)
        return self._world.status(name)

    def _judge_refusal(self, case: Mapping[str, Any], refusal: str) -> Iterator[str]:
        if case["outcome"] == "accept":
            yield f"was refused: {refusal}"
        else:
            yield from _mentions(case, refusal)
        yield from self._leaks("", refusal)

    def _judge(self, case: Mapping[str, Any], name: str, status: Mapping[str, Any]) -> Iterator[str]:
        phase, message = status.get("phase"), _message(status)
        outcome = case["outcome"]
        if outcome == "accept" and phase != "Synced":
            yield f"is {phase} instead of Synced: {message}"
        if outcome == "hold" and phase != "AwaitingApproval":
            yield f"is {phase} instead of held: {message}"
        if outcome == "reject" and phase != "Failed":
            yield f"is {phase} instead of refused: {message}"
        if outcome in ("reject", "hold") or (outcome == "either" and phase == "Failed"):
            yield from _mentions(case, message)
            if outcome == "reject" and not (case.get("live") or case.get("steps")):
                yield from (f"{ref} was written" for ref in self._written(name))
            if phase == "Failed" and not self._is_audited(name):
                yield "the refusal is not in the audit"
        if case.get("live") or case.get("steps"):
            yield from self._kept(case)
        if "expected_data" in case:
            found = (self._world.get("ConfigMap", "good", "team-a") or {}).get("data")
            if found != case["expected_data"]:
                yield f"data is {found}"
        if len(message) > 1024 or any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in message):
            yield f"the message is not one printable line of at most 1,024 characters: {message[:80]!r}"
        own = [str(self._folder / part) for part in ("outside", "marker")]  # these the input itself has named
        if str(self._folder) in message.replace(own[0], "").replace(own[1], ""):
            yield f"the message names a path of this machine: {message}"
        yield from self._leaks(name, message)
        if "value" in case:
            yield from self._markup(name, case["value"])

    def _kept(self, case: Mapping[str, Any]) -> Iterator[str]:
        """What was there before must be there still."""
        names = [f"c{index}" for index in range(20)] if "files" in (case.get("steps") or [{}])[0] else []
        if "signed" in case:
            found = (self._world.get("ConfigMap", "good", "team-a") or {}).get("data")
            if found != {"k": "v"}:
                yield f"the last good revision does not stay applied: {found}"
        names += ["good"] if case.get("live") and isinstance(case["live"][0], str) else []
        yield from (
            f"ConfigMap {name} was deleted" for name in names if not self._world.get("ConfigMap", name, "team-a")
        )

    def _written(self, name: str) -> list[str]:
        """Return the objects that were applied for the application."""
        return [
            f"{item['kind']} {item['metadata']['name']}"
            for kind, plural in (("ConfigMap", "configmaps"), ("Secret", "secrets"), ("Namespace", "namespaces"))
            for item in self._listed(kind, plural)
            if str(item["metadata"].get("annotations", {}).get("gitsync.dev/tracking-id", "")).startswith(
                f"gitsync/{name}:"
            )
        ]

    def _listed(self, kind: str, plural: str) -> list[dict[str, Any]]:
        return [{**item, "kind": kind} for item in self._world.client.get(f"/api/v1/{plural}")["items"]]

    def _is_audited(self, name: str) -> bool:
        return bool(self._world.controller.records.audit_records(f"{NAMESPACE}/{name}", limit=5))

    def _leaks(self, name: str, message: str) -> Iterator[str]:
        """Search all outputs for secret text, executed input and stack traces."""
        if (self._folder / "marker").exists():
            yield "input was executed: the marker exists"
        for place, text in self._outputs(name, message):
            yield from (f"secret text in {place}" for canary in CANARIES if canary in text)
            if "Traceback (most recent" in text:
                yield f"a stack trace in {place}"

    def _outputs(self, name: str, message: str) -> Iterator[tuple[str, str]]:
        records = self._world.controller.records
        yield "the message", message
        yield "the log", self._log.text
        yield "the status", orjson.dumps(self._world.status(name)).decode() if name else ""
        yield "the audit", repr(records.audit_records(limit=200))
        yield "the history", repr(records.history(limit=50))
        for path in ("/", "/apps", "/metrics"):
            yield path, self._web.ask(path).text
        for tab in ("", "/diff", "/history", "/events") if name else ():
            yield tab or "the page", self._web.ask(f"/apps/{NAMESPACE}/{name}{tab}").text

    def _markup(self, name: str, value: str) -> Iterator[str]:
        for place, text in self._outputs(name, ""):
            if place in ("the message", "the log", "the status", "the audit", "the history", "/metrics"):
                if place == "the log" and "\x1b" in text:
                    yield "a raw escape character in the log"
                continue
            if "<" in value and value in text:
                yield f"markup unescaped in {place}"
            if any(f'href="{scheme}' in text.lower() for scheme in ("javascript", "data:", "title|")):
                yield f"a link with a dangerous scheme in {place}"
            if any(char in text for char in "\x1b\u202e"):
                yield f"an invisible character in {place}"

    def _remove(self, name: str) -> None:
        """Take the application and what it left away, so that the next variant starts clean."""
        found = self._world.get("Application", name, NAMESPACE, "gitsync.dev/v1alpha1")
        if found is None:
            return
        # without pruning nothing has to be approved; a spec that cannot be parsed does not block deletion
        path = f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/{name}"
        self._world.client.send("PUT", path, {**found, "spec": {**found["spec"], "sync": {"prune": False}}})
        self._world.client.send("DELETE", path, {})
        until(
            lambda: self._world.get("Application", name, NAMESPACE, "gitsync.dev/v1alpha1") is None,
            PATIENCE,
            lambda: f"{name} is not gone: {self._world.status(name)}",
        )
        view = self._world.controller.view
        until(lambda: view.application(f"{NAMESPACE}/{name}") is None, PATIENCE, lambda: f"{name} is still known")
        for item in self._world.client.get("/api/v1/namespaces/team-a/configmaps")["items"]:
            if item["metadata"]["name"] not in ("near", "kube-root-ca.crt"):
                self._world.client.send(
                    "DELETE", f"/api/v1/namespaces/team-a/configmaps/{item['metadata']['name']}", {}
                )

    def _web_problems(self) -> Iterator[str]:
        """Send every variant of the case's request; all must be refused alike, and none may enqueue anything."""
        request = self._case["request"]
        bodies = request.get("body_variants") or [request["body"]]
        if "header_variants" in request:
            yield from self._without_secret(request)
        answers = []
        writes = self._writes()
        for provider in request.get("providers") or ["github"]:
            path = request["path"].replace("{provider}", provider)
            for item in bodies:
                body = (item if isinstance(item, str) else item["repeat"] * item["times"]).encode()
                for headers in request.get("header_variants") or [signed(provider, body)]:
                    filled = {key: _header(text, body) for key, text in headers.items()}
                    answer = self._web.ask(path, method="POST", body=body, headers=filled)
                    answers.append(answer)
                    allowed = (401, 403) if "header_variants" in request else (400, 413)
                    if answer.status not in allowed:
                        yield f"{provider} answered {answer.status} to {body[:40]!r}"
                    yield from _mentions(self._case, answer.text)
        if "header_variants" in request and len({answer.text for answer in answers}) != 1:
            yield "the refusals differ"
        if writes:
            yield f"something was written: {', '.join(writes)}"

    def _writes(self) -> list[str]:
        """Return the resources that are written from now on, once the start of the controller is over."""
        writes: list[str] = []

        def observe(resource: str, event: StoreEvent) -> None:
            if "leases" not in resource:  # renewed every few seconds, whatever is requested
                writes.append(resource)

        def is_quiet() -> bool:
            writes.clear()
            time.sleep(0.3)
            return not writes

        self._world.sandbox.call(lambda cluster: cluster.store.observe(observe))
        until(is_quiet)
        return writes

    def _without_secret(self, request: Mapping[str, Any]) -> Iterator[str]:
        """Send the request, rightly signed and not signed, where no secret is configured: the endpoint is off."""
        body = request["body"].encode()
        with serve(create_app(self._world.controller)) as web:
            for headers in ({}, signed("github", body)):
                answer = web.ask(request["path"], method="POST", body=body, headers=headers)
                if answer.status not in (401, 403):
                    yield f"answered {answer.status} without a configured secret"
                yield from _mentions(self._case, answer.text)


def _good(value: str = "v") -> dict[str, Any]:
    """Return files that are as they should be."""
    return {
        "files": {path: text.replace("{annotations}", "").replace("k: v", f"k: {value}") for path, text in GOOD.items()}
    }


def signed(provider: str, body: bytes) -> dict[str, str]:
    """Return the headers of a request that is signed as it should be."""
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "github": {"X-Hub-Signature-256": f"sha256={digest}"},
        "gitea": {"X-Gitea-Signature": digest},
        "bitbucket": {"X-Hub-Signature": f"sha256={digest}"},
        "gitlab": {"X-Gitlab-Token": SECRET},
    }[provider]


def _header(text: str, body: bytes) -> str:
    other = hmac.new(SECRET.encode(), b"another body", hashlib.sha256).hexdigest()
    old = hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest()
    return text.replace("$SIG_OF_OTHER_BODY", f"sha256={other}").replace("$SHA1_SIG", f"sha1={old}")


class _Trap:
    """A listener that counts connections; none is expected."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.count = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            self.count += 1
            connection.close()


def _domain(key: str) -> str:
    return "gitsync.dev/" if "/" not in key else ""


def _message(status: Mapping[str, Any]) -> str:
    """Return the message that users see: the one of the failed condition."""
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    ready = next((item for item in conditions if item["type"] == "Ready"), {})
    problems = [f"{item['object']}: {item['message']}" for item in status.get("problems") or ()]
    return "; ".join([str(ready.get("message", "")), *problems])[:1100]


def _mentions(case: Mapping[str, Any], message: str) -> Iterator[str]:
    for words in case["error_mentions"]:
        if not any(word.lower() in message.lower() for word in words):
            yield f"the error names none of {words}: {message[:300]}"
