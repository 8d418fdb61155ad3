"""Agents by environment: which environment an agent is in, and what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView, FileVersion, ResourceView
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.step_source import BUILD_STEP
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, resource


def held(manifest: Manifest) -> ResourceView:
    view = resource(manifest["metadata"]["name"])
    return replace(view, ref=ref_of(manifest), change=replace(view.change, ref=ref_of(manifest), live=manifest))


def named(kind: str, api: str, name: str, **members: Any) -> Manifest:
    metadata = {"name": name, "namespace": "desk", "uid": f"uid-{name}", **members.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **members}


def moved(view: ApplicationView, path: str) -> ApplicationView:
    """Return the Application with another path in its repository."""
    app = view.application
    return replace(view, application=app and replace(app, source=app.source.model_copy(update={"path": path})))


def overlay(environment: str, model: str, prompt: str, **metadata: Any) -> ApplicationView:
    """Return the Application of an overlay with one agent that is a Deployment, and its ConfigMaps."""
    settings = named("ConfigMap", "v1", f"{environment}-settings", data={"MODEL_ID": model, "TOOLS": "tickets, mail"})
    text = named("ConfigMap", "v1", f"{environment}-triage-prompt", data={"prompt.md": prompt})
    container = {
        "name": "agent",
        "envFrom": [{"configMapRef": {"name": settings["metadata"]["name"]}}],
        "env": [{"name": "MODEL_ENDPOINT", "value": "http://models/v1"}],
    }
    volume = {"name": "prompt", "configMap": {"name": text["metadata"]["name"]}}
    spec = {"template": {"spec": {"containers": [container], "volumes": [volume]}}}
    agent = named("Deployment", "apps/v1", f"{environment}-triage", spec=spec, metadata=metadata)
    view = application(f"desk-{environment}", [held(agent), held(settings), held(text)])
    return moved(view, f"desk/overlays/{environment}")


DESK = (
    overlay("prod", "claude", "Sort tickets slowly."),
    overlay("dev", "qwen3", "Sort tickets."),
    overlay("staging", "qwen3", "Sort tickets."),
)


def cells(site: Open, *views: ApplicationView) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(site(views).get("/api/v1/agents/environments").text)["items"]
    return found


def test_workloads_are_compared_from_dev_to_prod(site: Open) -> None:
    found = cells(site, *DESK)
    assert [(one["agent"], one["environment"], one["before"], one["differs"]) for one in found] == [
        ("triage", "dev", "", []),
        ("triage", "staging", "dev", []),
        ("triage", "prod", "staging", ["model", "prompt"]),
    ]
    assert {(one["endpoint"], tuple(one["tools"])) for one in found} == {("http://models/v1", ("tickets", "mail"))}
    assert found[0]["prompt"] == found[1]["prompt"] != found[2]["prompt"]


def test_the_page_marks_what_differs(site: Open) -> None:
    opened = site(DESK)
    page = opened.get("/agents/environments").text
    assert re.findall(r'<th scope="col">(.*?)</th>', page) == ["Agent", "dev", "staging", "prod"]
    assert "<mark>claude</mark><small>not as in staging</small>" in page
    assert "<mark>qwen3</mark>" not in page
    assert 'href="/agents/desk/prod-triage"' in page
    assert "<mark>" not in opened.get("/agents/environments?q=-env:prod").text
    assert "None of 3 agents matches" in opened.get("/agents/environments?q=env:test").text
    assert "claude" in opened.get("/agents").text


def synced(*texts: tuple[str, str, str]) -> Iterator[SyncRecord]:
    """Yield the record of a sync for each path, text before and text after of a prompt of dev's agent."""
    for number, (path, before, after) in enumerate(texts, 1):
        difference = {"path": path, "live": before, "desired": after}
        step = Step(
            "/ConfigMap/desk/dev-triage-prompt", "update", "Safe", "", Outcome.SUCCEEDED, differences=(difference,)
        )
        commit, started = Commit("c" * 40, "Ada", message="Tune it"), NOW - timedelta(hours=9 - number)
        yield SyncRecord(
            "gitsync/desk-dev", commit, "commit", started, 4, Outcome.SUCCEEDED, "Safe", "d", steps=(step,)
        )


