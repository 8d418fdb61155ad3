"""``gitsync preview`` of changes in a real repository."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gitsync.objects.application import GitSource
from gitsync.settings import Settings
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.cli.conftest import Gitsync, Shop
from tests.fakes.code_host import HostServer, code_host
from tests.flow.factories import deployment as flow_deployment
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.preview.factories import deployment


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepo:
    made = GitRepo(tmp_path)
    made.commit({"prod/kustomization.yaml": "resources: [d.yaml]", "prod/d.yaml": deployment()}, "Base")
    git(made.work, "checkout", "-q", "-b", "change")
    made.commit({"prod/d.yaml": deployment(replicas=3)}, "Scale", push=False)
    monkeypatch.chdir(made.work)
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_STEP_SUMMARY", "GITHUB_BASE_REF", "GITHUB_EVENT_PATH"):
        monkeypatch.delenv(name, raising=False)
    return made


def test_it_compares_the_merge_of_a_range(gitsync: Gitsync, repo: GitRepo) -> None:
    done = gitsync("preview", "main..change")

    assert done.code == 1
    assert "update Deployment default/web  [Moderate, rule updates] changes an object" in done.out
    assert "prod/d.yaml:5" in done.out
    assert "Ada Writer" in done.out


def test_without_a_range_it_compares_with_the_branch_of_the_remote(gitsync: Gitsync, repo: GitRepo) -> None:
    assert gitsync("preview").out == gitsync("preview", "origin/main..HEAD").out


def test_its_json_follows_its_schema(gitsync: Gitsync, repo: GitRepo) -> None:
    document = json.loads(gitsync("preview", "-o", "json").out)

    jsonschema.validate(document, json.loads(gitsync("preview", "-o", "schema").out))
    [change] = document["changes"]
    [field] = change["steps"][0]["fields"]
    assert (field["from"], field["to"], field["where"], field["author"]) == (1, 3, "prod/d.yaml:5", "Ada Writer")


def test_what_is_staged(gitsync: Gitsync, repo: GitRepo) -> None:
    (repo.work / "prod/d.yaml").write_text(deployment(replicas=4))
    assert gitsync("preview", "--staged").code == 0
    git(repo.work, "add", "-A")

    assert "+ .spec.replicas: 4" in gitsync("preview", "--staged").out


def test_only_some_folders(gitsync: Gitsync, repo: GitRepo) -> None:
    repo.commit({"dev/kustomization.yaml": "resources: [../prod]"}, "Add dev", push=False)

    assert "dev" not in gitsync("preview", "main..", "prod").out.splitlines()[-1]


@pytest.mark.parametrize(("highest", "code"), [("Safe", 2), ("Moderate", 1), ("Dangerous", 1)])
def test_a_class_above_the_highest_fails(gitsync: Gitsync, repo: GitRepo, highest: str, code: int) -> None:
    assert gitsync("preview", "--max-risk", highest).code == code


def test_a_folder_that_cannot_be_built_fails(gitsync: Gitsync, repo: GitRepo) -> None:
    repo.commit({"prod/d.yaml": "kind: ["}, "Break", push=False)
    done = gitsync("preview")

    assert done.code == 2
    assert "cannot be built: prod/d.yaml:" in done.out


def test_a_job_of_actions_annotates_and_writes_its_summary(
    gitsync: Gitsync, repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    done = gitsync("preview", "--ci", "--markdown", tmp_path / "comment.md")

    assert done.code == 0
    assert done.out.startswith("::warning file=prod/d.yaml,line=5::Moderate: Deployment default/web")
    assert (tmp_path / "summary.md").read_text() == (tmp_path / "comment.md").read_text()
    assert "### gitsync: Moderate" in (tmp_path / "summary.md").read_text()


def test_a_merge_queue_and_a_push_name_their_base(
    gitsync: Gitsync, repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(repo.work, "rev-parse", "change")
    repo.commit({"prod/d.yaml": deployment(replicas=5)}, "Scale more", push=False)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for event in ({"merge_group": {"base_sha": base}}, {"before": base}):
        (tmp_path / "event.json").write_text(json.dumps(event))
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
        gitsync("preview", "--ci", "--markdown", tmp_path / "comment.md")
        assert "- .spec.replicas: 3" in (tmp_path / "comment.md").read_text()


def test_a_job_of_gitlab_prints_lines(gitsync: Gitsync, repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")

    assert gitsync("preview", "--ci").out.startswith("prod/d.yaml:5: warning: Moderate")


def test_a_repository_without_a_remote_needs_a_base(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk", ".")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "First")
    monkeypatch.chdir(tmp_path)
    done = gitsync("preview")

    assert done.code == 2
    assert "gitsync preview main..HEAD" in done.err


def test_one_page_of_html(gitsync: Gitsync, repo: GitRepo) -> None:
    done = gitsync("preview", "-o", "html")
    assert done.code == 1
    assert "<ins>+ .spec.replicas: 3   # prod/d.yaml:5" in done.out
    assert done.out.count("<script") == 0


def test_a_pull_request_is_read_from_its_host(
    gitsync: Gitsync, repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(repo.work, "rev-parse", "change")
    git(repo.work, "push", "-q", "origin", f"{head}:refs/pull/7/head")
    # git reads from the folder what the command asks the host for
    monkeypatch.setattr(Settings, "repositories", partial(_served_by, repo))
    with code_host(HostServer()) as server:
        server.add(7, head)
        token = tmp_path / "token"
        token.write_text("TOKEN\n")
        done = gitsync("preview", "--pr", f"{server.base}/team/shop/pulls/7", "--token-file", token)
    assert done.code == 1, done.err
    assert "update Deployment default/web  [Moderate, rule updates] changes an object" in done.out
    assert "prod/d.yaml:5" in done.out


class _Served(Repositories):
    """The repository of a host, which is a folder."""

    url = ""

    def resolve(self, source: GitSource, *more: Any, **named: Any) -> str:
        return super().resolve(source.model_copy(update={"repo_url": self.url}), *more, **named)

    def merge(self, source: GitSource, *more: Any, **named: Any) -> Any:
        return super().merge(source.model_copy(update={"repo_url": self.url}), *more, **named)

    def snapshot(self, source: GitSource, *more: Any, **named: Any) -> Any:
        return super().snapshot(source.model_copy(update={"repo_url": self.url}), *more, **named)


def _served_by(repo: GitRepo, folder: Path, **_: Any) -> Repositories:
    served = _Served(folder, Transport(("file", "http")))
    served.url = repo.url
    return served


@pytest.mark.parametrize("url", ["https://github.com/a/b", "file:///x/pull/1", "https://github.com/a/b/pull/x"])
def test_another_url_is_no_pull_request(gitsync: Gitsync, repo: GitRepo, url: str) -> None:
    done = gitsync("preview", "--pr", url)
    assert (done.code, "--pr: is not the page of a pull request" in done.err) == (2, True)


def test_other_repositories_are_read_where_they_are_allowed(gitsync: Gitsync, repo: GitRepo, tmp_path: Path) -> None:
    other = GitRepo(tmp_path / "other")
    for replicas in (1, 2):
        files = {"app/kustomization.yaml": "resources: [web.yaml]", "app/web.yaml": deployment(replicas=replicas)}
        other.commit(files)
        git(other.work, "push", "-q", "origin", f"HEAD:refs/tags/v{replicas}")
    with GitServer(tmp_path / "other") as server:
        reference = f"{server.url('origin.git')}//app?ref=v"
        base = repo.commit({"far/kustomization.yaml": f"resources: ['{reference}1']\n"}, push=False)
        repo.commit({"far/kustomization.yaml": f"resources: ['{reference}2']\n"}, push=False)
        offline = gitsync("preview", f"{base}..HEAD")
        assert "a preview does not read" in offline.out
        assert gitsync("preview", f"{base}..HEAD", "--remote", "https://github.com/*").out == offline.out
        assert not server.requests
        compared = gitsync("preview", f"{base}..HEAD", "--remote", server.url("*"))
        assert "+ .spec.replicas: 2" in compared.out
        assert compared.code == 1
        missing = repo.commit({"far/kustomization.yaml": f"resources: ['{reference}3']\n"}, push=False)
        refused = gitsync("preview", f"{base}..{missing}", "--remote", server.url("*"))
        assert (refused.code, "neither a tag nor a full commit id" in refused.err) == (3, True)


def test_a_pull_request_and_a_range_are_not_mixed(gitsync: Gitsync, repo: GitRepo) -> None:
    done = gitsync("preview", "main..change", "--pr", "https://github.com/a/b/pull/1")
    assert (done.code, "not both" in done.err) == (2, True)


def test_without_a_cluster_there_is_no_live_comparison(gitsync: Gitsync, repo: GitRepo, tmp_path: Path) -> None:
    assert gitsync("preview", "--live", "--kubeconfig", tmp_path / "absent").code == 2


def test_live_drift_that_a_merge_would_meet_is_shown(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    world = shop.world
    clone = world.repo.clone
    (clone / "shop/web.yaml").write_text(flow_deployment("web", replicas=3))
    world.repo.git("add", "-A")
    monkeypatch.chdir(clone)
    done = shop("preview", "--staged", "--live")
    assert done.code == 1, done.err
    live = done.out.partition("in the cluster: gitsync/shop")[2]
    assert "update Deployment shop/web" in live
    assert "+ .spec.replicas: 3" in live
