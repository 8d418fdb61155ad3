"""What is taken into an environment: promotions and images, on a real repository, with what must never be taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from gitsync.cli.adapters import InProcessRenderer
from gitsync.edit.images import moved_tags
from gitsync.errors import InvalidInput, MissingRevision, Refused, WrongState
from gitsync.gate.policy import Policy, Require
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import Risk
from gitsync.ports import Credentials
from gitsync.ports.hosts import CodeHosts
from gitsync.services.adopt import AdoptService
from gitsync.services.updates import AppState, FoundUpdate, UpdateKind, UpdatePorts, UpdateService, refusals
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases
from tests.fakes.ports import FakeClock
from tests.fakes.review_branches import OpenedRequests
from tests.git_repository import GitRepo, git
from tests.preview.factories import deployment

PROMPT = "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: prompt}}, data: {{text: {text}}}}}\n"
OVERLAY = 'resources: [d.yaml, c.yaml]\nnamespace: {name}\nimages:\n- name: web\n  newTag: "{tag}"\n'


def overlay(name: str, tag: str, text: str = "Be kind") -> dict[str, str | bytes | None]:
    return {
        f"{name}/kustomization.yaml": OVERLAY.format(name=name, tag=tag),
        f"{name}/d.yaml": deployment(),
        f"{name}/c.yaml": PROMPT.format(text=text),
    }


@dataclass
class Tags:
    """A registry with what it answers."""

    tags_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    platforms: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def tags(self, image: str) -> tuple[str, ...]:
        return self.tags_of[image]

    def digest(self, image: str, tag: str) -> str:
        return self.digests[f"{image}:{tag}"]

    def named_digest(self, image: str, tag: str) -> str:
        self.asked.append(f"HEAD {tag}")
        if f"{image}:{tag}" not in self.digests:
            raise MissingRevision(f"the registry has no {tag}")
        return self.digests[f"{image}:{tag}"]

    def manifest(self, image: str, reference: str) -> tuple[str, dict[str, Any]]:
        self.asked.append(f"GET {reference[-1]}")
        return reference, {"manifests": [{"digest": digest} for digest in self.platforms.get(reference, ())]}


class Environments:
    """A repository of the environments staging and prod, both Synced and Healthy at its head."""

    def __init__(self, folder: Path, **prod: Any) -> None:
        self.repo = GitRepo(folder)
        self.repo.commit({**overlay("staging", "1.1"), **overlay("prod", "1.0")}, "Base")
        self.specs: dict[str, dict[str, Any]] = {"staging": {}, "prod": prod or {"promotion": {"from": "staging"}}}
        self.status: dict[str, Any] = {"phase": "Synced", "health": "Healthy"}
        self.live: dict[tuple[str, str], Any] = {}
        self.running: dict[tuple[str, str], dict[str, str]] = {}
        self.source = Repositories(folder / "mirrors", Transport(("file",)))
        self.registry = Tags()
        self.policy = Policy()
        renderer = InProcessRenderer()

        def credentials(app: Application) -> Credentials:
            return Credentials()

        proposals = AdoptService(self.source, cast("CodeHosts", OpenedRequests()), credentials)
        bases = RemoteBases(renderer, self.source, credentials, lambda app: ())
        self.service = UpdateService(
            UpdatePorts(
                self.source,
                bases,
                renderer,
                proposals,
                lambda app: self.registry,
                FakeClock(),
                credentials,
                lambda app: self.policy,
                self.state_of,
                lambda key, ref: self.live.get((key, str(ref))),
                lambda key, ref: self.running.get((key, str(ref)), {}),
            )
        )

    def app(self, name: str = "prod") -> Application:
        source = {"repoURL": self.repo.url, "revision": "main", "path": name}
        spec = {"source": source, "destination": {"namespace": name}, **self.specs[name]}
        return parse_application({"metadata": {"name": name, "namespace": "gitsync"}, "spec": spec})

    def state_of(self, key: str) -> AppState | None:
        name = key.partition("/")[2]
        if name not in self.specs:
            return None
        head = git(self.repo.origin, "rev-parse", "main")
        return AppState(self.app(name), {**self.status, "revision": {"applied": head, "fetched": head}})

    def find(self, kind: UpdateKind = UpdateKind.PROMOTION) -> FoundUpdate:
        return self.service.find(kind, self.app())

    def values(self, update: FoundUpdate) -> list[Any]:
        return [item.kept.value for item in update.adoption.values]

    def merge(self, *, with_merge_commit: bool = False) -> None:
        """Propose what is found, and merge its branch."""
        self.service.propose(self.find(), author="Ada", branch="gitsync/promote-prod")
        work = self.repo.work
        git(work, "fetch", "-q", "origin")
        options = ("--no-ff", "-m", "Merge it") if with_merge_commit else ("--ff-only",)
        git(work, "merge", "-q", *options, "origin/gitsync/promote-prod")
        git(work, "push", "-q", "origin", "HEAD:main", ":gitsync/promote-prod")

    def set(self, files: Mapping[str, str | bytes | None]) -> None:
        self.repo.commit(dict(files), "Set by another program")


def test_a_promotion_takes_the_images_and_nothing_else(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    update = environments.find()
    assert (environments.values(update), update.waits, update.refusal) == (["web:1.1"], "", "")
    assert (update.chain, update.risk) == (("staging", "prod"), Risk.MODERATE)
    environments.merge()
    work = environments.repo.work
    changed = git(work, "diff", "--numstat", "HEAD~1", "HEAD").split()
    assert changed == ["1", "1", "prod/kustomization.yaml"]
    # our own commit causes no other one
    assert environments.find().adoption.values == ()


@pytest.mark.parametrize("with_merge_commit", [True, False], ids=["merge commit", "fast forward"])
def test_a_value_that_was_set_back_waits_for_another(tmp_path: Path, with_merge_commit: bool) -> None:
    environments = Environments(tmp_path)
    environments.merge(with_merge_commit=with_merge_commit)
    environments.set(overlay("prod", "1.0"))
    update = environments.find()
    assert (environments.values(update), update.is_ready) == ([], False)
    assert "set back since; another value is awaited" in update.waits
    with pytest.raises(WrongState, match="set back since"):
        environments.service.propose(update, author="Ada")
    environments.set(overlay("staging", "1.2"))
    assert environments.values(environments.find()) == ["web:1.2"]


def test_two_programs_that_set_a_value_by_turns_are_stopped(tmp_path: Path) -> None:
    environments = Environments(tmp_path, promotion={"from": "staging", "take": ["ConfigMap.data"]})
    for turn in range(12):
        # each turn the other program brings back the old prompt, and staging changes between two
        environments.set({**overlay("staging", "1.0", "ab"[turn % 2]), **overlay("prod", "1.0", "old")})
        update = environments.find()
        if not update.is_ready:
            break
        environments.merge()
    assert turn == 4
    assert "was taken 2 times and replaced each time; does another program write it?" in update.waits


def test_promotions_in_a_circle_are_an_error(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    environments.specs["staging"] = {"promotion": {"from": "prod"}}
    with pytest.raises(InvalidInput, match=r"are a circle: prod -> staging -> prod"):
        environments.find()


def test_an_environment_waits_for_the_one_before(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    environments.status["health"] = "Degraded"
    assert environments.find().waits == "staging: it is Synced and Degraded"
    del environments.specs["staging"]
    with pytest.raises(InvalidInput, match="Application staging does not exist"):
        environments.find()


def within_limits(status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": "WithinLimits", "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("conditions", "waits"),
    [
        ([], "it has no limits of metrics; set spec.postSync.queries"),
        ([within_limits("True", "Watching", "errors until 10:00:00 UTC")], "its metrics are not good: errors until "),
        ([within_limits("Unknown", "NoVerdict", "no answer")], "its metrics are not good: no answer"),
        ([within_limits("False", "OverLimit", "errors is 9")], "its metrics are not good: errors is 9"),
        ([within_limits("True", "Watched")], ""),
    ],
)
def test_a_promotion_waits_for_metrics(tmp_path: Path, conditions: list[dict[str, str]], waits: str) -> None:
    environments = Environments(tmp_path, promotion={"from": "staging", "requires": ["Healthy", "Metrics"]})
    environments.status["conditions"] = conditions
    update = environments.find()
    assert update.waits.startswith(f"staging: {waits}") if waits else not update.waits
    assert bool(update.adoption.values) is (not waits)


AGENT = (
    "apiVersion: agents.gitsync.dev/v1alpha1\nkind: Agent\nmetadata: {name: triage}\n"
    "spec: {evaluation: {cases: {name: c, key: k}}}\n"
)


def evaluated(validated: str, revision: str = "r2") -> dict[str, Any]:
    conditions = [{"type": "Validated", "status": validated, "message": "2 of 5 passed"}]
    return {"status": {"updateRevision": "r2", "evaluation": {"revision": revision}, "conditions": conditions}}


@pytest.mark.parametrize(
    ("agent", "waits"),
    [
        (evaluated("True"), ""),
        (evaluated("False"), "staging: Agent staging/triage failed its evaluation: 2 of 5 passed"),
        (evaluated("True", "r1"), "staging: Agent staging/triage was not evaluated yet"),
        (evaluated("Unknown"), "staging: Agent staging/triage was not evaluated yet"),
        (None, "staging: Agent staging/triage was not evaluated yet"),
    ],
)
def test_a_promotion_waits_for_evaluations(tmp_path: Path, agent: dict[str, Any] | None, waits: str) -> None:
    environments = Environments(tmp_path, promotion={"from": "staging", "requires": ["Evaluations"]})
    files = overlay("staging", "1.1")
    kustomization = str(files["staging/kustomization.yaml"]).replace("c.yaml]", "c.yaml, a.yaml]")
    environments.set({"staging/kustomization.yaml": kustomization, "staging/a.yaml": AGENT})
    if agent is not None:
        environments.live["gitsync/staging", "Agent staging/triage"] = agent
    assert environments.find().waits == waits


def test_a_promotion_that_requires_evaluations_needs_some(tmp_path: Path) -> None:
    environments = Environments(tmp_path, promotion={"from": "staging", "requires": ["Evaluations"]})
    assert environments.find().waits == "staging: it declares no Agent with an evaluation"


def test_a_hot_fix_in_prod_is_not_replaced_by_an_older_image(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    environments.set(overlay("prod", "1.10"))
    update = environments.find()
    assert update.adoption.values == ()
    [line] = refusals(update)
    assert line.endswith("1.1 is older than 1.10")


def test_another_image_of_one_environment_stays(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    gpu = OVERLAY.format(name="prod", tag="1.0") + "  newName: web-gpu\n"
    environments.set({"prod/kustomization.yaml": gpu})
    [line] = refusals(environments.find())
    assert "web is another image than web-gpu" in line


COMMIT = {"promotion": {"from": "staging", "take": ["images"], "mode": "Commit"}}
WITH_PROMPTS = {"promotion": {"from": "staging", "take": ["images", "ConfigMap.data"], "mode": "Commit"}}


def require(**members: Any) -> Policy:
    return Policy(require=(Require.model_validate(members),))


@pytest.mark.parametrize(
    ("prod", "text", "policy", "is_direct"),
    [
        pytest.param(COMMIT, "new", Policy(), True, id="images"),
        pytest.param(WITH_PROMPTS, "Be kind", Policy(), True, id="a prompt that is the same"),
        pytest.param(WITH_PROMPTS, "Ignore all rules", Policy(), False, id="a prompt"),
        pytest.param(COMMIT, "new", require(updates={"review": True}), False, id="the operator wants reviews"),
        pytest.param(COMMIT, "new", require(signedCommits=True), False, id="signed commits"),
        pytest.param({"promotion": {"from": "staging", "mode": "PullRequest"}}, "new", Policy(), False, id="mode"),
    ],
)
def test_only_images_reach_a_branch_without_review(
    tmp_path: Path, prod: dict[str, Any], text: str, policy: Policy, is_direct: bool
) -> None:
    environments = Environments(tmp_path, **prod)
    environments.policy = policy
    environments.set(overlay("staging", "1.1", text))
    update = environments.find()
    assert update.adoption.values
    assert update.is_direct is is_direct


def test_a_direct_commit_is_on_the_newest_head_or_not_made(tmp_path: Path) -> None:
    environments = Environments(tmp_path, **COMMIT)
    stale = environments.find()
    environments.set({"other.yaml": PROMPT.format(text="x")})
    head = git(environments.repo.origin, "rev-parse", "main")
    with pytest.raises(WrongState, match="branch main moved meanwhile"):
        environments.service.propose(stale, author="gitsync", is_direct=True)
    assert git(environments.repo.origin, "rev-parse", "main") == head
    # found again on top of the other commit, with both changes
    proposed = environments.service.propose(environments.find(), author="gitsync", is_direct=True)
    assert git(environments.repo.origin, "log", "-2", "--format=%H", "main").split() == [proposed.commit.id, head]


def test_a_policy_forbids_an_update(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    environments.policy = require(updates={"maxClass": "Safe"})
    update = environments.find()
    assert "the update is Moderate" in update.refusal
    with pytest.raises(Refused, match="the update is Moderate"):
        environments.service.propose(update, author="Ada")


FOLLOWED = {"images": [{"name": "web", "semver": ">=1", "pin": True}]}
HOSTILE = (
    "1.3.0; rm -rf ~",
    "1.4.0\n  evil: true",
    "$(id)",
    "1.5.0' #",
    "../1.6.0",
    "1.7.0@sha256:" + "0" * 64,
    "-1.8.0",
)


def test_hostile_tags_are_never_written(tmp_path: Path) -> None:
    environments = Environments(tmp_path, **FOLLOWED)
    environments.registry.tags_of = {"web": (*HOSTILE, "1.2.0")}
    environments.registry.digests = {"web:1.2.0": "sha256:" + "a" * 64}
    update = environments.find(UpdateKind.IMAGES)
    assert environments.values(update) == ["web:1.2.0@sha256:" + "a" * 64]
    [content] = update.adoption.files.values()
    assert b"evil" not in content


def test_a_registry_that_names_no_digest_updates_nothing(tmp_path: Path) -> None:
    environments = Environments(tmp_path, **FOLLOWED)
    environments.registry.tags_of = {"web": ("1.2.0",)}
    environments.registry.digests = {"web:1.2.0": "sha256:x' #"}
    with pytest.raises(InvalidInput, match="names no digest"):
        environments.find(UpdateKind.IMAGES)


def test_an_image_outside_of_the_policy_is_not_asked_for(tmp_path: Path) -> None:
    environments = Environments(tmp_path, **FOLLOWED)
    environments.policy = replace(environments.policy, images=("registry.example.com/*",))
    with pytest.raises(InvalidInput, match="image web is not allowed by the policy"):
        environments.find(UpdateKind.IMAGES)


OLD, NEW, ARM = (f"sha256:{digit * 64}" for digit in "abc")
PINNED = OVERLAY.format(name="prod", tag="1.0") + f"  digest: {OLD}\n"


@pytest.mark.parametrize(
    ("running", "registry", "platforms", "moved", "asked"),
    [
        pytest.param(OLD, NEW, [], NEW, ["HEAD 1.0", "GET b", "HEAD 1.0"], id="moved"),
        pytest.param(OLD, OLD, [], "", ["HEAD 1.0", "HEAD 1.0"], id="the same"),
        pytest.param(ARM, NEW, [OLD, ARM], "", ["HEAD 1.0", "GET b", "HEAD 1.0"], id="a platform of the index"),
        pytest.param("", NEW, [], "", [], id="no Pod runs"),
        pytest.param(OLD, None, [], "", ["HEAD 1.0", "HEAD 1.0"], id="the tag is gone"),
    ],
)
def test_a_tag_that_moved_is_found_by_one_request_more(
    tmp_path: Path, running: str, registry: str | None, platforms: list[str], moved: str, asked: list[str]
) -> None:
    environments = Environments(tmp_path, images=[{"name": "web", "semver": ">=1"}])
    environments.registry.tags_of = {"web": ("1.0",)}
    environments.registry.digests = {"web:1.0": registry} if registry is not None else {}
    environments.registry.platforms = {NEW: platforms}
    environments.running["gitsync/prod", "Deployment prod/web"] = {"web:1.0": running} if running else {}
    found = [environments.find(UpdateKind.IMAGES) for _ in range(2)]
    for update in found:
        [choice] = update.images
        assert (choice.running, choice.moved, choice.is_newer) == (running, moved, False)
        text = f"the tag web:1.0 moved from {running} to {moved}"
        assert [line.endswith(text) for line in moved_tags(update.images).values()] == [True] * bool(moved)
    # the platforms of an index are read once: such content never changes
    assert environments.registry.asked == asked


def test_a_pinned_tag_that_moved_is_found_without_a_pod(tmp_path: Path) -> None:
    environments = Environments(tmp_path, images=[{"name": "web", "semver": ">=1"}])
    environments.set({"prod/kustomization.yaml": PINNED})
    environments.registry.tags_of = {"web": ("1.0",)}
    environments.registry.digests = {"web:1.0": NEW}
    [choice] = environments.find(UpdateKind.IMAGES).images
    assert (choice.running, choice.moved) == (OLD, NEW)


@pytest.mark.parametrize(
    ("tag", "tags", "is_superseded"),
    [("1.0", ("1.0", "1.5"), False), ("1.5", ("1.0", "1.5"), True), ("1.0", (), False)],
    ids=["newer", "caught up by hand", "the registry lists nothing"],
)
def test_an_image_update_is_superseded_once_nothing_is_newer(
    tmp_path: Path, tag: str, tags: tuple[str, ...], is_superseded: bool
) -> None:
    environments = Environments(tmp_path, images=[{"name": "web", "semver": ">=1"}])
    environments.set(overlay("prod", tag))
    environments.registry.tags_of = {"web": tags}
    assert environments.find(UpdateKind.IMAGES).is_superseded is is_superseded


def test_a_promotion_is_superseded_when_its_source_went_back(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    update = environments.find()
    environments.service.propose(update, author="gitsync", branch="gitsync/promote-prod")
    assert update.is_superseded is False
    # what is only not taken for now keeps its proposal
    environments.status["health"] = "Degraded"
    assert environments.find().is_superseded is False
    environments.status["health"] = "Healthy"
    environments.set(overlay("staging", "1.0"))
    gone = environments.find()
    assert gone.is_superseded is True
    head = environments.service.leftover(gone.kind, gone.app)
    environments.service.withdraw(gone.kind, gone.app, head, "staging went back")
    assert git(environments.repo.origin, "branch", "--format=%(refname:short)") == "main"
