"""The tasks that people open the dashboard for, from the home page, each with a maximum number of clicks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Site, Watched
from tests.flow.factories import config_map, deployment
from tests.waiting import until

Opens = Callable[..., Watched]


@dataclass(slots=True)
class Visitor:
    """A person in front of the home page, whose clicks are counted; typing is not counted."""

    page: Page
    clicks: int = 0

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1


@contextmanager
def visitor(open_page: Opens, most: int) -> Iterator[Visitor]:
    """Open the home page; fail when more clicks were made than ``most``."""
    made = Visitor(open_page("/").page)
    yield made
    assert made.clicks <= most


def follow(site: Site, name: str, files: dict[str, str | None], **spec: Any) -> str:
    """Commit files below a folder and sync an application of it, in a namespace of the same name."""
    site.world.namespace(name)
    commit = site.world.repo.commit(f"Open {name}", {f"{name}/{path}": text for path, text in files.items()})
    site.world.application(name, **spec)
    site.world.synced(commit, name)
    return commit


def volume(name: str) -> str:
    spec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
    return f"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\n{spec}\n"


def test_what_changed_last_night(open_page: Opens, site: Site) -> None:
    follow(site, "night", {"note.yaml": config_map("note", text="hello")})
    with visitor(open_page, 1) as person:
        person.click(person.page.get_by_role("link", name="Changes", exact=True))
        entry = person.page.locator(".timeline li", has_text="Open night").first
        expect(entry).to_contain_text("Ada")
        expect(entry).to_contain_text(re.compile(r"\d\d:\d\d:\d\d"))
        expect(entry).to_contain_text(re.compile(r"night\s+Succeeded\s+1 change"))


def test_who_edited_this_field_and_is_it_important(open_page: Opens, site: Site) -> None:
    follow(site, "lab", {"web.yaml": deployment("web", image="web:1")}, sync={"selfHeal": False})
    container = {"name": "web", "image": "web:hotfix"}
    body: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment"}
    body["metadata"] = {"name": "web", "namespace": "lab"}
    body["spec"] = {"template": {"spec": {"containers": [container]}}}
    site.world.apply(body, "kubectl-set")
    until(lambda: site.world.status("lab")["phase"] == "Drifted", 10, lambda: site.world.status("lab"))
    with visitor(open_page, 1) as person:
        person.click(person.page.get_by_role("link", name="Drift", exact=True))
        drift = person.page.locator("details.object", has_text="in lab")
        expect(drift).to_contain_text("kubectl-set")
        expect(drift.locator("tr", has_text=".image")).to_contain_text("web:hotfix")
        expect(drift.locator("tr", has_text=".image")).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"))
        expect(drift.locator("summary .state")).to_contain_text(re.compile("Moderate|Dangerous"))
        expect(drift.locator("p").first).to_contain_text("image")


def test_why_is_it_not_syncing(open_page: Opens, site: Site) -> None:
    follow(site, "broken", {"note.yaml": config_map("note", text="hello")})
    site.world.repo.commit("Break it", {"broken/bad.yaml": "a: [1\nb: 2\n"})
    with visitor(open_page, 0) as person:
        problem = person.page.locator("#attention li", has_text="broken")
        expect(problem).to_contain_text(re.compile(r"Render failed.*broken/bad\.yaml:\d+"))
    site.world.synced(site.world.repo.commit("Mend it", {"broken/bad.yaml": None}), "broken")


def test_revert_a_commit_after_seeing_its_effect(open_page: Opens, site: Site) -> None:
    follow(site, "till", {"note.yaml": config_map("note", text="hello")})
    site.world.synced(site.world.repo.commit("Add a bell", {"till/bell.yaml": config_map("bell", rings="yes")}), "till")
    with visitor(open_page, 3) as person:
        page = person.page
        person.click(page.locator("table.apps").get_by_role("link", name="till"))
        person.click(page.get_by_role("link", name="Revert…"))
        expect(page.locator(".ask")).to_contain_text("gitsync/till: 1 change")
        expect(page.locator("details.object")).to_contain_text("prune ConfigMap bell")
        page.get_by_label("Your name").fill("Grace")
        person.click(page.get_by_role("button", name=re.compile("Revert")))
        expect(page.locator(".notice")).to_contain_text("Revert commit pushed")
    until(lambda: site.world.get("ConfigMap", "bell", "till") is None)
    site.world.repo.git("pull", "-q", "origin", "main")


def test_approve_one_deletion_but_not_another(open_page: Opens, site: Site) -> None:
    follow(site, "vault", {"a.yaml": volume("a"), "b.yaml": volume("b")})
    site.world.repo.commit("Drop both", {"vault/a.yaml": None, "vault/b.yaml": None})
    until(lambda: site.world.status("vault")["phase"] == "AwaitingApproval", 10, lambda: site.world.status("vault"))
    with visitor(open_page, 4) as person:
        page = person.page
        person.click(page.locator("#attention").get_by_role("link", name="vault"))
        expect(page.locator(".effects")).to_contain_text("Data is lost")
        person.click(page.get_by_role("checkbox", name="PersistentVolumeClaim a"))
        expect(page.locator("#selected")).to_contain_text("1 of 2 selected")
        page.get_by_label("Your name").fill("Grace")
        person.click(page.get_by_role("radio", name="Approve the selected steps only"))
        person.click(page.get_by_role("button", name="Submit review"))
        expect(page.locator(".notice")).to_contain_text("The selected steps are approved")
    until(lambda: site.world.get("PersistentVolumeClaim", "a", "vault") is None)
    until(lambda: site.world.status("vault")["phase"] == "AwaitingApproval", 10, lambda: site.world.status("vault"))
    assert site.world.get("PersistentVolumeClaim", "b", "vault") is not None


def dry_run(page: Page) -> Locator:
    """Choose the ConfigMap a on the page of differences, try its sync, and return the one row of the answer."""
    page.get_by_role("link", name="Sync chosen objects").click()
    page.get_by_role("checkbox", name="ConfigMap a").check()
    page.get_by_role("checkbox", name="Dry run").check()
    page.get_by_role("button", name="Sync", exact=True).click()
    answer = page.locator("table", has_text="Dry run").locator("tbody tr")
    expect(answer).to_have_count(1)
    return answer


def test_the_answer_of_a_form_stays_while_its_application_changes(open_page: Opens, site: Site) -> None:
    follow(site, "tried", {"a.yaml": config_map("a", text="old")})
    site.world.application("tried", sync={"automated": False})
    site.world.repo.commit("Change it", {"tried/a.yaml": config_map("a", text="new")})
    until(lambda: site.world.status("tried")["sync"] == "OutOfSync", 10, lambda: site.world.status("tried"))
    page = open_page("/apps/gitsync/tried/diff").page
    answer = dry_run(page)
    # its address takes forms only, which a page that is live would find out now
    edited = {"metadata": {"name": "a", "namespace": "tried"}, "data": {"text": "edited"}}
    site.world.apply({"apiVersion": "v1", "kind": "ConfigMap", **edited}, "kubectl-edit")
    until(lambda: "edited" in site.web.ask("/apps/gitsync/tried/events").text)
    page.wait_for_timeout(1500)
    expect(answer).to_have_count(1)
    expect(page.locator("#connection")).to_be_hidden()


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without"])
def test_sync_one_object_after_a_dry_run(open_page: Opens, site: Site, javascript: bool) -> None:
    name = "chosen" if javascript else "plain"
    follow(site, name, {"a.yaml": config_map("a", text="old"), "b.yaml": config_map("b", text="old")})
    site.world.application(name, sync={"automated": False})
    new = {f"{name}/{file}.yaml": config_map(file, text="new") for file in "ab"}
    site.world.repo.commit(f"Change both of {name}", {**new})
    until(lambda: site.world.status(name)["sync"] == "OutOfSync", 10, lambda: site.world.status(name))
    page = open_page(f"/apps/gitsync/{name}/diff", java_script_enabled=javascript).page
    answer = dry_run(page)
    expect(answer).to_contain_text("Accepted")
    assert (site.world.get("ConfigMap", "a", name) or {})["data"] == {"text": "old"}
    # what was chosen stays chosen, so that the sync is one click more
    expect(page.get_by_role("checkbox", name="ConfigMap a")).to_be_checked()
    page.get_by_role("checkbox", name="Dry run").uncheck()
    page.get_by_label("Your name").fill("Grace")
    page.get_by_label("Reason").fill("b comes later")
    page.get_by_role("button", name="Sync", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Sync of the chosen objects requested")
    until(lambda: (site.world.get("ConfigMap", "a", name) or {})["data"] == {"text": "new"})
    assert (site.world.get("ConfigMap", "b", name) or {})["data"] == {"text": "old"}


KUSTOMIZATION = """resources: [web.yaml]
configMapGenerator:
- name: settings
  literals: [MODEL_ID={model}]
