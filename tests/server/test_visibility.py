"""A viewer of one Application finds no other one in any answer: the routes are those that the dashboard has."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from gitsync.gate.policy import Policy, Require
from gitsync.objects.change import Risk
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ref_of
from gitsync.objects.user import User
from gitsync.ports import ResourceView
from gitsync.server.app import create_app
from gitsync.server.auth.access import Access, SignIn
from gitsync.server.auth.users import Users, add
from tests.asgi_server import Answer, Served, serve
from tests.replicas import still_dashboard
from tests.server.fakes import FORM, NOW, StillEngine, application, changed, engine, resource

OWN, HIDDEN, ABSENT = "shop", "vault", "absent"
WORD = "canary"
"""Only texts about the hidden Application have it."""
METRICS_TOKEN = "a token of the monitoring system"
FORM_HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}
JSON_HEADERS = {"Content-Type": "application/json"}
FIELDS = b"reason=why&newest=x&decision=approve&digest=" + b"d" * 64 + b"&token=" + FORM.encode()
WORDS = b'{"reason": "why", "verdict": "approve", "digest": "' + b"d" * 64 + b'"}'


def policy(name: str, *groups: str) -> Policy:
    require = Require.model_validate({"viewers": {"groups": list(groups)}})
    return Policy(name=name, applications=(f"gitsync/{name}", f"gitsync/agent:{name}"), require=(require,))


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard with an Application that Ada may see and one that only Eve may see."""

    app: FastAPI
    web: Served
    engine: StillEngine
    sync: int
    """The id of a sync of the hidden Application."""
    ada: str
    eve: str

    def routes(self, method: str) -> Iterator[str]:
        """Yield the paths of all routes that answer a method, but for the stream of events."""
        for path, operations in self.app.openapi()["paths"].items():
            if method.lower() in operations and path != "/live":
                yield path

    def path(self, template: str, name: str) -> str:
        """Return the path of a route for an Application; KeyError for a parameter that the walk does not know."""
        return template.format_map({"namespace": "gitsync", "name": name, "id": self.sync})

    def get(self, path: str, token: str) -> Answer:
        return self.web.ask(path, headers={**self.browser(token), "Accept": "text/html"})

    def post(self, path: str, token: str) -> Answer:
        is_api = path.startswith("/api/")
        headers = {**self.browser(token), **(JSON_HEADERS if is_api else FORM_HEADERS)}
        return self.web.ask(path, method="POST", body=WORDS if is_api else FIELDS, headers=headers)

    def browser(self, token: str) -> dict[str, str]:
        cookie = f"gitsync-form-{self.web.url.rpartition(':')[2]}={FORM}"
        return {"Authorization": f"Bearer {token}", "Origin": self.web.url, "Cookie": cookie}


