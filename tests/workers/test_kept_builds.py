"""Builds that are kept over restarts: the same build for the same Application, and nothing that cannot be trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.charts import ChartOptions, ClusterValues
from gitsync.render.build import Build
from gitsync.render.resources.resource import Origin
from gitsync.workers import kept_builds
from gitsync.workers.kept_builds import KeptBuilds

BUILD = Build(
    ({"kind": "ConfigMap", "data": {"a": "1"}},),
    frozenset({"a.yaml", "odd\udcff/"}),
    ("careful",),
    (Origin("a.yaml", 0),),
)


def application(uid: str = "u", path: str = "shop") -> Application:
    source = GitSource.model_validate({"repoURL": "https://git.example/r.git", "path": path})
    return Application("shop", "gitsync", uid, 1, source, Destination(namespace="shop"))


def test_a_build_is_read_back_by_another_process(tmp_path: Path) -> None:
    KeptBuilds(tmp_path / "builds").keep(application(), "c1", BUILD)
    again = KeptBuilds(tmp_path / "builds")
    assert again.load(application()) == ("c1", BUILD)
    again.keep(application(), "c2", BUILD._replace(warnings=()))
    assert again.load(application()) == ("c2", BUILD._replace(warnings=()))
    assert [file.stat().st_mode & 0o077 for file in (tmp_path / "builds").iterdir()] == [0]


def test_a_build_belongs_to_one_application_and_source(tmp_path: Path) -> None:
    kept = KeptBuilds(tmp_path)
    kept.keep(application(), "c1", BUILD)
    assert kept.load(application(uid="other")) is None
    assert kept.load(application(path="other")) is None


def test_a_build_of_another_renderer_or_a_damaged_one_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptBuilds(tmp_path)
    kept.keep(application(), "c1", BUILD)
    with monkeypatch.context() as patch:
        patch.setattr(kept_builds, "_fingerprint", lambda folder: "newer")
        assert KeptBuilds(tmp_path).load(application()) is None
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:-9], b"[]", b"{}", b"1"):
        file.write_bytes(damaged)
        assert kept.load(application()) is None
    file.write_bytes(whole)
    assert kept.load(application()) == ("c1", BUILD)


def test_a_build_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "builds").write_text("not a folder")
    kept = KeptBuilds(tmp_path / "builds")
    kept.keep(application(), "c1", BUILD)
    assert kept.load(application()) is None


def test_a_build_that_was_not_used_for_long_is_deleted(tmp_path: Path) -> None:
    kept = KeptBuilds(tmp_path)
    for name in ("old", "new"):
        kept.keep(application(uid=name), "c1", BUILD)
    os.utime(kept._file(application(uid="old")), (0, 0))
    kept.clean()
    assert [kept.load(application(uid=name)) is None for name in ("old", "new")] == [True, False]


def test_a_build_with_files_of_other_repositories_is_not_kept(tmp_path: Path) -> None:
    kept = KeptBuilds(tmp_path)
    kept.keep(application(), "c1", BUILD)
    kept.keep(application(), "c2", BUILD._replace(remotes=(("https://git.example/o/r//base?ref=v1", "c" * 40),)))
    assert kept.load(application()) == ("c1", BUILD)


def test_a_build_with_values_of_a_secret_is_not_kept(tmp_path: Path) -> None:
    secret = ChartOptions(cluster_values=(ClusterValues("Secret shop/login", "password: right", is_secret=True),))
    config = ChartOptions(cluster_values=(ClusterValues("ConfigMap shop/sizes", "size: 2"),))
    kept = KeptBuilds(tmp_path)

    kept.keep(application(), "c1", BUILD._replace(chart=secret))
    assert kept.load(application()) is None
    kept.keep(application(), "c1", BUILD._replace(chart=config))
    assert kept.load(application()) == ("c1", BUILD._replace(chart=config))