def test_prompts_are_compared_between_environments_and_syncs(site: Open) -> None:
    opened = site(DESK)
    for record in synced(('.data["prompt.md"]', "Be rude.", "Be kind."), (".metadata.labels.prompt", "One.", "Two.")):
        opened.engine.records.save(record)
    url = "/agents/desk/dev-triage/prompts"
    page = opened.get(url).text
    keys = re.findall(r'<option value="([^"]*)"', page.partition("<label>To")[0])
    prompts = [f"desk/{name}-triage/prompt.md" for name in ("dev", "prod", "staging")]
    syncs = ["after-1-prompt.md", "before-1-prompt.md"]
    assert keys == [*prompts, *syncs]
    assert "<mark> slowly</mark>" in page
    other = opened.get(f"{url}?before=before-1-prompt.md&after=after-1-prompt.md&mode=split").text
    assert "<mark>rude</mark>" in other
    assert "<mark>kind</mark>" in other
    assert 'class="text-diff split"' in other
    assert f'<option value="{syncs[0]}" selected>' in other.partition("<label>To")[2]
    assert "The texts are equal." in opened.get(f"{url}?before={prompts[0]}&after={prompts[2]}").text
    assert f'href="{url}"' in opened.get("/agents/desk/dev-triage").text
    assert opened.get("/agents/desk/other/prompts").status == 404


def declared(view: ApplicationView) -> ApplicationView:
    """Return the Application with objects that Git declares as they are, generated ones with another hash."""
    renamed = {"dev-triage-prompt": "dev-triage-prompt-2222222222"}
    resources = []
    for item in view.resources:
        ref = item.ref._replace(name=renamed.get(item.ref.name, item.ref.name))
        resources.append(replace(item, ref=ref, change=replace(item.change, ref=ref, desired=item.change.live)))
        if ref != item.ref:
            resources.append(item)
    return replace(view, resources=tuple(resources))


def written(*texts: str) -> tuple[FileVersion, ...]:
    """Return the versions of a file, newest first."""
    numbered = zip(range(len(texts), 0, -1), texts, strict=True)
    commits = ((Commit(str(n) * 40, f"Ada {n}", message=f"Change {n}", time=NOW), text) for n, text in numbered)
    return tuple(FileVersion(commit, text.encode()) for commit, text in commits)


def test_prompts_in_commits_that_were_never_synced_are_compared(site: Open) -> None:
    opened = site([declared(DESK[1])])
    prompt = ObjectRef("", "ConfigMap", "desk", "dev-triage-prompt-2222222222")
    setters = (FieldSetter("configMapGenerator", "desk/prompt.md:1"), FieldSetter(BUILD_STEP, BUILD_STEP))
    opened.engine.provenance.known = {prompt: {".data.prompt.md": setters}}
    opened.engine.provenance.files = {"desk/prompt.md": written("Sort tickets.", "Sort mail.", "Sort mail.", "<b>")}
    page = opened.get("/agents/desk/dev-triage/prompts").text
    assert opened.engine.provenance.asked == [("gitsync/desk-dev", "c" * 40, {prompt: [".data.prompt.md"]})]
    options = re.findall(r'<option value="(commit-[^"]*)"[^>]*>([^<]*)<', page.partition("<label>To")[0])
    assert options == [
        (f"commit-{n * 12}-prompt.md", f"prompt.md in commit {n * 12} of 2026-03-01 12:00:00 UTC, Ada {n}: Change {n}")
        for n in ("4", "2", "1")
    ]
    other = opened.get(f"/agents/desk/dev-triage/prompts?before={options[1][0]}&after=desk/dev-triage/prompt.md").text
    assert "<mark>mail</mark>" in other
    assert "<mark>tickets</mark>" in other
    assert "&lt;b&gt;" in opened.get(f"/agents/desk/dev-triage/prompts?after={options[2][0]}").text


def test_the_prompt_of_a_member_is_declared_by_its_system(site: Open) -> None:
    template = {"spec": {"prompt": {"text": "Greet."}}}
    agents = [{"name": "other", "template": {"spec": {}}}, {"name": "greeter", "template": template}]
    system = held(named("MultiAgentSystem", "agents.gitsync.dev/v1alpha1", "office", spec={"agents": agents}))
    owner = {"kind": "MultiAgentSystem", "name": "office"}
    member = named(
        "Agent", "agents.gitsync.dev/v1alpha1", "office-greeter", metadata={"ownerReferences": [owner]}, **template
    )
    opened = site([declared(application(resources=[system]))])
    opened.engine.view.children = {"uid-office": (member,)}
    field = '.spec.agents[name="greeter"].template.spec.prompt.text'
    opened.engine.provenance.known = {system.ref: {field: (FieldSetter("manifest", "office.yaml:9"),)}}
    texts = (json.dumps({"kind": "MultiAgentSystem", "greeter": text}) for text in ("Greet.", "Wave."))
    opened.engine.provenance.files = {"office.yaml": written(*texts)}
    page = opened.get("/agents/desk/office-greeter/prompts").text
    assert opened.engine.provenance.asked == [("gitsync/shop", "c" * 40, {system.ref: [field]})]
    assert "prompt in commit 111111111111" in page


def test_an_agent_without_prompts_says_so(site: Open) -> None:
    agent = named("Agent", "kagent.dev/v1alpha2", "one", spec={})
    assert "No prompts" in site([application(resources=[held(agent)])]).get("/agents/desk/one/prompts").text


