"""A revert is rendered before it is pushed: one commit or all after one, for every Application of the branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.cli.adapters import InProcessRenderer
from gitsync.errors import Refused
from gitsync.objects.application import Application, app_of_part, parse_application
from gitsync.objects.change import Action, Risk
from gitsync.objects.record import Commit
from gitsync.ports import Credentials
from gitsync.services.revert import AffectedApplication, RevertPreview
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases
from tests.git_repository import GitRepo, git

CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
"""
KUSTOMIZATION = "configMapGenerator: [{name: prompt, files: [prompt.md]}]\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {key: %s}\n"


def settings(value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{mode: {value}}}\n"


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    made = GitRepo(tmp_path / "git")
    made.commit({"shop/a.yaml": settings("one"), "other/a.yaml": settings("one")}, "First")
    made.commit({"shop/a.yaml": settings("two")}, "Second")
    made.commit({"shop/claim.yaml": CLAIM}, "Third")
    return made


@pytest.fixture
def preview(tmp_path: Path) -> RevertPreview:
    source = Repositories(tmp_path / "mirrors", Transport(("file",)))
    bases = RemoteBases(InProcessRenderer(), source, lambda app: Credentials(), lambda app: ())
    return RevertPreview(source, bases, lambda app: Credentials())


def application(repo: GitRepo, name: str = "shop") -> Application:
    spec = {"source": {"repoURL": repo.url, "path": name}}
    return parse_application({"metadata": {"name": name, "namespace": "gitsync"}, "spec": spec})


def commits(repo: GitRepo, count: int, skip: int = 0) -> list[Commit]:
    found = git(repo.origin, "log", f"--skip={skip}", f"-{count}", "--format=%H", "main")
    return [Commit(line) for line in found.split()]


def test_the_newest_commit_and_its_class(repo: GitRepo, preview: RevertPreview) -> None:
    app = application(repo)
    head = git(repo.origin, "rev-parse", "main")
    shop, other = preview.effects(
        app, commits(repo, 1), [AffectedApplication(app), AffectedApplication(application(repo, "other"))]
    )
    (step,) = shop.steps
    assert (step.action, str(step.ref), step.risk) == (Action.PRUNE, "PersistentVolumeClaim data", Risk.DANGEROUS)
    assert (shop.risk, other.steps, other.risk) == (Risk.DANGEROUS, (), Risk.SAFE)
    assert git(repo.origin, "rev-parse", "main") == head  # nothing was pushed


def test_an_older_commit_alone_and_all_after_one(repo: GitRepo, preview: RevertPreview) -> None:
    app = application(repo)
    (alone,) = preview.effects(app, commits(repo, 1, skip=1), [AffectedApplication(app)])
    assert [(step.action, item.path, item.live, item.desired) for step in alone.steps for item in step.differences] == [
        (Action.UPDATE, ".data.mode", "two", "one")
    ]
    (everything,) = preview.effects(app, commits(repo, 2), [AffectedApplication(app)])
    assert {step.action for step in everything.steps} == {Action.UPDATE, Action.PRUNE}


def test_a_generated_object_is_one_change_with_its_text(repo: GitRepo, preview: RevertPreview) -> None:
    repo.commit({"shop/kustomization.yaml": KUSTOMIZATION, "shop/prompt.md": "be nice\nbe brief\n"}, "Add a prompt")
    repo.commit({"shop/prompt.md": "be rude\nbe brief\n"}, "Change the prompt")
    app = application(repo)
    (effect,) = preview.effects(app, commits(repo, 1), [AffectedApplication(app)])
    (step,) = effect.steps
    assert step.follows is not None
    assert [(item.live, item.desired) for item in step.differences if item.path.startswith(".data")] == [
        ("be rude\nbe brief\n", "be nice\nbe brief\n")
    ]


def test_secret_values_are_masked(repo: GitRepo, preview: RevertPreview) -> None:
    repo.commit({"shop/secret.yaml": SECRET % "hunter1"}, "Add a key")
    repo.commit({"shop/secret.yaml": SECRET % "hunter2"}, "Rotate the key")
    app = application(repo)
    (effect,) = preview.effects(app, commits(repo, 1), [AffectedApplication(app)])
    assert effect.steps
    assert "hunter" not in str(effect)