- name: prompt
  files: [prompt.md]
generatorOptions: {{labels: {{team: desk}}}}
"""


def test_which_agents_changed_model_prompt_or_tools(open_page: Opens, site: Site) -> None:
    reader = deployment("greeter").replace("- name: web", "- name: agent")
    reader += "          envFrom: [{configMapRef: {name: settings}}]\n"
    reader += "          volumeMounts: [{name: prompt, mountPath: /prompt}]\n"
    reader += "      volumes: [{name: prompt, configMap: {name: prompt}}]\n"
    first = {"web.yaml": reader, "prompt.md": "Be kind.\nBe short.\n"}
    follow(site, "staff", {**first, "kustomization.yaml": KUSTOMIZATION.format(model="small")})
    files = {"kustomization.yaml": KUSTOMIZATION.format(model="large"), "prompt.md": "Be kind.\nBe brief.\n"}
    commit = site.world.repo.commit("Retrain", {f"staff/{path}": text for path, text in files.items()})
    site.world.synced(commit, "staff")
    with visitor(open_page, 1) as person:
        person.click(person.page.get_by_role("link", name="Agents", exact=True))
        change = person.page.locator("details.object", has_text="greeter in staff")
        expect(change.locator("summary")).to_contain_text(re.compile(r"model, prompt.*Retrain, Ada", re.DOTALL))
        expect(change.locator("tr", has_text=".data.MODEL_ID")).to_contain_text(re.compile("small.*large", re.DOTALL))
        expect(change.locator("ins mark")).to_have_text("brief")


def test_what_will_this_change_do(open_page: Opens, site: Site) -> None:
    follow(site, "desk", {"web.yaml": deployment("web", replicas=3)})
    site.world.application("desk", sync={"automated": False})
    site.world.repo.commit("Grow and rename", {"desk/web.yaml": deployment("web", image="web:2", replicas=0)})
    until(lambda: site.world.status("desk").get("sync") == "OutOfSync", 10, lambda: site.world.status("desk"))
    with visitor(open_page, 2) as person:
        page = person.page
        person.click(page.locator("table.apps").get_by_role("link", name="desk"))
        person.click(page.get_by_role("link", name=re.compile("^Plan")))
        expect(page.locator(".effects")).to_contain_text("restarts 3 Pods")
        expect(page.locator(".effects")).to_contain_text("scales from 3 to 0")
        expect(page.locator("table.steps")).to_contain_text("web:2")


def test_selecting_a_step_selects_what_it_needs_and_removing_removes(open_page: Opens, site: Site) -> None:
    reader = deployment("web")
    env = "          envFrom: [{configMapRef: {name: settings}}]\n"
    first = {"settings.yaml": config_map("settings", mode="a"), "web.yaml": reader + env, "b.yaml": volume("b")}
    follow(site, "parts", dict(first))
    site.world.repo.commit(
        "Change all",
        {
            "parts/settings.yaml": config_map("settings", mode="b"),
            "parts/web.yaml": reader.replace("web:1", "web:2") + env,
            "parts/b.yaml": None,
        },
    )
    until(lambda: site.world.status("parts")["phase"] == "AwaitingApproval", 10, lambda: site.world.status("parts"))
    page = open_page("/apps/gitsync/parts/plan").page
    settings, web = (page.get_by_role("checkbox", name=name) for name in ("ConfigMap settings", "Deployment web"))
    expect(page.locator("tr", has_text="Deployment web")).to_contain_text("Needs ConfigMap settings")
    web.check()
    expect(settings).to_be_checked()
    expect(page.locator("#selected")).to_contain_text("2 of 3 selected; with it selected: ConfigMap settings.")
    web.press("Enter")
    expect(page).to_have_url(re.compile("/plan$"))
    settings.uncheck()
    expect(web).not_to_be_checked()

    still = open_page("/apps/gitsync/parts/plan", java_script_enabled=False)
    still.page.get_by_role("checkbox", name="Deployment web").check()
    still.page.get_by_label("Your name").fill("Grace")
    still.page.get_by_role("radio", name="Approve the selected steps only").check()
    still.page.get_by_role("button", name="Submit review").click()
    expect(still.page.locator("#plan > .alarm")).to_contain_text("the selected steps need ConfigMap")
    expect(still.page.get_by_role("checkbox", name="ConfigMap settings")).to_be_checked()
    still.errors.clear()  # the answer is 422


def test_promote_to_the_next_environment(open_page: Opens, site: Site) -> None:
    follow(site, "stage", {"web.yaml": deployment("web", image="registry.example.com/web:1.1.0")})
    promotion = {"from": "stage", "take": ["images"]}
    follow(site, "live", {"web.yaml": deployment("web", image="registry.example.com/web:1.0.0")}, promotion=promotion)
    # staging has to be Healthy, and the controller to have found it: no event of the engine follows that
    until(lambda: "Promote live" in site.web.ask("/updates").text)
    with visitor(open_page, 2) as person:
        person.click(person.page.get_by_role("link", name="Updates", exact=True))
        button = person.page.get_by_role("button", name="Promote live")
        expect(person.page.locator("main")).to_contain_text("web:1.1.0")
        person.click(button)
        expect(person.page.locator("main")).to_contain_text("on gitsync/promote-live", timeout=120_000)
    branches = site.world.repo.git("ls-remote", "origin", "gitsync/promote-live")
    assert "refs/heads/gitsync/promote-live" in branches