@pytest.mark.parametrize(
    ("metadata", "path", "expected"),
    [
        ({"annotations": {"gitsync.dev/environment": "blue"}}, "overlays/dev", ("blue", "dev-triage")),
        ({}, "desk/overlays/dev/eu", ("dev", "triage")),
        ({}, "clusters/dev", ("dev", "triage")),
        ({}, "overlays", ("desk", "dev-triage")),
        ({}, "apps/dev", ("desk", "dev-triage")),
    ],
)
def test_an_environment_is_annotated_a_folder_or_a_namespace(
    site: Open, metadata: dict[str, Any], path: str, expected: tuple[str, str]
) -> None:
    found = cells(site, moved(overlay("dev", "m", "p", **metadata), path))
    assert [(one["environment"], one["agent"]) for one in found] == [expected]


def test_equal_names_of_other_folders_are_other_agents(site: Open) -> None:
    found = cells(site, DESK[1], moved(DESK[0], "shop/overlays/prod"))
    assert [one["differs"] for one in found] == [[], []]


@pytest.mark.parametrize(
    ("spec", "api", "expected"),
    [
        (
            {"model": {"id": "m", "endpoint": "http://e"}, "prompt": {"text": "Help."}, "tools": [{"name": "t"}]},
            "agents.gitsync.dev/v1alpha1",
            ("m", "http://e", ["t"], True),
        ),
        (
            {
                "declarative": {
                    "modelConfig": "claude",
                    "systemMessage": "Help.",
                    "tools": [{"mcpServer": {"name": "kube"}}, {"agent": {"name": "other"}}],
                }
            },
            "kagent.dev/v1alpha2",
            ("claude", "", ["kube", "other"], True),
        ),
        ({"modelRef": {"name": "gpt"}, "prompt": "Help."}, "ark.mckinsey.com/v1alpha1", ("gpt", "", [], True)),
        ({}, "agents.gitsync.dev/v1alpha1", ("", "", [], False)),
    ],
    ids=["ours", "kagent", "ARK", "nothing declared"],
)
def test_settings_of_declared_agents_are_read(
    site: Open, spec: dict[str, Any], api: str, expected: tuple[Any, ...]
) -> None:
    found = cells(site, application(resources=[held(named("Agent", api, "one", spec=spec))]))[0]
    assert (found["model"], found["endpoint"], found["tools"], bool(found["prompt"])) == expected


def test_a_cell_says_since_when_and_by_whom_its_prompt_is_there(site: Open) -> None:
    opened = site(DESK)
    created = Step("/ConfigMap/desk/prod-triage-prompt", "create", "Safe", "", Outcome.SUCCEEDED)
    label = {"path": ".metadata.labels.team", "live": "a", "desired": "b"}
    labelled = replace(created, action="update", differences=(label,))
    for number, (step, author) in enumerate(((created, "Ada"), (labelled, "Ben"))):
        commit = Commit(f"{number}" * 40, author, message="Write it")
        started = NOW - timedelta(hours=9 - number)
        opened.engine.records.save(
            SyncRecord("gitsync/desk-prod", commit, "commit", started, 4, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))
        )
    page = opened.get("/agents/environments").text
    prod = page.partition('href="/agents/desk/prod-triage"')[2]
    assert (
        'commit%3A0000000"><code>0000000</code></a> <a class="commit" href="/changes?q=by%3A%22Ada%22">Ada</a>' in prod
    )
    assert "Ben" not in page
    of_prod = opened.get("/agents/desk/prod-triage").text
    assert "commit <code>0000000</code> Write it, Ada" in of_prod
    assert "Sort tickets slowly." in of_prod


def test_a_click_on_a_differing_prompt_compares_it_with_the_environment_before(site: Open) -> None:
    opened = site(DESK)
    page = opened.get("/agents/environments").text
    (link,) = re.findall(r'href="([^"]*/prompts\?[^"]*)"', page)
    shown = opened.get(link.replace("&amp;", "&")).text
    assert re.findall(r'<option value="[^"]*" selected>([^<]*)', shown) == [
        "staging: prompt.md of staging-triage, now",
        "prod: prompt.md of prod-triage, now",
    ]
    assert "<mark> slowly</mark>" in shown


def test_an_environment_that_is_not_a_stage_is_marked(site: Open) -> None:
    page = site([*DESK, overlay("agents", "local", "Sort tickets.")]).get("/agents/environments").text
    assert re.findall(r'<th scope="col">(.*?)</th>', page)[-1] == "agents<small>not a stage</small>"
    alone = site([overlay("agents", "local", "Sort tickets.")]).get("/agents/environments").text
    assert "not a stage" not in alone
