"""``gitsync set`` changes a file in the work tree, and commits it where asked for."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Gitsync
from tests.cli.factories import DEPLOYMENT
from tests.git_repository import GitRepo, git

FILES: dict[str, str | bytes | None] = {
    "base/kustomization.yaml": "resources: [web.yaml]\nsecretGenerator:\n- {name: s, literals: [token=hunter2]}\n",
    "base/web.yaml": DEPLOYMENT,
    "dev/kustomization.yaml": "resources: [../base]\n",
    "prod/kustomization.yaml": "resources: [../base]\nreplicas:\n- {name: web, count: 3} # many\n",
}


def repository(folder: Path) -> GitRepo:
    repo = GitRepo(folder)
    repo.commit(FILES)
    return repo


def test_a_field_is_set_where_its_value_is(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work

    done = gitsync("set", work / "prod", "Deployment/web", "spec.replicas=5")

    assert done.out == "prod/kustomization.yaml:3: .spec.replicas: 3 -> 5\n"
    assert (work / "prod/kustomization.yaml").read_text().endswith("- {name: web, count: 5} # many\n")


def test_a_dry_run_writes_nothing(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work

    gitsync("set", work / "prod", "Deployment/web", "spec.replicas=5", "--dry-run")

    assert git(work, "status", "--porcelain") == ""


def test_several_fields_become_one_commit_on_a_branch(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    git(work, "config", "user.name", "Ada")
    git(work, "config", "user.email", "ada@example.test")
    fields = ("spec.replicas=5", 'spec.template.spec.containers[name="web"].image=web:2')

    done = gitsync("set", work / "prod", "Deployment/web", *fields, "--also", "--branch", "more-web")

    assert '  also Deployment web .spec.template.spec.containers[name="web"].image: web:1 -> web:2 (dev)' in done.out
    assert git(work, "branch", "--show-current") == "more-web"
    assert git(work, "log", "-1", "--format=%s") == (
        'Set spec.replicas, spec.template.spec.containers[name="web"].image of Deployment web in prod'
    )
    assert git(work, "show", "--stat=80", "--format=", "HEAD").splitlines()[-1].startswith(" 2 files changed")
    assert git(work, "status", "--porcelain") == ""


def test_a_file_with_other_changes_is_not_committed(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    (work / "prod/kustomization.yaml").write_text(f"# mine\n{FILES['prod/kustomization.yaml']!s}")

    done = gitsync("set", work / "prod", "Deployment/web", "spec.replicas=5", "--commit")

    assert done.code == 2
    assert "prod/kustomization.yaml has changes that are not committed" in done.err
    assert "count: 3" in (work / "prod/kustomization.yaml").read_text()


def test_the_values_of_secrets_are_not_printed(gitsync: Gitsync, tmp_path: Path) -> None:
    work = repository(tmp_path).work
    name = next(line.split()[-1] for line in gitsync("build", work / "dev").out.splitlines() if "name: s-" in line)

    done = gitsync("set", work / "dev", f"Secret/{name}", "data.token=aHVudGVyMw==", "--also")

    assert "hunter3" in (work / "base/kustomization.yaml").read_text()
    assert "aHVudGVy" not in done.out
    assert "->" in done.out