def test_an_application_that_cannot_be_rendered_does_not_hide_the_others(repo: GitRepo, preview: RevertPreview) -> None:
    repo.commit({"other/broken.yaml": "a: [1\n"}, "Break the other")
    app = application(repo)
    shop, other = preview.effects(
        app, commits(repo, 1, skip=1), [AffectedApplication(app), AffectedApplication(application(repo, "other"))]
    )
    assert len(shop.steps) == 1
    assert "other/broken.yaml" in other.problem


def test_a_commit_that_later_ones_overlap_is_refused(repo: GitRepo, preview: RevertPreview) -> None:
    app = application(repo)
    repo.commit({"shop/a.yaml": settings("three")}, "Fourth")
    with pytest.raises(Refused, match="cannot be reverted by itself"):
        preview.effects(app, commits(repo, 1, skip=2), [AffectedApplication(app)])


def test_a_commit_that_was_not_applied_is_no_change(repo: GitRepo, preview: RevertPreview) -> None:
    app = application(repo)
    (applied,) = commits(repo, 1, skip=1)
    (effect,) = preview.effects(app, commits(repo, 1), [AffectedApplication(app, applied.id)])
    assert effect.steps == ()
    (effect,) = preview.effects(app, commits(repo, 2), [AffectedApplication(app, applied.id)])
    assert [(step.action, item.live) for step in effect.steps for item in step.differences] == [(Action.UPDATE, "two")]


def test_what_another_waiting_commit_changes_is_no_effect_of_a_revert(repo: GitRepo, preview: RevertPreview) -> None:
    app = application(repo)
    (_, _, first) = commits(repo, 3)
    (effect,) = preview.effects(app, commits(repo, 1), [AffectedApplication(app, first.id)])
    assert effect.steps == ()


def test_the_newest_commit_that_changed_an_application(repo: GitRepo, preview: RevertPreview) -> None:
    (third,) = commits(repo, 1)
    repo.commit({"other/a.yaml": settings("two")}, "Fourth")
    (fourth,) = commits(repo, 1)
    repo.commit({"other/a.yaml": settings("three")}, "Fifth, which the fourth cannot be reverted without")
    repo.commit({"README.md": "nothing"}, "Sixth")
    latest = commits(repo, 6)
    assert preview.newest_change(application(repo), latest, application(repo)) == third
    assert preview.newest_change(application(repo, "other"), latest, application(repo, "other")) == latest[1]
    assert preview.newest_change(application(repo, "other"), [latest[0], fourth], application(repo, "other")) is None


def test_the_commit_that_added_a_folder_is_not_offered(repo: GitRepo, preview: RevertPreview) -> None:
    assert preview.newest_change(application(repo, "other"), commits(repo, 3), application(repo, "other")) is None


def test_a_revert_in_one_of_several_sources_is_shown_with_the_others(repo: GitRepo, tmp_path: Path) -> None:
    source = Repositories(tmp_path / "mirrors", Transport(("file",)))

    def credentials(app: Application) -> Credentials:
        return Credentials(parts=(Credentials(),) * len(app.source.parts)) if app.source.parts[1:] else Credentials()

    bases = RemoteBases(InProcessRenderer(), source, credentials, lambda app: ())
    preview = RevertPreview(source, bases, credentials)
    second = GitRepo(tmp_path / "second")
    second.commit({"more.yaml": settings("many").replace("settings", "more")}, "Add more")
    entries = [
        {"name": "shop", "repoURL": repo.url, "path": "shop"},
        {"name": "more", "repoURL": second.url, "path": "."},
    ]
    whole = parse_application({"metadata": {"name": "all", "namespace": "gitsync"}, "spec": {"sources": entries}})
    part = app_of_part(whole, "shop")
    (effect,) = preview.effects(part, commits(repo, 2), [AffectedApplication(whole)])
    assert effect.problem == ""
    assert {str(step.ref) for step in effect.steps} == {"ConfigMap settings", "PersistentVolumeClaim data"}
    # what only the other source changed is not among the commits of this one
    assert preview.newest_change(part, commits(repo, 2), whole) == commits(repo, 1)[0]
