"""``gitsync upgrade --check`` names what a change of the version would lose."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync import __version__
from gitsync.crds import application_crd
from gitsync.objects.keys import VERSION_ANNOTATION
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.server import Sandbox
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
    assert row["detail"] == "would lose 1 fields: gitsync/shop spec.sync.gone"


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


def test_without_check_it_names_the_command(gitsync: Gitsync) -> None:
    done = gitsync("upgrade")
    assert done.code == 2
    assert "kubectl apply --server-side --field-manager=gitsync --force-conflicts" in done.err
