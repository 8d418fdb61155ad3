"""Edits of an Application with several sources go to the repository of the source whose line sets the field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from gitsync.cli.adapters import InProcessRenderer
from gitsync.edit.adopt import ClusterValue
from gitsync.errors import InvalidInput
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, parse_application
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials
from gitsync.ports.hosts import CodeHosts
from gitsync.services.adopt import AdoptService, KeepService, ProposedAdoption, find_edits
from gitsync.services.updates import AppState, UpdateKind, UpdatePorts, UpdateService
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases
from tests.edit.test_chart_values import CHART
from tests.fakes.helm import ValuesHelm
from tests.fakes.ports import FakeClock
from tests.fakes.review_branches import OpenedRequests
from tests.git_repository import GitRepo, git
from tests.services.test_updates import Tags

WEB = ObjectRef("apps", "Deployment", "shop", "web")
EXTRA = ObjectRef("", "ConfigMap", "shop", "extra")
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata:\n  level: info\n"


class Sources:
    """A chart in one repository; its values, and what an overlay adds, in another one."""

    def __init__(self, folder: Path) -> None:
        self.charts = GitRepo(folder / "charts")
        self.charts.commit(CHART, "Add the chart")
        self.deploy = GitRepo(folder / "deploy")
        files = {"env/prod.yaml": "image: {tag: '1.0'}\n", "extra/config.yaml": CONFIG}
        self.deploy.commit(files, "Add values")
        self.source = Repositories(folder / "mirrors", Transport(("file",)))
        self.renderer = InProcessRenderer(ValuesHelm())
        self.hosts = OpenedRequests()
        self.bases = RemoteBases(self.renderer, self.source, self.credentials, lambda app: ())
        self.proposals = AdoptService(self.source, cast("CodeHosts", self.hosts), self.credentials)
        self.registry = Tags()

    def credentials(self, app: Application) -> Credentials:
        # as ``ApplicationSecrets.credentials`` returns them
        return Credentials(parts=(Credentials(),) * len(app.source.parts)) if app.source.parts[1:] else Credentials()

    def entries(self, environment: str = "prod") -> list[dict[str, Any]]:
        web = {"name": "web", "repoURL": self.charts.url, "revision": "main", "path": "charts/web"}
        deploy = {"repoURL": self.deploy.url, "revision": "main"}
        return [
            {**web, "helm": {"valueFiles": [f"$values/env/{environment}.yaml"]}},
            {**deploy, "name": "values"},
            {**deploy, "name": "extra", "path": "extra"},
        ]

    def app(self, **more: Any) -> Application:
        place = {"destination": {"namespace": "shop"}, "pullRequests": {"host": "Gitea"}}
        spec = {"sources": self.entries(), **place, **more}
        return parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": spec})

    def keep(self, *values: ClusterValue) -> ProposedAdoption:
        service = KeepService(self.source, self.bases, self.renderer, self.proposals, self.credentials)
        return service.keep(self.app(), values, author="Ada <ada@example.com>")

    def updates(self, environments: Mapping[str, AppState] = MappingProxyType({})) -> UpdateService:
        ports = UpdatePorts(
            self.source,
            self.bases,
            self.renderer,
            self.proposals,
            lambda app: self.registry,
            FakeClock(),
            self.credentials,
            lambda app: Policy(),
            environments.get,
        )
        return UpdateService(ports)


def value(ref: ObjectRef, path: str, live: Any) -> ClusterValue:
    return ClusterValue(ref, path, live, "kubectl-edit")


def changed(repo: GitRepo, branch: str) -> list[str]:
    """Return the lines that a branch adds."""
    lines = git(repo.origin, "diff", "--unified=0", "main", branch).splitlines()
    return [line for line in lines if line.startswith("+")]


def test_a_value_of_a_chart_is_kept_in_the_repository_of_its_values(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    proposed = sources.keep(value(WEB, ".spec.replicas", 3))
    assert changed(sources.deploy, proposed.branch) == ["+++ b/env/prod.yaml", "+replicaCount: 3"]
    # the path is that of the repository that has the commit
    assert "1 -> 3 (env/prod.yaml:2)" in git(sources.deploy.origin, "log", "-1", "--format=%B", proposed.branch)
    [request] = sources.hosts.opened
    assert (request.head_branch, request.base_branch) == (proposed.branch, "main")
    assert git(sources.charts.origin, "branch", "--list", "gitsync/*") == ""


def test_two_sources_of_one_repository_are_one_commit(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    proposed = sources.keep(value(WEB, ".spec.replicas", 3), value(EXTRA, ".data.level", "debug"))
    lines = changed(sources.deploy, proposed.branch)
    assert lines == ["+++ b/env/prod.yaml", "+replicaCount: 3", "+++ b/extra/config.yaml", "+  level: debug"]


def test_what_is_in_another_repository_is_taken_by_itself(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    sources.charts.commit({"charts/web/templates/own.yaml": CONFIG.replace("extra", "own")}, "Add an object")
    sources.charts.commit({"own/config.yaml": CONFIG.replace("extra", "more")}, "Add a folder")
    more = {"name": "more", "repoURL": sources.charts.url, "revision": "main", "path": "own"}
    app = sources.app(sources=[*sources.entries(), more])
    credentials = sources.credentials(app)
    head = sources.source.resolve(app.source, credentials)
    snapshot = sources.source.snapshot(app.source, credentials, head)
    build = sources.bases.render(app, snapshot)
    of_other = value(ObjectRef("", "ConfigMap", "shop", "more"), ".data.level", "debug")
    edits = find_edits(
        sources.renderer, sources.bases, app, snapshot, build, [value(WEB, ".spec.replicas", 3), of_other]
    )
    assert list(edits.adoption.files) == ["env/prod.yaml"]
    [(refused, reason)] = edits.adoption.refused
    assert (refused, reason) == (
        of_other,
        "its line is in another repository, more/own/config.yaml:5; take it by itself",
    )
    # a template has no values to edit
    static = value(ObjectRef("", "ConfigMap", "shop", "own"), ".data.level", "debug")
    with pytest.raises(InvalidInput, match=r"nothing can be kept: .*comes from the chart web/charts/web"):
        sources.keep(static)


def test_images_are_updated_in_the_repository_of_the_values(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    app = sources.app(images=[{"name": "web", "semver": ">=1"}], imageUpdates={"mode": "PullRequest"})
    sources.registry.tags_of = {"web": ("1.0.0", "1.1.0")}
    sources.deploy.commit({"env/prod.yaml": "image: {tag: 1.0.0}\n"}, "Name a version")
    updates = sources.updates()
    update = updates.find(UpdateKind.IMAGES, app)
    assert update.app == app
    proposed = updates.propose(update, author="Ada <ada@example.com>")
    assert changed(sources.deploy, "gitsync/images-shop") == ["+++ b/env/prod.yaml", "+image: {tag: 1.1.0}"]
    # what is not needed any more is found in the repository that has it
    head = updates.leftover(UpdateKind.IMAGES, app)
    assert head == proposed.commit.id
    updates.withdraw(UpdateKind.IMAGES, app, head, "1.1.0 is gone")
    assert updates.leftover(UpdateKind.IMAGES, app) == ""
    assert sources.hosts.closed == [1]
    # a value that a person set back is not proposed again
    updates.propose(updates.find(UpdateKind.IMAGES, app), author="Ada <ada@example.com>")
    git(sources.deploy.work, "fetch", "-q", "origin", "gitsync/images-shop")
    git(sources.deploy.work, "merge", "-q", "FETCH_HEAD")
    git(sources.deploy.work, "push", "-q", "origin", "HEAD:main")
    sources.deploy.commit({"env/prod.yaml": "image: {tag: 1.0.0}\n"}, "Set it back")
    [choice] = updates.find(UpdateKind.IMAGES, app).images
    assert choice.problem == "1.1.0 was reverted; a newer one is awaited"


def test_an_image_is_promoted_from_an_environment_to_the_values_of_another(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    sources.deploy.commit({"env/staging.yaml": "image: {tag: '2.0'}\n"}, "Add staging")
    staging = sources.app(sources=sources.entries("staging"))
    head = sources.source.resolve(staging.source, sources.credentials(staging))
    status = {"phase": "Synced", "health": "Healthy", "revision": {"applied": head, "fetched": head}}
    updates = sources.updates({"gitsync/staging": AppState(staging, status)})
    update = updates.find(UpdateKind.PROMOTION, sources.app(promotion={"from": "staging"}))
    updates.propose(update, author="Ada <ada@example.com>")
    assert changed(sources.deploy, "gitsync/promote-shop") == ["+++ b/env/prod.yaml", "+image: {tag: '2.0'}"]
