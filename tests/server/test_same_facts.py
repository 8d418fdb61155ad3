"""
The same facts everywhere: pages, API, metrics, command line and `kubectl get` of Applications in many states.

A state that is shown from another source than the one that decides is false sooner or later: each of these is read
from what is sent to a user, and compared with the API.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.cli.applications import is_good
from gitsync.cli.output import Exit
from gitsync.cluster.client import Client, Connection
from gitsync.errors import Rejected
from gitsync.objects.health import Health
from gitsync.objects.phase import Phase
from gitsync.ports import ApplicationView
from gitsync.sandbox.server import Sandbox
from gitsync.server.queries.words import words
from tests.server.conftest import Open, Site
from tests.server.fakes import application, resource
from tests.waiting import until

APPLICATIONS = "/apis/gitsync.dev/v1alpha1/namespaces/gitsync/applications"
CRD = Path(__file__).parents[2] / "manifests" / "gitsync" / "crds" / "application.yaml"
COMPARISONS = (("Synced", "Healthy"), ("OutOfSync", "Healthy"), ("OutOfSync", "Degraded"), ("Unknown", "Unknown"))
STATES = list(product(Phase, COMPARISONS))
URGENT = ("Failed", "Degraded", "InvalidManifests", "FetchFailed")
"""States that the wall counts as failed."""
ATTENTION = ("Rejected", "AwaitingApproval", "Drifted", "Missing", "Unknown")
"""States that need a person, and have not failed."""
STATE = re.compile(r'class="state (?:mark )?s-[a-z]+"[^>]*>(?:<i[^>]*></i>)?([^<]*)<')


def name_of(phase: Phase, sync: str, health: str) -> str:
    return f"{phase.value}-{sync}-{health}".lower()


def view_of(phase: Phase, sync: str, health: str) -> ApplicationView:
    """Return an Application in a state, with an object that explains its health."""
    name = name_of(phase, sync, health)
    sick = resource("web", "Deployment", health=Health(health), message=f"{name} crashes")
    message = {Phase.SUSPENDED: f"spec.suspend is true; 1 object of {name} differs"}.get(phase, f"{name} waits")
    held = ("it waits",) if phase is Phase.AWAITING_APPROVAL else ()
    made = application(
        name, [sick, resource("a")], phase=phase.value, sync=sync, health=health, ready=message, held=held
    )
    since = "2026-03-01T11:50:00Z"
    conditions = [{**condition, "reason": "Tested"} for condition in made.status["conditions"]]
    return replace(made, status={**made.status, "conditions": conditions, "phaseSince": since, "healthSince": since})


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The Applications in all states: as the API has them, and the site that shows them."""

    site: Site
    views: dict[str, ApplicationView]
    known: dict[str, dict[str, Any]]

    def states(self, name: str) -> list[str]:
        """Return the states of an Application by the API, the worst first."""
        known = self.known[name]
        return [known["state"], *(other["state"] for other in known["also"])]


@pytest.fixture
def everywhere(site: Open) -> Everywhere:
    views = [view_of(phase, *comparison) for phase, comparison in STATES]
    opened = site(views)
    items = json.loads(opened.get("/api/v1/applications?limit=100").text)["items"]
    known = {item["name"]: item for item in items}
    assert len(known) == len(STATES)
    return Everywhere(opened, {view.key.partition("/")[2]: view for view in views}, known)


def rows(site: Site, path: str, tag: str) -> dict[str, list[str]]:
    """Return the states that a page shows for each Application that it lists."""
    shown: dict[str, list[str]] = {}
    for name, row in re.findall(
        rf'<{tag}[^>]* data-row="gitsync/([^"]*)">(.*?)</{tag}>', site.get(path).text, re.DOTALL
    ):
        shown.setdefault(name, []).extend(state.strip() for state in STATE.findall(row))
    return shown


def metrics(site: Site) -> Iterator[tuple[str, str, float]]:
    """Yield name, label and value of the metrics over Applications."""
    for name, label, value in re.findall(
        r'^gitsync_applications_(\w+)(?:\{\w+="(\w+)"\})? (\S+)$', site.get("/metrics").text, re.MULTILINE
    ):
        yield name, label, float(value)


def test_the_list_shows_the_states_of_the_api(everywhere: Everywhere) -> None:
    listed: dict[str, list[str]] = {}
    for start in range(0, len(STATES), 50):
        listed |= rows(everywhere.site, f"/apps?start={start}", "tr")
    for name, known in everywhere.known.items():
        expected = [*everywhere.states(name), known["sync"], known["health"]]
        assert listed[name] == [words(state) for state in expected], name


def test_the_page_of_an_application_shows_the_states_and_reasons_of_the_api(everywhere: Everywhere) -> None:
    for name, known in everywhere.known.items():
        page = everywhere.site.get(f"/apps/gitsync/{name}").text
        title = page.partition("<h1>")[2].partition("<form")[0]
        assert [state.strip() for state in STATE.findall(title)] == [words(s) for s in everywhere.states(name)], name
        shown = known["state"] != "Synced" and known["state"] not in ("OutOfSync", "Progressing")
        banners = "".join(re.findall(r'<p class="alarm.*?</p>', page, re.DOTALL))
        for verdict in (known, *known["also"]) if shown else ():
            if verdict["state"] in (*URGENT, "AwaitingApproval", "Suspended", "Rejected", "Drifted"):
                assert verdict["reason"] in banners, (name, verdict["state"])


