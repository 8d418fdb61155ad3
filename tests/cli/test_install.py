"""``gitsync install`` prints the shipped manifests, which hold what the installation promises."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from gitsync import __version__
from gitsync.cli.findings import controller_needs
from gitsync.crds import definitions
from gitsync.objects.manifest import Manifest
from tests.cli.conftest import Gitsync

ROOT = Path(__file__).resolve().parents[2]
GITSYNC = ROOT / "manifests" / "gitsync"
WEBHOOK = (
    "ValidatingWebhookConfiguration",
    "Deployment",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Service",
)


def objects(text: str) -> dict[tuple[str, str], Manifest]:
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.load_all(text, yaml.CSafeLoader)}


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_it_prints_the_bytes_of_kubectl_kustomize(gitsync: Gitsync) -> None:
    theirs = subprocess.run(["kubectl", "kustomize", GITSYNC], capture_output=True, text=True, check=True)
    assert gitsync("install").out == theirs.stdout


def test_every_definition_is_installed_and_may_be_updated(gitsync: Gitsync) -> None:
    found = objects(gitsync("install").out)
    names = [definition["metadata"]["name"] for definition in definitions()]
    assert [name for kind, name in found if kind == "CustomResourceDefinition"] == sorted(names)
    rules = {tuple(rule["resources"]): rule for rule in found["ClusterRole", "gitsync"]["rules"]}
    assert sorted(rules["customresourcedefinitions",]["resourceNames"]) == sorted(names)
    assert {"create", "patch"} <= set(rules["customresourcedefinitions",]["verbs"])
    printed = objects(gitsync("install", "--crds").out)
    assert {kind for kind, _ in printed} == {"CustomResourceDefinition"}
    assert [item["spec"] for item in printed.values()] == [found[key]["spec"] for key in printed]


def test_the_controller_may_write_nothing_of_applications(gitsync: Gitsync) -> None:
    found = objects(gitsync("install").out)
    verbs: defaultdict[str, set[str]] = defaultdict(set)
    for (kind, _), item in found.items():
        for rule in item.get("rules") or () if kind in ("ClusterRole", "Role") else ():
            if not rule["apiGroups"][0].endswith("gitsync.dev"):
                for resource in rule["resources"]:
                    verbs[resource] |= set(rule["verbs"]) - {"get", "list", "watch"}
    assert {resource: written for resource, written in verbs.items() if written} == {
        "customresourcedefinitions": {"create", "patch"},
        "leases": {"create", "update", "delete"},
        "events": {"create", "patch"},
        "serviceaccounts": {"impersonate"},
    }
    assert "secrets" not in str(found["ClusterRole", "gitsync-read-builtin"])


def test_the_image_is_of_this_version_or_the_one_named(gitsync: Gitsync) -> None:
    def image(*arguments: str) -> str:
        pod = objects(gitsync("install", *arguments).out)["Deployment", "gitsync"]["spec"]["template"]["spec"]
        return str(pod["containers"][0]["image"])

    assert image() == f"gitsync:{__version__}"
    named = "registry.example.com:5000/team/gitsync:9@sha256:0"
    assert image("--image", named) == named
    assert image("--image", "example.com/x@sha256:0") == "example.com/x@sha256:0"
    for invalid in ("example.com:5000/gitsync", "bad::", "bad:tag:more", "Upper/Case:1", "a b:1", "x:-1"):
        assert gitsync("install", "--image", invalid).code == 2, invalid


def test_the_policies_of_a_folder_are_those_of_the_config_map(gitsync: Gitsync, tmp_path: Path) -> None:
    text = "kind: Policy\nmetadata: {name: team}\nspec: {require: {approval: Moderate}}\n"
    (tmp_path / "team.yaml").write_text(text)
    base = objects(gitsync("install").out)
    found = objects(gitsync("install", "--policies", tmp_path).out)
    assert found["ConfigMap", "gitsync-policies"]["data"] == {"team.yaml": text}
    assert "data" not in base["ConfigMap", "gitsync-policies"]
    assert {key: item for key, item in found.items() if key[0] != "ConfigMap"} == {
        key: item for key, item in base.items() if key[0] != "ConfigMap"
    }
    pod = base["Deployment", "gitsync"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "GITSYNC_POLICIES", "value": "/policies"} in container["env"]
    assert {"name": "policies", "mountPath": "/policies", "readOnly": True} in container["volumeMounts"]
    assert {"name": "policies", "configMap": {"name": "gitsync-policies"}} in pod["volumes"]
    (tmp_path / "team.yaml").write_text(text.replace("Moderate", "Sometimes"))
    refused = gitsync("install", "--policies", tmp_path)
    assert (refused.code, "team.yaml: spec.require.approval" in refused.err) == (2, True), refused.err


def test_components_add_what_they_are_for(gitsync: Gitsync) -> None:
    base = objects(gitsync("install").out)
    names = ("agents", "cluster-admin", "read-secrets", "podmonitor", "monitoring", "webhook")
    assert sorted((*names, "ha", "namespaced")) == sorted(folder.name for folder in (GITSYNC / "components").iterdir())
    more = objects(gitsync("install", *(part for name in names for part in ("--component", name))).out)
    assert more.keys() - base.keys() == {
        ("ClusterRole", "gitsync-agents"),
        ("ClusterRole", "gitsync-agents-deployer"),
        ("ClusterRoleBinding", "gitsync-agents"),
        ("ClusterRoleBinding", "gitsync-cluster-admin"),
        ("ClusterRole", "gitsync-read-secrets"),
        ("PodMonitor", "gitsync"),
        ("PrometheusRule", "gitsync"),
        ("ConfigMap", "gitsync-dashboard-grafana"),
        *((kind, "gitsync-webhook") for kind in WEBHOOK),
    }
    deployment = ("Deployment", "gitsync")
    assert {key: more[key] for key in base if key != deployment} == {k: v for k, v in base.items() if k != deployment}
    env = more[deployment]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [
        item for item in env if item not in base[deployment]["spec"]["template"]["spec"]["containers"][0]["env"]
    ] == [{"name": "GITSYNC_CONTROLLER_RIGHTS", "value": "true"}]


def test_a_namespaced_installation_has_roles_only(gitsync: Gitsync) -> None:
    done = gitsync("install", "--component", "namespaced", "--component", "ha", "--namespaces", "shop, desk")
    items = list(yaml.load_all(done.out, yaml.CSafeLoader))
    assert {item["kind"] for item in items} == {
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }
    assert {item["metadata"]["namespace"] for item in items} == {"gitsync", "shop", "desk"}
    # the one ClusterRole that is bound is of Kubernetes, to the ServiceAccount of the Applications
    assert {item["roleRef"]["name"] for item in items if item.get("roleRef", {}).get("kind") == "ClusterRole"} == {
        "admin"
    }
    (deployment,) = (item for item in items if item["kind"] == "Deployment")
    env = {item["name"]: item.get("value") for item in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert (env["GITSYNC_NAMESPACES"], env["GITSYNC_INSTALL_CRDS"]) == ("gitsync,shop,desk", "false")
    tenant = gitsync("install", "--component", "namespaced", "--tenant", "desk")
    assert list(yaml.load_all(tenant.out, yaml.CSafeLoader)) == [
        item for item in items if item["metadata"]["namespace"] == "desk"
    ]


def test_the_namespaced_role_is_that_of_the_cluster(gitsync: Gitsync) -> None:
    """Everything about objects in namespaces, and nothing more."""
    whole = objects(gitsync("install", "--component", "agents").out)
    part = objects(gitsync("install", "--component", "namespaced", "--tenant", "shop").out)

    def rights(*roles: Manifest) -> set[tuple[str, str, str, str]]:
        return {
            (group, resource, verb, name)
            for role in roles
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
        }

    names = ("gitsync", "gitsync-tenant", "gitsync-read-builtin", "gitsync-agents")
    of_the_cluster = rights(*(whole["ClusterRole", name] for name in names))
    of_one_namespace = rights(part["Role", "gitsync-tenant"])
    assert of_one_namespace <= of_the_cluster
    assert {(group, resource) for group, resource, _, _ in of_the_cluster - of_one_namespace} == {
        ("", "namespaces"),
        ("", "persistentvolumes"),
        ("admissionregistration.k8s.io", "*"),
        ("apiextensions.k8s.io", "*"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "*"),
        ("flowcontrol.apiserver.k8s.io", "*"),
        ("node.k8s.io", "*"),
        ("scheduling.k8s.io", "*"),
    }
    deployer = ("ClusterRole", "gitsync-agents-deployer")
    assert part["Role", "gitsync-agents-deployer"]["rules"] == whole[deployer]["rules"]


def test_what_needs_the_cluster_is_not_namespaced(gitsync: Gitsync) -> None:
    for component in ("agents", "webhook", "cluster-admin", "read-secrets"):
        refused = gitsync("install", "--component", "namespaced", "--component", component)
        assert (refused.code, f"{component} needs rights of the cluster" in refused.err) == (2, True)
    refused = gitsync("install", "--namespaces", "shop")
    assert (refused.code, "--component namespaced" in refused.err) == (2, True)


def test_high_availability_is_two_replicas_with_a_shared_database(gitsync: Gitsync) -> None:
    base = objects(gitsync("install").out)
    more = objects(gitsync("install", "--component", "ha").out)
    assert more.keys() - base.keys() == {("PodDisruptionBudget", "gitsync")}
    assert base.keys() <= more.keys(), "the claim with the history of a single replica stays"
    spec = more["Deployment", "gitsync"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    pod = spec["template"]["spec"]
    assert next(volume for volume in pod["volumes"] if volume["name"] == "data")["emptyDir"]
    budget = more["PodDisruptionBudget", "gitsync"]["spec"]["selector"]["matchLabels"].items()
    assert budget <= spec["template"]["metadata"]["labels"].items()
    added = {item["name"]: item for item in pod["containers"][0]["env"]}
    assert added["GITSYNC_REPLICAS"]["value"] == "true"
    for name, secret in (("GITSYNC_DATABASE", "gitsync-database"), ("GITSYNC_WEB_SESSION_KEY", "gitsync-dashboard")):
        assert added[name]["valueFrom"]["secretKeyRef"]["name"] == secret


def test_a_wheel_holds_what_the_commands_read(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    code = "import sys; from gitsync.__main__ import main; sys.argv = ['gitsync', 'install']; main()"
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "unpacked", capture_output=True, text=True, check=True
    )
    assert (
        printed.stdout
        == subprocess.run(
            [sys.executable, "-m", "gitsync", "install"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    )
    code = "from gitsync.crds import definitions; print(len(definitions()))"
    read = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "unpacked", capture_output=True, text=True, check=True
    )
    assert read.stdout == f"{len(definitions())}\n"
    shipped = tmp_path / "unpacked" / "gitsync" / "_shipped"
    assert (shipped / "web/templates").is_dir()
    files = [path.name for path in (tmp_path / "unpacked").rglob("crds/*.yaml")]
    assert len(files) == len(set(files)), "each definition is shipped once"
    assert (shipped / "manifests/support-desk/kustomization.yaml").is_file()
    assert (shipped / "overlays/dev/kustomization.yaml").is_file()


def test_the_roles_have_each_verb_that_is_needed_and_no_other(gitsync: Gitsync) -> None:
    found = objects(gitsync("install").out)
    granted = {
        (group, resource, name, verb)
        for role in (found["ClusterRole", "gitsync"], found["Role", "gitsync"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }
    needed = {
        (need.group, need.resource, need.name, verb)
        for need in controller_needs((), True, "gitsync")
        for verb in need.verbs
    }
    assert granted == needed


def test_the_page_of_security_lists_each_right_of_the_roles(gitsync: Gitsync) -> None:
    named = ("gitsync", "Role gitsync", "gitsync-tenant", "gitsync-agents")
    granted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for (kind, name), item in objects(gitsync("install", "--component", "agents").out).items():
        role = f"Role {name}" if kind == "Role" else name
        if kind not in ("Role", "ClusterRole") or role not in named:
            continue
        for rule in item["rules"]:
            suffix = " (by name)" if rule.get("resourceNames") else ""
            for resource in rule["resources"]:
                full = ".".join(filter(None, (resource, rule["apiGroups"][0])))
                granted[role, full + suffix] |= set(rule["verbs"])
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split("## Rights of the controller")[1]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.split("\n## ")[0].splitlines()]
    rows = {(row[0], row[1].strip("`")): set(row[3].split(", ")) for row in cells if len(row) == 4 and "`" in row[1]}
    assert {key: verbs for key, verbs in rows.items() if verbs != {"-"}} == granted
