"""Which clusters may be used for tests and benchmarks: they create and delete cluster-scoped objects."""

from __future__ import annotations

from typing import Final

from gitsync.cluster.client import Client

LABEL: Final = "gitsync.dev/contract-tests"
"""A cluster takes part only when its namespace ``default`` has this label with the value ``allowed``."""
REFUSAL: Final = f"the cluster is not labelled for tests; kubectl label namespace default {LABEL}=allowed"


def is_allowed(client: Client) -> bool:
    """Return whether a cluster is labelled for tests."""
    labels = client.get("/api/v1/namespaces/default")["metadata"].get("labels") or {}
    return bool(labels.get(LABEL) == "allowed")