def test_home_and_wall_show_what_needs_a_user(everywhere: Everywhere) -> None:
    wall = everywhere.site.get("/wall").text
    big = {word: int(count) for count, word in re.findall(r"<b>(\d+)</b> ([a-zA-Z ]+)</li>", wall)}
    states = {name: everywhere.states(name) for name in everywhere.known}
    urgent = [name for name, of in states.items() if set(of) & set(URGENT)]
    assert big["failed"] == len(urgent)
    assert big["applications"] == len(STATES)
    needing = [name for name, of in states.items() if set(of) & set(ATTENTION) and name not in urgent]
    assert big["need attention"] == len(needing), "each is counted once"
    assert big["match Git"] + big["failed"] + big["need attention"] <= len(STATES)
    assert big["suspended"] == sum("Suspended" in of for of in states.values()), "as on home"
    tiles = everywhere.site.get("/").text.partition('aria-labelledby="needs"')[0]
    for member, values in (("sync", ("Synced", "OutOfSync", "Unknown")), ("health", ("Healthy", "Degraded"))):
        for value in values:
            count = sum(known[member] == value for known in everywhere.known.values())
            assert f'href="/apps?q={member}:{value}"><b>{count}</b>' in tiles, value
    suspended = [name for name, of in states.items() if "Suspended" in of]
    assert f'href="/apps?q=is:suspended"><b>{len(suspended)}</b>' in tiles
    assert sorted(rows(everywhere.site, "/apps?q=is:suspended", "tr")) == sorted(suspended)


def test_home_lists_a_problem_once_and_the_wall_the_suspended(everywhere: Everywhere) -> None:
    home = everywhere.site.get("/").text
    others = home.partition('aria-labelledby="apps"')[2]
    needed = home.partition('id="attention"')[2].partition("</section>")[0].partition('class="running"')[0]
    both = [name for name in everywhere.known if f'/{name}"' in needed and f'/{name}"' in others]
    assert both == []
    wall = everywhere.site.get("/wall").text
    for comparison in COMPARISONS:
        suspended = name_of(Phase.SUSPENDED, *comparison)
        assert f"<b>{suspended}</b> Nothing is synced until it is resumed; 1 object of {suspended} differs" in wall


def test_metrics_count_the_states_of_the_api(everywhere: Everywhere) -> None:
    counted = {(name, label): value for name, label, value in metrics(everywhere.site)}
    for member in ("sync", "health", "phase"):
        for value, count in Counter(known[member] for known in everywhere.known.values()).items():
            assert counted[member, value] == count, (member, value)
    waiting = [name for name in everywhere.known if "AwaitingApproval" in everywhere.states(name)]
    assert counted["awaiting_approval", ""] == len(waiting)


def listed_by_kubectl(client: Client) -> dict[str, dict[str, Any]]:
    """Return the columns that ``kubectl get -o wide`` prints of each Application, by its name."""
    table = client.get(APPLICATIONS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [column["name"] for column in table["columnDefinitions"]]
    rows = [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]
    return {row["Name"]: row for row in rows}


def listed_by_gitsync(kubeconfig: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code of ``gitsync status``, and its rows by name."""
    command = [sys.executable, "-m", "gitsync", "status", "--kubeconfig", str(kubeconfig), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {row["name"]: row for row in json.loads(done.stdout)}


def test_the_command_line_and_kubectl_show_the_states_of_the_api(everywhere: Everywhere, tmp_path: Path) -> None:
    """By a cluster that has the same Applications."""
    with Sandbox(workloads=False) as server:
        config = server.kubeconfig(tmp_path / "config")
        client = Client(Connection(str(config)))
        crd = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
        client.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        client.send("POST", "/api/v1/namespaces", {"metadata": {"name": "gitsync"}})
        until(lambda: _is_served(client))
        for name, view in everywhere.views.items():
            spec = {"source": {"repoURL": "https://git.example.com/shop.git"}}
            kind = {"apiVersion": "gitsync.dev/v1alpha1", "kind": "Application"}
            created = client.send("POST", APPLICATIONS, {**kind, "metadata": {"name": name}, "spec": spec})
            client.send("PUT", f"{APPLICATIONS}/{name}/status", {**created, "status": view.status})
        by_kubectl = listed_by_kubectl(client)
        code, by_gitsync = listed_by_gitsync(config)
    assert set(by_kubectl) == set(by_gitsync) == set(everywhere.known)
    for name, known in everywhere.known.items():
        for member, column in (("sync", "Sync"), ("health", "Health"), ("phase", "Phase"), ("reason", "Message")):
            assert by_gitsync[name][member] == by_kubectl[name][column], (name, member)
        assert [by_kubectl[name][column] for column in ("Sync", "Health", "Phase")] == [
            known[member] for member in ("sync", "health", "phase")
        ], name
        assert by_kubectl[name]["Revision"][:7] == by_gitsync[name]["revision"][:7] == known["applied"], name
        if known["isSuspended"]:
            assert f"1 object of {name} differs" in by_kubectl[name]["Message"]
    assert code == Exit.DIFFERENT
    for name, view in everywhere.views.items():
        known = everywhere.known[name]
        good = is_good({"metadata": {"namespace": "gitsync", "name": name}, "status": view.status})
        assert good == ((known["sync"], known["health"]) == ("Synced", "Healthy")), name


def _is_served(client: Client) -> bool:
    """Return whether the definition of Applications is served."""
    try:
        return client.get(APPLICATIONS)["items"] == []
    except Rejected:
        return False


def test_filters_find_every_state_that_is_shown(everywhere: Everywhere) -> None:
    for state in {state for name in everywhere.known for state in everywhere.states(name)}:
        having = sorted(name for name in everywhere.known if state in everywhere.states(name))
        answer = json.loads(everywhere.site.get(f"/api/v1/applications?limit=100&q=state:{state}").text)
        assert sorted(item["name"] for item in answer["items"]) == having, state
