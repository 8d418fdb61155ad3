"""``gitsync tenant add`` writes what ``gitsync policy list`` and ``gitsync doctor`` explain."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gitsync.gate.policy_files import parse_policy
from tests.cli.conftest import Gitsync, Shop


def test_a_tenant_lists_what_it_was_given_and_nothing_else(gitsync: Gitsync) -> None:
    url = "https://git.example/shop/*"
    done = gitsync("tenant", "add", "shop", "--repository", url, "--secret", "git", "--revision", "main")
    assert done.code == 0, done.err
    policy = parse_policy(yaml.safe_load(done.out), "stdout")
    assert policy is not None
    assert policy.tenant is not None
    (repository,) = policy.tenant.repositories
    assert (repository.url, repository.secrets, repository.revisions) == (url, ("git",), ("main",))
    assert (policy.namespaces, policy.cluster_kinds, policy.servers) == (("shop",), (), ())


def test_a_file_is_written_once_with_the_next_commands(gitsync: Gitsync, tmp_path: Path) -> None:
    done = gitsync("tenant", "add", "shop", "--namespace", "shop-a", "--policies", tmp_path)
    assert "gitsync install --tenant shop-a | kubectl apply -f -" in done.out
    file = tmp_path / "tenant-shop.yaml"
    assert yaml.safe_load(file.read_text(encoding="utf-8"))["spec"] == {"namespaces": ["shop-a"]}
    again = gitsync("tenant", "add", "shop", "--policies", tmp_path)
    assert (again.code, "the file exists already" in again.err) == (2, True)


@pytest.mark.parametrize("name", ["../shop", "Shop", ""])
def test_a_name_that_is_no_name_is_an_error(gitsync: Gitsync, name: str, tmp_path: Path) -> None:
    done = gitsync("tenant", "add", name, "--policies", tmp_path)
    assert (done.code, "is not a name" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_draft_names_what_it_would_refuse(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.run("tenant", "add", "gitsync", "--policies", tmp_path).code == 0
    listed = shop.run("policy", "list", "--policies", tmp_path, "-o", "json", "--kubeconfig", shop.world.kubeconfig)
    assert listed.code == 1
    rows = [(row["policy"], row["name"], row["value"]) for row in listed.json]
    assert ("Tenant gitsync", "applications", "gitsync/shop") in rows
    assert ("Tenant gitsync", "not met", "gitsync/shop: spec.source.repoURL is not allowed by policy gitsync") in rows

    monkeypatch.setenv("GITSYNC_POLICIES", str(tmp_path))
    findings = {row["check"]: row["detail"] for row in shop("doctor", "-o", "json").json if row["result"] != "OK"}
    assert "spec.destination.serviceAccountName" in findings["Application gitsync/shop: policy"]
