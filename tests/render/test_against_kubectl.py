"""Random trees render as ``kubectl kustomize`` renders them, or are refused by both."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.errors import InvalidInput
from gitsync.render.build import build
from gitsync.render.yaml.writer import write_all
from gitsync.source.local import FolderTree

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]
COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
NAMES = ("a", "b", "cm", "web")
TREES = 40


class Trees:
    """Make a base and an overlay of resources that refer to each other, with random fields of a kustomization."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.one_of = self._random.choice

    def maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def files(self) -> dict[str, Any]:
        resources = {(one["kind"], one["metadata"]["name"]): one for one in (self.resource() for _ in range(5))}
        objects = list(resources.values())
        return {
            "base/r.yaml": objects,
            "base/kustomization.yaml": [{"resources": ["r.yaml"], **self.fields(objects), **self.configured()}],
            "inner/kustomization.yaml": [{**COMPONENT, **self.fields(objects)}],
            "part/kustomization.yaml": [{**COMPONENT, "components": ["../inner"], **self.fields(objects)}],
            "base/c.yaml": [self.configuration()],
            "over/kustomization.yaml": [
                {
                    "resources": ["../base"],
                    "nameSuffix": "-o",
                    **({"components": ["../part"]} if self.maybe(0.3) else {}),
                    **self.fields(objects),
                }
            ],
        }

    def configuration(self) -> dict[str, Any]:
        """Return a file for the field ``configurations``."""
        kind = {"kind": "Agent"}
        rows: dict[str, Any] = {
            "nameReference": [{"kind": "ConfigMap", "fieldSpecs": [{"path": "spec/model", **kind}]}],
            "namePrefix": [{"path": self.one_of(["spec/model", "spec/new", "/spec/port"]), "create": True, **kind}],
            "labels": [{"path": "spec/labels", "create": True, **kind}],
            "replicas": [{"path": "spec/count", "create": self.maybe(0.5), **kind}],
        }
        return {name: value for name, value in rows.items() if self.maybe(0.5)}

    def configured(self) -> dict[str, Any]:
        """Return the fields that only the base has."""
        return {"configurations": ["c.yaml"]} if self.maybe(0.4) else {}

    def container(self, name: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "image": self.one_of(["nginx", "nginx:1", "r.io:5000/x/nginx@sha256:ab"])}
        if self.maybe(0.5):
            made["env"] = [{"name": self.one_of("XYZ"), "value": "1"} for _ in range(3)]
        if self.maybe(0.5):
            made["ports"] = [
                {"containerPort": self.one_of([53, 80]), **({"protocol": "UDP"} if self.maybe(0.5) else {})}
                for _ in range(2)
            ]
        if self.maybe(0.4):
            made["envFrom"] = [{self.one_of(["configMapRef", "secretRef"]): {"name": self.one_of(NAMES)}}]
        return made

    def pod(self) -> dict[str, Any]:
        return {"containers": [self.container(name) for name in self._random.sample("cde", 2)]}

    def resource(self) -> dict[str, Any]:
        kind = self.one_of(
            [
                *("Deployment", "StatefulSet", "ConfigMap", "Service", "ServiceAccount", "ClusterRoleBinding"),
                *("RoleBinding", "ValidatingWebhookConfiguration", "APIService", "Agent"),
            ]
        )
        meta: dict[str, Any] = {"name": self.one_of(NAMES)}
        if self.maybe(0.3):
            meta["labels"] = {"l": "1"}
        if self.maybe(0.2):
            meta["namespace"] = self.one_of(["default", "x"])
        bodies: dict[str, tuple[str, dict[str, Any]]] = {
            "Deployment": ("apps/v1", {"spec": {"template": {"spec": self.pod()}}}),
            "StatefulSet": ("apps/v1", {"spec": {"serviceName": "web", "template": {"spec": self.pod()}}}),
            "ConfigMap": ("v1", {"data": {"k": self.one_of(["v", "1", "a\nb\n"])}}),
            "Service": ("v1", {"spec": {"ports": [{"port": 80}]}}),
            "ServiceAccount": ("v1", {}),
            "ClusterRoleBinding": (
                "rbac.authorization.k8s.io/v1",
                {"subjects": [{"kind": "ServiceAccount", "name": self.one_of(NAMES), "namespace": "default"}]},
            ),
            "RoleBinding": (
                "rbac.authorization.k8s.io/v1",
                {
                    "roleRef": {"kind": "Role", "name": self.one_of(NAMES)},
                    "subjects": [{"kind": "ServiceAccount", "name": self.one_of((*NAMES, "default"))}],
                },
            ),
            "ValidatingWebhookConfiguration": (
                "admissionregistration.k8s.io/v1",
                {"webhooks": [{"clientConfig": {"service": {"name": self.one_of(NAMES), "namespace": "default"}}}]},
            ),
            "APIService": (
                "apiregistration.k8s.io/v1",
                {"spec": {"service": {"name": self.one_of(NAMES), "namespace": "default"}}},
            ),
            "Agent": ("x.io/v1", {"spec": {"model": self.one_of(NAMES), "port": 80, "tools": [{"name": "a"}]}}),
        }
        api_version, body = bodies[kind]
        return {"apiVersion": api_version, "kind": kind, "metadata": meta, **body}

    def patch(self, objects: list[dict[str, Any]]) -> dict[str, str]:
        target = self.one_of(objects)
        head = {key: target[key] for key in ("apiVersion", "kind", "metadata")}
        body: dict[str, Any] = {"metadata": {**head["metadata"], "annotations": {"p": self.one_of(["1", "x"])}}}
        if "template" in target.get("spec", {}):
            body["spec"] = {"replicas": self.one_of([None, 3]), "template": {"spec": self.pod()}}
            if self.maybe(0.3):
                body["spec"]["template"]["spec"]["containers"][0]["$patch"] = self.one_of(["delete", "replace"])
        return {"patch": yaml.safe_dump({**head, **body})}

    def operation(self, objects: list[dict[str, Any]]) -> dict[str, Any]:
        """Return an entry of ``patches`` with a JSON patch."""
        value = self.one_of(["x", "yes", "2001-01-01", "1.50", "12345678", "null", "'5'", "{a: b}"])
        path = self.one_of(["/metadata/annotations", "/spec", "/data", "/metadata/labels/l"])
        text = f"- {{op: {self.one_of(['add', 'replace', 'test'])}, path: {path}, value: {value}}}\n"
        return {"target": {"kind": self.one_of(objects)["kind"]}, "patch": text}

    def fields(self, objects: list[dict[str, Any]]) -> dict[str, Any]:
        choices: dict[str, Any] = {
            "namePrefix": "p-",
            "namespace": self.one_of(["x", "z"]),
            "commonLabels": {"team": "t"},
            "labels": [{"pairs": {"q": "r"}, "includeTemplates": self.maybe(0.5)}],
            "commonAnnotations": {"an": "v"},
            "images": [{"name": "nginx", **self.one_of([{"newTag": "9"}, {"newName": "o"}, {"digest": "sha256:c"}])}],
            "configMapGenerator": [
                {"name": self.one_of(NAMES), "literals": ["k=<&>"], "behavior": self.one_of(["create", "merge"])}
            ],
            "patches": [self.patch(objects), self.operation(objects)][: self.one_of([1, 2])],
            "replicas": [{"name": self.one_of(NAMES), "count": 2}],
            "secretGenerator": [{"name": self.one_of(NAMES)}],
            "replacements": [
                {
                    "source": {"kind": "ConfigMap", "name": self.one_of(NAMES)},
                    "targets": [
                        {
                            "select": {"kind": "Deployment"},
                            "fieldPaths": ["metadata.labels.rep", "spec.template.spec.containers.0.image"],
                            "options": {"create": self.maybe(0.7)},
                        }
                    ],
                }
            ],
        }
        return {name: value for name, value in choices.items() if self.maybe(0.3)}


@pytest.mark.parametrize("seed", range(TREES))
def test_renders_as_kubectl_does(seed: int, tmp_path: Path) -> None:
    for name, documents in Trees(seed).files().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump_all(documents))
    theirs = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path / "over")], capture_output=True, text=True, check=False
    )
    ours = _rendered(tmp_path)

    assert (ours is None) == (theirs.returncode != 0), theirs.stderr
    assert ours is None or ours == theirs.stdout


def _rendered(root: Path) -> str | None:
    """Return the text of our build, None where it is refused."""
    try:
        return write_all(build(FolderTree(root), "over").manifests)
    except InvalidInput:
        return None
