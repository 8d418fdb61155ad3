"""Applications and scopes that the tests of policies start from."""

from __future__ import annotations

from gitsync.objects.application import parse_application


def application(repo="https://git.example/team-a/demo", namespace="team-a", account="", cluster=False):
    destination = {"namespace": namespace, "serviceAccountName": account, "allowClusterScoped": cluster}
    return parse_application(
        {
            "metadata": {"name": "demo", "namespace": "gitsync"},
            "spec": {"source": {"repoURL": repo}, "destination": destination},
        }
    )


def is_namespaced(of):
    return of.kind not in ("Namespace", "ClusterRole", "ClusterRoleBinding")
