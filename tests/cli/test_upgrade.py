"""``gitsync upgrade --check`` names what a change of the version would lose."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync import __version__
from gitsync.cli.serve import log_rejected
from gitsync.crds import application_crd
from gitsync.objects.keys import VERSION_ANNOTATION
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.server import Sandbox
from gitsync.settings import Settings
from tests.cli.conftest import Done, Gitsync
from tests.flow.environment import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox(workloads=False) as sandbox:
        made = World(tmp_path, sandbox)
        yield made
        made.close()


def check(world: World, gitsync: Gitsync) -> Done:
    place = ("--kubeconfig", world.kubeconfig, "--data", world.folder / "none")
    return gitsync("upgrade", "--check", "-o", "json", *place)


def install(world: World, version: str, *fields: str) -> None:
    """Install a definition of Application of another version, with more fields."""
    definition: Manifest = copy.deepcopy(application_crd())
    definition["metadata"]["annotations"] = {VERSION_ANNOTATION: version}
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["sync"]["properties"] |= {name: {"type": "string"} for name in fields}
    world.cluster.apply(definition, manager="gitsync")


def test_a_cluster_of_this_version_is_fine(world: World, gitsync: Gitsync) -> None:
    done = check(world, gitsync)
    assert done.code == 0
    assert {row["detail"] for row in done.json if row["result"] == "OK"} == {f"is of {__version__}"}


def test_a_field_that_an_object_would_lose_is_named(world: World, gitsync: Gitsync) -> None:
    install(world, "0.4.0", "gone", "unused")
    world.application(sync={"gone": "x"})
    done = check(world, gitsync)
    assert done.code == 1
    (row,) = (row for row in done.json if row["result"] == "Missing")
    assert row["detail"] == "would lose 1 field: gitsync/shop spec.sync.gone"


def test_an_older_cluster_that_loses_nothing_is_fine(world: World, gitsync: Gitsync) -> None:
    install(world, "0.4.0", "unused")
    world.application()
    assert check(world, gitsync).code == 0


def test_a_newer_cluster_is_named_with_its_fields(world: World, gitsync: Gitsync) -> None:
    install(world, "99.0.0", "later")
    done = check(world, gitsync)
    assert done.code == 1
    (row,) = (row for row in done.json if row["result"] == "Missing")
    assert row["detail"] == f"is newer (99.0.0) than this program ({__version__}): spec.sync.later"


def test_applications_that_will_be_rejected_are_named(world: World, gitsync: Gitsync) -> None:
    world.application()
    world.application("pinned", source={"repoURL": "https://git.example/shop", "revision": "c" * 40})
    done = check(world, gitsync)

    details = {row["check"]: (row["detail"], row["fix"]) for row in done.json}
    assert done.code == 0
    assert "gitsync/pinned, gitsync/shop" in details["rights of Applications"][0]
    assert "GITSYNC_CONTROLLER_RIGHTS=true" in details["rights of Applications"][1]
    assert "gitsync/pinned" in details["revisions of Applications"][0]


def test_what_the_operator_allows_is_not_named(world: World, gitsync: Gitsync) -> None:
    world.application(destination={"namespace": "shop", "serviceAccountName": "deployer"})
    assert not [row for row in check(world, gitsync).json if "Applications" in row["check"]]


def test_the_start_names_them_too_with_what_keeps_them_working(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.application()
    world.application("pinned", source={"repoURL": "https://git.example/shop", "revision": "c" * 40})
    log_rejected(world.cluster, Settings())
    named = {record.message: (record.reason, record.hint) for record in caplog.records}  # type: ignore[attr-defined]
    assert "gitsync/pinned, gitsync/shop" in named["rights of Applications"][0]
    assert "GITSYNC_CONTROLLER_RIGHTS=true" in named["rights of Applications"][1]
    assert named["revisions of Applications"][1] == "push the commits to a branch or tag that stays"

    caplog.clear()
    log_rejected(world.cluster, Settings(controller_rights=True))
    assert [record.message for record in caplog.records] == ["revisions of Applications"]


def test_without_check_it_names_the_command(gitsync: Gitsync) -> None:
    done = gitsync("upgrade")
    assert done.code == 2
    assert "kubectl apply --server-side --field-manager=gitsync --force-conflicts" in done.err
