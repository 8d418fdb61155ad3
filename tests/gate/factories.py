"""Applications and scopes that the tests of policies start from."""

from __future__ import annotations

import os

from hypothesis import Phase, settings

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


def sequences(count, *, derandomize=False):
    """
    Return how many sequences an adversary tries: ``count``, and with ``derandomize`` the same ones each time.

    Where the environment gives a number, they are others each time, and several processes may run: none stores or
    replays what others found.
    """
    number = os.environ.get("GITSYNC_ADVERSARY")
    if number is None:
        return settings(max_examples=count, deadline=None, derandomize=derandomize)
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    return settings(max_examples=int(number), deadline=None, database=None, phases=phases)
