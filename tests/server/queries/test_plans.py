"""What a plan does to the running system, before a user approves it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitsync.objects.change import Action, Plan
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ResourceView
from gitsync.server.queries.plans import effects, token_forecasts
from gitsync.services.usage import TokenWeek
from tests.server.conftest import Open
from tests.server.fakes import application, changed, edited, resource


def step(
    kind: str, action: Action, *paths: str, live: dict[str, Any] | None = None, desired: dict[str, Any] | None = None
) -> ResourceView:
    item = resource("web", kind, sync="OutOfSync", differences=tuple(changed(path) for path in paths))
    manifest = item.change.live or {}
    change = replace(
        item.change,
        action=action,
        live={**manifest, **live} if live is not None else None,
        desired={**manifest, **desired} if desired is not None else None,
    )
    return replace(item, change=change)


def texts(*items: ResourceView, owned: dict[str, tuple[Manifest, ...]] | None = None) -> list[str]:
    view = application(resources=items)
    assert isinstance(view.plan, Plan)
    return [effect.text for effect in effects(view, view.plan, lambda uid: (owned or {}).get(uid, ()))]


THREE, FIVE = {"spec": {"replicas": 3}}, {"spec": {"replicas": 5}}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (step("Deployment", Action.UPDATE, ".spec.template.spec.x", live=THREE, desired=THREE), ["restarts 3 Pods"]),
        (step("Deployment", Action.UPDATE, ".spec.replicas", live=THREE, desired=FIVE), ["scales from 3 to 5"]),
        (step("Deployment", Action.UPDATE, ".metadata.labels.a", live=THREE, desired=THREE), []),
        (step("StatefulSet", Action.CREATE, desired=FIVE), ["starts 5 Pods"]),
        (step("Deployment", Action.PRUNE, live={"spec": {}}), ["stops 1 Pod"]),
        (
            step("Deployment", Action.REPLACE, live=THREE, desired=FIVE),
            ["stops 3 Pods, then starts 5 Pods: not available in between"],
        ),
        (step("Namespace", Action.PRUNE, live={}), ["deletes everything in it"]),
        (step("ConfigMap", Action.UPDATE, ".data.a", live={}, desired={}), []),
    ],
)
def test_a_step_has_effects(item: ResourceView, expected: list[str]) -> None:
    assert texts(item) == expected


def test_a_deleted_volume_names_its_size_and_the_pods_that_mount_it() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "researcher-1", "uid": "p"},
        "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "web"}}]},
    }
    owner = resource("researcher", "Deployment")
    volume = step("PersistentVolumeClaim", Action.PRUNE, live=claim)
    assert texts(volume, owner, owned={"uid-researcher": (pod,)}) == [
        "deletes the data of 5Gi, mounted by Pod researcher-1"
    ]
    assert texts(volume) == ["deletes the data of 5Gi, mounted by no Pod of this application"]


def test_workloads_that_keep_old_values_are_named_unless_they_restart_anyway() -> None:
    reader = resource("agent", "Deployment")
    source = {"configMapRef": {"name": "web"}}
    spec = {"spec": {"template": {"spec": {"containers": [{"envFrom": [source]}]}}}}
    reader = replace(reader, change=replace(reader.change, live={**(reader.change.live or {}), **spec}))
    settings = step("ConfigMap", Action.UPDATE, ".data.model", live={}, desired={})
    assert texts(settings, reader) == ["Deployment shop/agent keeps the old values until its Pods restart"]
    restarting = replace(reader, change=replace(reader.change, action=Action.UPDATE))
    assert texts(settings, restarting) == []


def test_a_reference_to_what_nothing_declares_is_an_effect(site: Open) -> None:
    def mounting(claim: str) -> dict[str, Any]:
        return {"spec": {"template": {"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]}}}}

    web = step("Deployment", Action.UPDATE, ".spec.template.spec", live=mounting("data"), desired=mounting("dat"))
    dangling = "mounts PersistentVolumeClaim shop/dat, which nothing in Git declares"
    assert texts(web) == ["restarts 1 Pod", dangling]
    assert texts(web, edited(resource("dat", "PersistentVolumeClaim"))) == ["restarts 1 Pod"]
    unchanged = step("Deployment", Action.UPDATE, ".spec.template.x", live=mounting("dat"), desired=mounting("dat"))
    assert texts(unchanged) == ["restarts 1 Pod"], "it was named before"
    claim = resource("data", "PersistentVolumeClaim", sync="ToPrune")
    pruned = replace(claim, change=replace(claim.change, action=Action.PRUNE))
    kept = step("Deployment", Action.UPDATE, ".metadata.labels.a", live=mounting("data"), desired=mounting("data"))
    assert "mounts PersistentVolumeClaim shop/data, which the change removes" in texts(kept, pruned)
    repaired = replace(resource("web", "Deployment").change, desired=mounting("data"))
    view = application(resources=[web])
    assert view.plan is not None
    drifted = replace(view, resources=(replace(web, change=repaired),), plan=replace(view.plan, repairs=(repaired,)))
    assert dangling in site([drifted]).get("/apps/gitsync/shop/plan").text, "drift does not hide what a commit does"
    elsewhere = application("base", [resource("dat", "PersistentVolumeClaim")])
    page = "/apps/gitsync/shop/plan"
    assert dangling in site([application(resources=[web])]).get(page).text
    assert dangling not in site([application(resources=[web]), elsewhere]).get(page).text


def test_losses_come_first_on_the_plan_and_are_named_as_such(site: Open) -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    items = [
        step("Deployment", Action.UPDATE, ".spec.template", live=THREE, desired=THREE),
        step("PersistentVolumeClaim", Action.PRUNE, live=claim),
    ]
    page = site([application(resources=items, held=("it waits",))]).get("/apps/gitsync/shop/plan").text
    assert page.index("Data is lost:") < page.index("restarts 3 Pods")
    assert "Given now, it expires tomorrow 12:00 UTC." in page


WEEK = {("shop", "triage"): TokenWeek(tokens=7_000_000.0, requests=7000.0)}
"""1,000 requests a day, of 1,000 tokens each."""


def prompted(action: Action, live: dict[str, Any] | None, desired: dict[str, Any] | None) -> ResourceView:
    """Return an Agent with these specs."""
    item = resource("triage", "Agent", sync="OutOfSync")
    ref = ObjectRef("agents.gitsync.dev", "Agent", "shop", "triage")
    meta = {"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": "Agent", "metadata": {"namespace": "shop"}}
    states = [{**meta, "spec": spec} if spec is not None else None for spec in (live, desired)]
    change = replace(item.change, ref=ref, action=action, live=states[0], desired=states[1])
    return replace(item, ref=ref, change=change)


def text_prompt(characters: int, **spec: Any) -> dict[str, Any]:
    return {"prompt": {"text": "x" * characters}, **spec}


def forecast(*items: ResourceView) -> list[str]:
    view = application(resources=items)
    assert isinstance(view.plan, Plan)
    return [effect.text for effect in token_forecasts(view, view.plan, WEEK)]


@pytest.mark.parametrize(
    ("live", "desired", "expected"),
    [
        (
            text_prompt(400),
            text_prompt(2000),
            [
                "uses about 1.4 x the tokens, 1,000,000 to 1,400,000 a day,"
                " by last week's requests and the longer prompt"
            ],
        ),
        (
            text_prompt(2000),
            text_prompt(400),
            ["uses about 0.6 x the tokens, 1,000,000 to 600,000 a day, by last week's requests and the shorter prompt"],
        ),
        (
            text_prompt(400),
            text_prompt(2000, budget={"agent": {"tokensPerDay": 1_200_000}}),
            [
                "uses about 1.4 x the tokens, 1,000,000 to 1,400,000 a day, over its budget of 1,200,000,"
                " by last week's requests and the longer prompt"
            ],
        ),
        (text_prompt(400), text_prompt(420), []),
        (None, text_prompt(2000), []),
        (text_prompt(400), None, []),
    ],
)
def test_a_prompt_has_a_forecast_of_tokens(
    live: dict[str, Any] | None, desired: dict[str, Any] | None, expected: list[str]
) -> None:
    assert forecast(prompted(Action.UPDATE, live, desired)) == expected


def test_a_prompt_of_a_config_map_has_a_forecast() -> None:
    reference = {"prompt": {"configMapKeyRef": {"name": "web", "key": "system.md"}}}
    agent = prompted(Action.NOTHING, reference, reference)
    prompt = step(
        "ConfigMap",
        Action.UPDATE,
        ".data.x",
        live={"data": {"system.md": "a" * 4}},
        desired={"data": {"system.md": "b" * 1604}},
    )
    assert [text[:27] for text in forecast(agent, prompt)] == ["uses about 1.4 x the tokens"]
    unwritten = replace(prompt, change=replace(prompt.change, action=Action.NOTHING))
    assert forecast(agent, unwritten) == []


PRICES = '{"small": {"input": 1, "output": 4}, "large": {"input": 5, "output": 20}}'


@pytest.mark.parametrize(
    ("live", "desired", "prices", "expected"),
    [
        (
            {"model": {"id": "small"}},
            {"model": {"id": "large"}},
            PRICES,
            ["costs about 5.0 x, 1.60 to 8.00 a day, by last week's requests and model large"],
        ),
        (
            {"model": {"id": "small"}},
            {"model": {"id": "large"}, "prompt": {"text": "x" * 2000}, "budget": {"agent": {"costPerDay": "9"}}},
            PRICES,
            [
                "uses about 1.4 x the tokens, 1,000,000 to 1,400,000 a day,"
                " by last week's requests and the longer prompt",
                "costs about 6.2 x, 1.60 to 10.00 a day, over its budget of 9.00,"
                " by last week's requests, the longer prompt and model large",
            ],
        ),
        (
            {"model": {"id": "small"}},
            {"model": {"id": "small"}},
            PRICES.replace('{"input": 1, "output": 4}', '{"input": 0.5, "output": 2}'),
            ["costs about 0.5 x, 1.60 to 0.80 a day, by last week's requests and the new prices"],
        ),
        (
            {"model": {"id": "small"}},
            {"model": {"id": "small"}, "replicas": 0},
            PRICES,
            ["uses about 0.0 x the tokens, 1,000,000 to 0 a day, by last week's requests and no replicas"],
        ),
        # users decide how many requests there are
        ({"model": {"id": "small"}}, {"model": {"id": "small"}, "replicas": 9}, PRICES, []),
        # of a model without a price nothing is known
        ({"model": {"id": "small"}}, {"model": {"id": "unknown"}}, PRICES, []),
        ({"model": {"id": "small"}}, {"model": {"id": "large"}}, "no table", []),
    ],
)
def test_another_model_or_its_price_has_a_forecast_of_cost(
    live: dict[str, Any], desired: dict[str, Any], prices: str, expected: list[str]
) -> None:
    reference = {"name": "web", "key": "prices.json"}
    specs = [
        text_prompt(400, replicas=3) | spec | {"budget": {**spec.get("budget", {}), "prices": reference}}
        for spec in (live, desired)
    ]
    table = step(
        "ConfigMap",
        Action.UPDATE,
        ".data.x",
        live={"data": {"prices.json": PRICES}},
        desired={"data": {"prices.json": prices}},
    )
    view = application(resources=[prompted(Action.UPDATE, *specs), table])
    assert view.plan is not None
    week = {place: replace(figures, answered=1_400_000) for place, figures in WEEK.items()}
    assert [effect.text for effect in token_forecasts(view, view.plan, week)] == expected


def test_a_forecast_is_on_the_page_of_the_plan(site: Open) -> None:
    view = application(resources=[prompted(Action.UPDATE, text_prompt(400), text_prompt(2000))])
    opened = site([view])
    opened.engine.usage.weeks = WEEK
    assert "uses about 1.4 x the tokens" in opened.get("/apps/gitsync/shop/plan").text