def held(kind: str, **spec: Any) -> ResourceView:
    """Return an object of the agents' kinds that has the name of the hidden Application."""
    metadata = {"name": HIDDEN, "namespace": "gitsync", "uid": f"uid-{kind}"}
    live = {"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    view = resource(HIDDEN, kind)
    return replace(view, ref=ref_of(live), change=replace(view.change, ref=ref_of(live), live=live))


def generating(uid: str) -> ResourceView:
    """Return an ApplicationSet that an Application declares."""
    metadata = {"name": "set", "namespace": "gitsync", "uid": uid}
    live = {"apiVersion": API_VERSION, "kind": "ApplicationSet", "metadata": metadata}
    view = resource("set", "ApplicationSet")
    return replace(view, ref=ref_of(live), change=replace(view.change, ref=ref_of(live), live=live))


def generated(name: str) -> Manifest:
    """Return an Application of a set."""
    metadata = {"name": name, "namespace": "gitsync", "uid": f"uid-of-{name}"}
    status = {"health": "Degraded", "conditions": []}
    return {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "status": status}


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Dashboard]:
    drifted = resource(f"{WORD}-object", sync="OutOfSync", risk=Risk.DANGEROUS, differences=(changed(live=WORD),))
    agent = held("Agent", model={"id": WORD}, prompt={"inline": WORD})
    system = held("MultiAgentSystem", agents=[{"name": WORD, "spec": {"model": {"id": WORD}}}])
    hidden = application(
        HIDDEN, [drifted, agent, system], held=(f"waits for {WORD}",), message=f"Open the {WORD}", ready=WORD
    )
    drift = {"objects": 1, "detectedAt": NOW.isoformat()}
    hidden = replace(hidden, status={**hidden.status, "drift": drift})
    still = engine(tmp_path, [application(OWN, [resource("a"), generating(f"uid-{OWN}")]), hidden])
    still.view.children[f"uid-{OWN}"] = tuple(map(generated, (OWN, HIDDEN)))
    still.policies.named = (policy(OWN, "team", "auditors"), policy(HIDDEN, "auditors"))
    step = Step(f"/ConfigMap/shop/{WORD}-object", "update", "Safe", WORD, Outcome.SUCCEEDED)
    model = {"path": ".spec.model.id", "kind": "changed", "desired": WORD, "live": "before", "owners": []}
    moved = replace(step, ref=agent.ref.path, differences=(model,))
    commit = Commit("b" * 40, "Grace", message=f"Change the {WORD}")
    record = SyncRecord(
        f"gitsync/{HIDDEN}", commit, "drift", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step, moved)
    )
    saved = still.records.save(record)
    mine = Commit("a" * 40, "Ada", message="Mine")
    still.records.save(replace(record, application=f"gitsync/{OWN}", commit=mine, trigger="commit", steps=()))
    still.records.audit([AuditRecord.by_user(f"gitsync/{HIDDEN}", "suspend", User("grace"), NOW, f"the {WORD}")])
    still.records.audit([AuditRecord.by_user("", "policy", User(WORD), NOW, WORD)])
    still.records.audit([AuditRecord.by_user(f"gitsync/{OWN}", "suspend", User("ada"), NOW, "mine")])
    file = tmp_path / "users.yaml"
    tokens = add(file, "ada", ["team"]), add(file, "eve", ["auditors"])
    access = Access(SignIn(users=Users(file), metrics_token=METRICS_TOKEN))
    app = create_app(still, access)
    with serve(still_dashboard(still, access)) as web:
        yield Dashboard(app, web, still, saved.id, *tokens)
    still.records.close()


def test_no_list_names_another_application(dashboard: Dashboard) -> None:
    shown = 0
    for template in dashboard.routes("GET"):
        if "{" in template:
            continue
        for query in ("", f"?q=app:{HIDDEN}", f"?app=gitsync/{HIDDEN}", f"?app={HIDDEN}", f"?q=-app:{OWN}"):
            mine = dashboard.get(f"{template}{query}", dashboard.ada)
            assert WORD not in mine.text, f"{template}{query} shows the hidden Application"
            assert query or HIDDEN not in mine.text, f"{template} names the hidden Application"
            shown += WORD in dashboard.get(f"{template}{query}", dashboard.eve).text
    assert shown > 40, "the same routes show it to users who may see it"


def _without_replica(page: str) -> str:
    """Return a page without the name of the process that made it, which differs where the suite runs with two."""
    return re.sub(r' data-replica="\w+"', "", page)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_route_of_a_hidden_application_answers_as_if_it_did_not_exist(dashboard: Dashboard, method: str) -> None:
    routes = [path for path in dashboard.routes(method) if "{name}" in path and not path.startswith("/webhook/")]
    assert len(routes) > 5
    before = len(dashboard.engine.records.audit_records())
    for template in routes:
        ask = dashboard.get if method == "GET" else dashboard.post
        hidden = ask(dashboard.path(template, HIDDEN), dashboard.ada)
        absent = ask(dashboard.path(template, ABSENT), dashboard.ada)
        assert hidden.status == absent.status == 404, template
        assert _without_replica(hidden.text).replace(HIDDEN, ABSENT) == _without_replica(absent.text), template
    assert dashboard.engine.requests.done == []
    assert len(dashboard.engine.records.audit_records()) == before


def test_agents_of_an_application_are_shown_to_those_who_may_see_it(dashboard: Dashboard) -> None:
    for path in (
        "/agents",
        f"/agents/gitsync/{HIDDEN}",
        "/api/v1/agents",
        "/agents/environments",
        "/api/v1/agents/environments",
    ):
        assert WORD in dashboard.get(path, dashboard.eve).text
        assert WORD not in dashboard.get(path, dashboard.ada).text
    prompts = f"/agents/gitsync/{HIDDEN}/prompts"
    assert [dashboard.get(prompts, user).status for user in (dashboard.eve, dashboard.ada)] == [200, 404]


