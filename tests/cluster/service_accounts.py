"""Service accounts with few rights, and kubeconfig files to act as them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.sandbox.server import KUBECONFIG, Sandbox

_RBAC = "rbac.authorization.k8s.io"
_EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


def kubeconfig_of(server: Sandbox, cluster: KubernetesCluster, path: Path, namespaces: Iterable[str]) -> Path:
    """Return a kubeconfig file of a service account that may do everything, but in these namespaces only."""
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "limited", "namespace": "default"}},
        manager="m",
    )
    for name in namespaces:
        metadata = {"name": "limited", "namespace": name}
        role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": _EVERYTHING}
        bound = {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "limited"},
        }
        for manifest in (role, bound):
            cluster.apply(manifest, manager="m")
    administrator = Client(Connection(str(server.kubeconfig(path.with_suffix(".admin")))))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = administrator.send("POST", "/api/v1/namespaces/default/serviceaccounts/limited/token", request)
    administrator.close()
    authority = base64.b64encode(server.authority.encode()).decode()
    token = answer["status"]["token"]
    path.write_text(KUBECONFIG.format(url=server.tls_url, token=token, authority=authority), encoding="utf-8")
    return path
