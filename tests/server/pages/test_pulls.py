"""Pull requests that wait, on the page and in the API by the same query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from gitsync.ports.previews import Proposal, ProposalView
from gitsync.preview.report import ReportedRefusal, ReportedRehearsal, with_rehearsal
from gitsync.server.visibility import VisibleProposals
from tests.preview.factories import deployment, report
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, StillProposals, application

HOSTILE = "<script>alert(1)</script>\u202e @all"
BASE = {"web/deployment.yaml": deployment(), "web/kustomization.yaml": "resources: [deployment.yaml]"}
SCALED = {**BASE, "web/deployment.yaml": deployment(replicas=3)}


def proposal(number: int = 1, **members: Any) -> ProposalView:
    described = Proposal(
        repository="https://git.example.com/team/shop",
        name=f"#{number}",
        title="Scale",
        author="ada",
        base_branch="main",
        head_branch=f"change/{number}",
        head="b" * 40,
        url=f"https://git.example.com/team/shop/pulls/{number}",
        updated=NOW,
    )
    described = replace(described, **members)
    return ProposalView(described, ("gitsync/shop",), "a" * 40, report(BASE, SCALED), "", NOW)


def opened(site: Open, *views: ProposalView) -> Site:
    made = site([application()])
    made.engine.pull_requests.views = list(views)
    return made


def test_what_waits_is_listed_with_its_class(site: Open) -> None:
    conflict = replace(proposal(2, author="eve", is_fork=True), report=None, problem="conflict in web.yaml")
    made = opened(site, proposal(), conflict)
    text = made.get("/pulls").text
    assert "#1 Scale" in text
    assert "1 object <small>web</small>" in text
    assert "conflict in web.yaml" in text
    assert "from a fork" in text
    assert "#2" not in made.get("/pulls?q=by:ada").text
    assert "#1" not in made.get("/pulls?q=state:Invalid").text
    items = orjson.loads(made.get("/api/v1/pulls?q=risk:Moderate").text)["items"]
    assert [(item["name"], item["state"], item["folders"]) for item in items] == [("#1", "Valid", ["web"])]


def test_one_shows_the_steps_with_their_lines(site: Open) -> None:
    view = proposal()
    made = opened(site, view)
    text = made.get(f"/pulls/{view.proposal.key}").text
    assert "<del>- .spec.replicas: 1</del>" in text
    assert "<ins>+ .spec.replicas: 3   # web/deployment.yaml:5</ins>" in text
    assert 'href="https://git.example.com/team/shop/pulls/1"' in text
    answer = orjson.loads(made.get(f"/api/v1/pulls/{view.proposal.key}").text)
    assert answer["report"]["changes"][0]["class"] == "Moderate"
    assert answer["base"] == "a" * 40


def test_one_that_is_gone_is_not_found(site: Open) -> None:
    made = opened(site)
    assert made.get("/pulls/none").status == 404
    assert made.get("/api/v1/pulls/none").status == 404
    assert "spec.pullRequests" in made.get("/pulls").text


def test_texts_of_authors_are_escaped(site: Open) -> None:
    view = proposal(title=HOSTILE, author=HOSTILE, head_branch=HOSTILE, url="javascript:alert(1)")
    made = opened(site, replace(view, problem=HOSTILE))
    for path in ("/pulls", f"/pulls/{view.proposal.key}"):
        text = made.get(path).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e @all" in text
        assert "<script>alert" not in text
        assert "javascript:" not in text


def test_a_host_that_fails_is_named(site: Open) -> None:
    made = opened(site)
    made.engine.pull_requests.problems = {"https://git.example.com/team/shop": "answers 401"}
    # in the colours of a failure, not of a message that something succeeded
    failure = '<p class="alarm" role="alert">https://git.example.com/team/shop cannot be read: answers 401'
    assert failure in made.get("/pulls").text


def test_a_viewer_sees_proposals_of_visible_applications_only() -> None:
    shared = replace(proposal(2), applications=("gitsync/shop", "gitsync/hidden"))
    proposals = StillProposals([proposal(), shared], {"https://git.example.com/team/shop": "answers 401"})
    visible = VisibleProposals(proposals, lambda key: key == "gitsync/shop")
    assert [view.proposal.name for view in visible.proposals()] == ["#1"]
    assert visible.failures() == {}


def test_one_shows_what_a_rehearsal_refuses(site: Open) -> None:
    refusal = ReportedRefusal(
        folder="web", object="Job default/migrate", step="apply", problem=HOSTILE, where="web/job.yaml:1"
    )
    view = proposal()
    assert view.report is not None
    rehearsal = ReportedRehearsal(refusals=(refusal,), not_judged=("Thing.example.com",))
    view = replace(view, report=with_rehearsal(view.report, rehearsal))
    text = opened(site, view).get(f"/pulls/{view.proposal.key}").text
    assert "Rehearsal: refused" in text
    assert "apply <b>Job default/migrate</b> in web" in text
    assert "not judged: Thing.example.com" in text
    assert "<script>alert" not in text
