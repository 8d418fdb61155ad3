"""``gitsync agent prompts``: the versions of a prompt in Git, also of commits that were never synced."""

from __future__ import annotations

import json

from tests.cli.conftest import Commands
from tests.flow.factories import deployment
from tests.waiting import until

VOLUMES = """          volumeMounts: [{name: prompt, mountPath: /prompt}]
      volumes: [{name: prompt, configMap: {name: triage-prompt}}]
"""


def prompt(text: str) -> dict[str, str | None]:
    """Return the file with the ConfigMap of a prompt."""
    metadata = {"name": "triage-prompt"}
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"prompt.md": text}}
    return {"shop/triage.yaml": json.dumps(found)}


def test_versions_in_git_are_listed_and_compared(asked: Commands) -> None:
    world = asked.shop.world
    agent = deployment("triage").replace("- name: web", "- name: agent") + VOLUMES
    world.synced(world.repo.commit("Add triage", {"shop/agent.yaml": agent, **prompt("Be kind.\nSort tickets.\n")}))
    world.application(sync={"automated": False})
    until(lambda: not world.controller.view.application("gitsync/shop").application.sync.automated)
    never = [world.repo.commit(subject, prompt(f"{subject}.\nSort tickets.\n")) for subject in ("Be brief", "Be late")]
    until(lambda: world.controller.view.application("gitsync/shop").plan.revision == never[-1], 10, world.status)

    found = asked("agent", "prompts", "triage", "--namespace", "shop", "-o", "json").json
    texts = {one["version"]: one["text"] for one in found}
    brief, late = (f"commit-{id[:12]}-prompt.md" for id in never)
    assert texts["shop/triage/prompt.md"] == "Be kind.\nSort tickets.\n"
    assert (texts[late], texts[brief]) == ("Be late.\nSort tickets.\n", "Be brief.\nSort tickets.\n")
    assert [one["description"].endswith("Ada: Be brief") for one in found if one["version"] == brief] == [True]

    compared = asked("agent", "prompts", "triage", "--namespace", "shop", "--before", brief, "--after", late)
    assert compared.out == "- Be brief.\n+ Be late.\n  Sort tickets.\n"
    with_now = asked("agent", "prompts", "triage", "-n", "shop", "--before", late, "-o", "json").json
    assert (with_now["before"]["version"], with_now["after"]["version"]) == (late, "shop/triage/prompt.md")
    assert {"mark": "+", "text": "Be kind."} in with_now["lines"]
    same = asked("agent", "prompts", "triage", "--namespace", "shop", "--before", late, "--after", late)
    assert same.out == "  the texts are equal\n"
    assert asked("agent", "prompts", "triage", "--namespace", "shop").out.startswith("VERSION ")
    wrong = asked("agent", "prompts", "triage", "--namespace", "shop", "--before", "commit-1")
    assert (wrong.code, "'commit-1' is not a version of a prompt" in wrong.err) == (2, True)
    missing = asked("agent", "prompts", "none", "--namespace", "shop")
    assert (missing.code, "No agent shop/none" in missing.err) == (2, True)
