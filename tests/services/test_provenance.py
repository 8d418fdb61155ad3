"""Provenance of fields: traced on demand, once, without blocking syncs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import GitsyncError, InvalidInput, SourceUnavailable
from gitsync.objects.application import GitSource, parse_application
from gitsync.objects.charts import ChartOptions
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, Snapshot
from gitsync.render.build import Build, build
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import FieldSelection, Traces, trace
from gitsync.services.provenance import FieldProvenance
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.sync.remote_bases import RemoteBases
from tests.git_repository import GitRepo

REF = ObjectRef("", "ConfigMap", "shop", "a")
TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  key: x\n  other: y\n"


@dataclass
class InProcess:
    """A renderer without a process of its own."""

    asked: list[FieldSelection] = field(default_factory=list)
    error: GitsyncError | None = None

    def render(self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions) -> Build:
        raise AssertionError("nothing is rendered without provenance")

    def trace(
        self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions, wanted: FieldSelection
    ) -> Traces:
        self.asked.append(wanted)
        if self.error:
            raise self.error
        return trace(build(snapshot.tree, path, renderer=renderer, provenance=True), wanted)


class CredentialChecking(Repositories):
    """A source that requires the application's own credentials."""

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> Snapshot:
        assert credentials.username == "shop"
        return super().snapshot(source, credentials, commit)


def world(tmp_path: Path) -> tuple[InProcess, FieldProvenance, Any, str]:
    repo = GitRepo(tmp_path)
    commit = repo.commit({"shop/a.yaml": TEXT})
    app = parse_application(
        {
            "metadata": {"name": "shop", "namespace": "gitsync"},
            "spec": {"source": {"repoURL": repo.url, "path": "shop"}},
        }
    )
    source = CredentialChecking(tmp_path / "mirrors", Transport(("file",)))
    renderer = InProcess()
    bases = RemoteBases(renderer, source, lambda app: Credentials(username=app.name), lambda app: ())
    return renderer, FieldProvenance(source, bases, lambda app: Credentials(username=app.name)), app, commit


def test_what_was_asked_before_is_not_traced_again(tmp_path: Path) -> None:
    renderer, origins, app, commit = world(tmp_path)
    found = {REF: {".data.key": (FieldSetter("manifest", "shop/a.yaml:5"),)}}

    assert origins.trace(app, commit, {REF: [".data.key", ".data.gone"]}) == found
    assert origins.trace(app, commit, {REF: [".data.key", ".data.gone"]}) == found
    assert len(renderer.asked) == 1

    origins.trace(app, commit, {REF: [".data.key", ".data.other"]})
    assert renderer.asked[1:] == [{REF: [".data.other"]}]


def test_what_cannot_be_rendered_has_no_origin_and_is_not_tried_again(tmp_path: Path) -> None:
    renderer, origins, app, commit = world(tmp_path)
    renderer.error = InvalidInput("too large")

    assert origins.trace(app, commit, {REF: [".data.key"]}) == {REF: {}}
    assert origins.trace(app, commit, {REF: [".data.key"]}) == {REF: {}}
    assert len(renderer.asked) == 1


def test_an_outage_is_not_kept_as_no_origin(tmp_path: Path) -> None:
    renderer, origins, app, commit = world(tmp_path)
    renderer.error = SourceUnavailable("the Git server does not answer")
    assert origins.trace(app, commit, {REF: [".data.key"]}) == {REF: {}}
    renderer.error = None
    assert origins.trace(app, commit, {REF: [".data.key"]})[REF]


def test_authors_of_lines_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, origins, app, commit = world(tmp_path)
    origins.trace(app, commit, {REF: [".data.key"]})
    places = ["shop/a.yaml:5", "shop/gone.yaml:1"]

    assert {place: by.id for place, by in origins.authors(app, commit, places).items()} == {"shop/a.yaml:5": commit}
    monkeypatch.setattr(Repositories, "blame", lambda *_: pytest.fail("asked again"))
    assert origins.authors(app, commit, places)["shop/a.yaml:5"].author == "Ada Writer"


def test_authors_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, origins, app, commit = world(tmp_path)

    def failing(*_: object) -> None:
        raise SourceUnavailable("the mirror is gone")

    monkeypatch.setattr(Repositories, "blame", failing)
    assert origins.authors(app, commit, ["shop/a.yaml:5"]) == {}


def test_versions_of_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, origins, app, commit = world(tmp_path)
    origins.trace(app, commit, {REF: [".data.key"]})
    files = ["shop/a.yaml", "shop/gone.yaml"]

    found = origins.file_versions(app, commit, files)
    assert {file: [one.commit.id for one in versions] for file, versions in found.items()} == {
        "shop/a.yaml": [commit],
        "shop/gone.yaml": [],
    }
    monkeypatch.setattr(Repositories, "file_versions", lambda *_: pytest.fail("asked again"))
    assert origins.file_versions(app, commit, files) == found


def test_files_whose_versions_cannot_be_read_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, origins, app, commit = world(tmp_path)

    def failing(*_: object) -> None:
        raise SourceUnavailable("the mirror is gone")

    monkeypatch.setattr(Repositories, "file_versions", failing)
    assert origins.file_versions(app, commit, ["shop/a.yaml"]) == {"shop/a.yaml": ()}