def test_a_held_plan_of_an_agent_is_shown_by_its_policy(dashboard: Dashboard) -> None:
    plan = {"digest": "d" * 64, "class": "Dangerous", "steps": 1, "reasons": [WORD]}
    metadata = {"name": HIDDEN, "namespace": "gitsync", "uid": "7"}
    agent = {"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": "Agent", "metadata": metadata}
    dashboard.engine.view.held = ({**agent, "status": {"plan": plan}},)
    for path in ("/approvals", f"/agents/gitsync/{HIDDEN}/plan"):
        assert WORD in dashboard.get(path, dashboard.eve).text
        assert WORD not in dashboard.get(path, dashboard.ada).text
    assert dashboard.post(f"/agents/gitsync/{HIDDEN}/review", dashboard.ada).status == 404


def test_no_page_of_an_own_application_shows_another_one(dashboard: Dashboard) -> None:
    found = 0
    for template in dashboard.routes("GET"):
        if "{name}" in template:
            answer = dashboard.get(dashboard.path(template, OWN), dashboard.ada)
            assert WORD not in answer.text, template
            assert HIDDEN not in answer.text, template
            found += answer.status == 200
    assert found > 10


def test_a_set_shows_the_applications_that_a_viewer_may_see(dashboard: Dashboard) -> None:
    tree = f"/api/v1/applications/gitsync/{OWN}/tree"
    generated = [f"/Application/gitsync/{name}" in dashboard.get(tree, dashboard.eve).text for name in (OWN, HIDDEN)]
    assert generated == [True, True]
    assert f"/Application/gitsync/{OWN}" in dashboard.get(tree, dashboard.ada).text


@pytest.mark.parametrize("chosen", [f"app=gitsync/{HIDDEN}", f"object=gitsync/{HIDDEN}%20/ConfigMap/shop/settings"])
def test_a_request_for_several_applications_reaches_no_hidden_one(dashboard: Dashboard, chosen: str) -> None:
    before = len(dashboard.engine.records.audit_records())
    asked = dashboard.get(f"/bulk?action=sync&{chosen}", dashboard.ada)
    headers = {**dashboard.browser(dashboard.ada), **FORM_HEADERS}
    fields = f"action=sync&reason=why&by=Ada&{chosen}&token={FORM}".encode()
    done = dashboard.web.ask("/bulk", method="POST", body=fields, headers=headers)
    for page in (asked, done):
        assert page.status == 200
        assert "is not known" in page.text
        assert WORD not in page.text
    assert dashboard.engine.requests.done == []
    assert len(dashboard.engine.records.audit_records()) == before


def test_the_own_records_are_listed(dashboard: Dashboard) -> None:
    assert "Mine" in dashboard.get("/changes", dashboard.ada).text
    assert "mine" in dashboard.get("/audit", dashboard.ada).text
    assert dashboard.get("/audit.jsonl", dashboard.ada).text.count("\n") == 1
    assert dashboard.get("/audit.jsonl", dashboard.eve).text.count("\n") == 3


def test_the_metrics_of_all_applications_are_for_who_sees_all_and_for_the_monitoring_system(
    dashboard: Dashboard,
) -> None:
    by = {token: dashboard.get("/metrics", token) for token in (dashboard.ada, dashboard.eve, METRICS_TOKEN)}
    assert [answer.status for answer in by.values()] == [403, 200, 200]
    assert "gitsync_applications" not in by[dashboard.ada].text
    assert dashboard.web.ask("/metrics").status == 401
    for path in ("/apps", "/api/v1/applications", "/metrics.json"):
        assert dashboard.get(path, METRICS_TOKEN).status in (303, 401), "the token reads nothing else"


def test_events_of_another_application_are_not_sent_also_after_a_change_of_the_policy(dashboard: Dashboard) -> None:
    host, _, port = dashboard.web.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as listener:
        lines = ("GET /live HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {dashboard.ada}", "", "")
        listener.sendall("\r\n".join(lines).encode())
        _read(listener, ": connected")
        dashboard.engine.view.happen(f"gitsync/{HIDDEN}")
        dashboard.engine.view.happen(f"gitsync/{OWN}")
        assert HIDDEN not in _read(listener, f'"gitsync/{OWN}"')
        dashboard.engine.policies.named = (policy(OWN, "auditors"), policy(HIDDEN, "team"))
        dashboard.engine.view.happen(f"gitsync/{OWN}")
        dashboard.engine.view.happen(f"gitsync/{HIDDEN}")
        assert OWN not in _read(listener, f'"gitsync/{HIDDEN}"')


def _read(listener: socket.socket, mark: str) -> str:
    text = ""
    while mark not in text:
        chunk = listener.recv(65536)
        assert chunk, text
        text += chunk.decode()
    return text
