"""``gitsync doctor`` finds what is missing, and names the fix."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from gitsync.cli.findings import machine_findings
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.server import Sandbox
from tests.cli.conftest import Done, Gitsync, Shop, as_account
from tests.flow.environment import World

RBAC = "rbac.authorization.k8s.io"


def problems(done: Done) -> dict[str, str]:
    """Return the detail and fix of each check that found something, by the name of the check."""
    rows = [row for row in done.json if row["result"] != "OK"]
    # depends on the kernel of the machine
    return {row["check"]: f"{row['detail']}; {row['fix']}" for row in rows if row["check"] != "Landlock"}


def grant(world: World, name: str, *rules: Manifest) -> None:
    """Give the ServiceAccount ``robot`` of the namespace ``shop`` these rights."""
    metadata = {"name": name}
    world.apply({"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)})
    world.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "shop"}],
        }
    )


@pytest.fixture
def robot(shop: Shop, tmp_path: Path) -> Path:
    """The kubeconfig of an account that may do nothing."""
    shop.world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "shop"}})
    return as_account(shop.world, "robot", tmp_path / "robot")


def test_nothing_is_missing_in_a_working_installation(shop: Shop) -> None:
    done = shop("doctor", "-o", "json")
    assert (problems(done), done.code) == ({}, 0)
    checks = {row["check"] for row in done.json}
    assert {"git", "clock", "Kubernetes", "definition of Application", "Application gitsync/shop: Git"} <= checks
    assert "Application gitsync/shop: rights" in checks


def test_a_database_that_does_not_answer_is_missing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_DATABASE", "postgresql://gitsync@127.0.0.1:1/gitsync")
    done = shop("doctor", "-o", "json")
    found = problems(done)["history database"]
    assert done.code == 1
    assert "the history database cannot be used" in found
    assert not {"\n", "\t"} & set(found)
    assert "\\n" not in found


def test_a_changed_audit_record_is_missing(shop: Shop) -> None:
    healthy = {row["check"]: row for row in shop("doctor", "-o", "json").json}["audit chain"]
    assert healthy["result"] == "OK"
    assert healthy["detail"].endswith(" records are intact")
    shop.world.change_records("UPDATE audit SET hash = 'another' WHERE id = 2")
    done = shop("doctor", "-o", "json")
    assert done.code == 1
    assert "audit record 2 was changed" in problems(done)["audit chain"]
    assert "gitsync audit verify lists all" in problems(done)["audit chain"]


def test_of_a_long_audit_the_newest_records_are_verified(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.cli.commands.doctor._VERIFIED", 3)
    shop.world.change_records("UPDATE audit SET hash = 'another' WHERE id = 2")
    checks = {row["check"]: row["detail"] for row in shop("doctor", "-o", "json").json}
    assert re.fullmatch(r"the newest 3 of \d+ records are intact", checks["audit chain"])


def test_records_that_the_cluster_knows_and_the_database_lost_are_missing(shop: Shop) -> None:
    head = {"record": 9000, "hash": "0" * 64, "time": "2999-01-01T00:00:00+00:00"}
    shop.world.stop()
    path = "/apis/gitsync.dev/v1alpha1/namespaces/gitsync/applications/shop/status"
    shop.world.client.patch(path, [{"op": "add", "path": "/status/audit", "value": head}], {})
    found = problems(shop("doctor", "-o", "json"))["audit chain"]
    assert "audit record 9000 is not the one of 2999-01-01 00:00:00 in the status of Application gitsync/shop" in found


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # of a service of Apprise
@pytest.mark.parametrize(
    ("rules", "result", "detail"),
    [
        ("- urls: ['json://127.0.0.1:{open}/secret']", "OK", "json"),
        ("- urls: ['json://127.0.0.1:{closed}/secret']", "Warning", "127.0.0.1:{closed} of URL 1 (JSON) cannot be"),
        ("- urls: ['json://127.0.0.1:{open}', 'nothing://secret']", "Missing", "URL 2 of a notification rule is not"),
        ("- urlFile: {folder}/absent", "Missing", "cannot read the URLs of notifications"),
        ("- applications: ['*']", "Missing", "the rule has no URL"),
    ],
    ids=["reached", "unreached", "unknown service", "no file", "no URL"],
)
def test_notifications_are_checked_without_a_message(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str, result: str, detail: str
) -> None:
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"open": server.getsockname()[1], "closed": other.getsockname()[1], "folder": tmp_path}
        other.close()
        file = tmp_path / "notifications.yaml"
        file.write_text(rules.format(**ports))
        monkeypatch.setenv("GITSYNC_NOTIFICATIONS", str(file))
        row = {row["check"]: row for row in shop("doctor", "-o", "json").json}["notification rule 1"]
    assert (row["result"], detail.format(**ports) in row["detail"]) == (result, True), row
    assert "secret" not in str(row)
    assert (row["fix"] == "") is (result == "OK")


def test_a_file_of_notifications_that_is_not_valid_is_missing(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notifications.yaml"
    file.write_text("- kind: [failed]")
    monkeypatch.setenv("GITSYNC_NOTIFICATIONS", str(file))
    assert "[0].kind" in problems(shop("doctor", "-o", "json"))["notifications"]


def test_each_missing_right_is_named_with_its_rule(shop: Shop, robot: Path) -> None:
    done = shop("doctor", "-o", "json", "--kubeconfig", robot, "--allow-file-urls")
    found = problems(done)
    assert done.code == 1
    assert 'apiGroups: ["gitsync.dev"], resources: ["applications/status"]' in str(done.json)
    assert "cannot list resource" in found["Applications"]

    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    grant(shop.world, "read", rule)
    rows = [row for row in shop("doctor", "-o", "json", "--kubeconfig", robot, "--allow-file-urls").json if row["fix"]]
    rights = [row["detail"] for row in rows if row["check"] == "Application gitsync/shop: rights"]
    assert rights == [
        "may not create, patch, delete configmaps in shop",
        "may not create, patch, delete deployments.apps in shop",
    ]


def test_rights_for_writes_are_those_of_the_impersonated_account(shop: Shop) -> None:
    shop.world.application(destination={"namespace": "shop", "serviceAccountName": "deployer"})
    done = shop("doctor", "-o", "json")
    assert done.code == 1
    assert "for system:serviceaccount:gitsync:deployer" in problems(done)["Application gitsync/shop: rights"]


def test_a_git_server_namespace_and_secret_that_are_absent_are_reported(shop: Shop) -> None:
    shop.world.application("far", source={"repoURL": "file:///gone.git"}, destination={"namespace": "nowhere"})
    secret = {"credentials": {"secretRef": {"name": "absent"}}}
    shop.world.application("secret", source={"repoURL": shop.world.repo.url, **secret})
    found = problems(shop("doctor", "-o", "json", "--allow-file-urls"))
    assert found["Application gitsync/far: namespace"] == "nowhere does not exist; kubectl create namespace nowhere"
    assert "gone.git" in found["Application gitsync/far: Git"]
    assert "Secret gitsync/absent does not exist; create it" in found["Application gitsync/secret: Git"]


def test_an_empty_cluster_lacks_definitions_and_namespace(gitsync: Gitsync, tmp_path: Path) -> None:
    with Sandbox(workloads=False) as server:
        config = server.kubeconfig(tmp_path / "config")
        done = gitsync("doctor", "-o", "json", "--kubeconfig", config, "--data", tmp_path / "data")
    found = problems(done)
    assert done.code == 1
    assert "gitsync install --crds" in found["definition of Application"]
    assert found["namespace of the controller"].endswith("kubectl create namespace gitsync")


def test_an_api_server_that_does_not_answer_is_exit_code_3(gitsync: Gitsync, tmp_path: Path) -> None:
    with Sandbox(workloads=False) as server:
        config = server.kubeconfig(tmp_path / "config")
    done = gitsync("doctor", "-o", "json", "--kubeconfig", config, "--data", tmp_path / "data")
    assert done.code == 3
    assert "was not answered" in problems(done)["API server"]


def test_a_missing_git_and_a_file_as_data_folder_are_reported(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "file").write_text("")
    done = shop.run("doctor", "-o", "json", "--kubeconfig", shop.world.kubeconfig, "--data", tmp_path / "file")
    found = problems(done)
    assert "git is not on PATH; install Git" in found["git"]
    assert "GITSYNC_DATA" in found[f"data folder {tmp_path / 'file'}"]


def test_git_servers_without_tls_are_listed(gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_GIT_HTTP_HOSTS", "git.test")
    monkeypatch.setenv("GITSYNC_GIT_HTTP_SIGN_IN", "gitea.git.svc:3000")
    with Sandbox(workloads=False) as server:
        config = server.kubeconfig(tmp_path / "config")
        findings = gitsync("doctor", "-o", "json", "--kubeconfig", config, "--data", tmp_path / "data").json
    details = {finding["check"]: (finding["result"], finding["detail"]) for finding in findings}
    assert details["GITSYNC_GIT_HTTP_HOSTS"] == ("Warning", "what git.test sends can be changed on the way")
    assert "credentials of repositories at gitea.git.svc:3000" in details["GITSYNC_GIT_HTTP_SIGN_IN"][1]


@pytest.mark.parametrize(("version", "result"), [(7, "OK"), (3, "Warning"), (0, "Warning")])
def test_a_kernel_without_landlock_is_reported(
    version: int, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.cli.findings.landlock_version", lambda: version)
    (finding,) = [item for item in machine_findings(tmp_path) if item.check == "Landlock"]
    assert finding.result.value == result
