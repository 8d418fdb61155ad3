"""``gitsync appset``: previews without and with a cluster, the list, and the approval of deletions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.applicationsets.factories import TEMPLATE, git, listed, manifest
from tests.cli.conftest import Gitsync, Shop
from tests.flow.environment import NAMESPACE
from tests.waiting import until

API = "gitsync.dev/v1alpha1"


def written(folder: Path, *generators: dict[str, Any], **spec: Any) -> Path:
    file = folder / "set.yaml"
    given = manifest(*generators, **spec)
    del given["metadata"]["uid"]
    file.write_text(yaml.safe_dump(given), encoding="utf-8")
    return file


def test_a_preview_needs_no_cluster(gitsync: Gitsync, tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "eu.yaml").write_text("name: eu\n", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    file = written(tmp_path, listed({"name": "us"}), git(files=[{"path": "envs/*.yaml"}]))
    done = gitsync("appset", "preview", file, "--repo", tmp_path, "-o", "json")
    assert done.code == 0, done.err
    assert [(row["action"], row["name"], row["path"]) for row in done.json] == [
        ("create", "us", "apps/us"),
        ("create", "eu", "apps/eu"),
    ]
    assert done.json[1]["element"] == "spec.generators[1].git.files envs/eu.yaml"


def test_an_unknown_parameter_is_an_invalid_input(gitsync: Gitsync, tmp_path: Path) -> None:
    done = gitsync("appset", "preview", written(tmp_path, listed({"nome": "us"})), "--repo", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "spec.generators[0].list.elements[0] has no parameter 'name'; it has nome" in done.err


def test_a_preview_compares_and_deletions_are_approved(shop: Shop, tmp_path: Path) -> None:
    world, suspended = shop.world, {**TEMPLATE, "spec": {**TEMPLATE["spec"], "suspend": True}}
    world.apply(yaml.safe_load(written(tmp_path, listed({"name": "a"}, {"name": "b"}), template=suspended).read_text()))

    def ready() -> str:
        rows = shop("appset", "list", "-n", NAMESPACE, "-o", "json").json
        return str(rows[0]["reason"])

    until(lambda: ready() == "Current")
    assert shop("appset", "approve", "shops").code == 2
    file = written(tmp_path, listed({"name": "a"}, {"name": "shop"}), template=suspended)
    done = shop("appset", "preview", file, "--live", "--repo", tmp_path, "-o", "json")
    assert done.code == 1
    assert {row["name"]: row["action"] for row in done.json} == {
        "a": "keep",
        "shop": "refuse: not the set's",
        "b": "delete after approval",
    }
    world.apply(yaml.safe_load(written(tmp_path, listed({"name": "a"}), template=suspended).read_text()))
    until(lambda: ready() == "AwaitingApproval")
    done = shop("appset", "approve", "shops", "--by", "ada", "--reason", "b is gone")
    assert (done.code, done.err) == (0, "")
    assert "approved the deletion of 1 Applications: b" in done.out
    until(lambda: world.get("Application", "b", NAMESPACE, API) is None)
    until(lambda: ready() == "Current")
    (record,) = world.controller.records.audit_records(f"{NAMESPACE}/applicationset:shops", action="appset approve")
    assert (record.approver, record.reasoning) == ("ada", "b is gone")
