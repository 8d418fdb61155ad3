"""What became of a commit is one status at the Git host."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.controllers.commit_statuses import deployed_status
from gitsync.objects.application import parse_application
from gitsync.ports import ApplicationView
from tests.fakes.ports import START

NEW = "b" * 40
OLD = "a" * 40
READY = {"type": "Ready", "message": "Deployment shop/web: image cannot be pulled"}


def view(**status: Any) -> ApplicationView:
    spec = {"source": {"repoURL": "https://git.example.com/team/shop"}}
    app = parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": spec})
    return ApplicationView(app.key, app, status, (), None, None, START)


APPLIED = {"fetched": NEW, "applied": NEW}


@pytest.mark.parametrize(
    ("status", "state", "description"),
    [
        ({"phase": "Executing", "revision": {"fetched": NEW, "applied": OLD}}, "pending", "Executing"),
        (
            {"phase": "AwaitingApproval", "revision": {"fetched": NEW, "applied": OLD}, "conditions": [READY]},
            "pending",
            "waits for an approval: Deployment shop/web: image cannot be pulled",
        ),
        (
            {"phase": "Rejected", "revision": {"fetched": NEW, "applied": OLD}},
            "failure",
            "Rejected: ",
        ),
        ({"phase": "Synced", "health": "Progressing", "revision": APPLIED}, "pending", "Synced, Progressing"),
        ({"phase": "Synced", "revision": APPLIED}, "pending", "Synced, Unknown"),
        ({"phase": "Synced", "health": "Healthy", "revision": APPLIED}, "success", "Synced and Healthy"),
        ({"phase": "Drifted", "health": "Healthy", "revision": APPLIED}, "success", "Drifted and Healthy"),
        (
            {"phase": "Synced", "health": "Degraded", "revision": APPLIED, "conditions": [READY]},
            "failure",
            "Degraded: Deployment shop/web: image cannot be pulled",
        ),
        (
            {"phase": "Failed", "revision": APPLIED, "conditions": [READY]},
            "failure",
            "Failed: Deployment shop/web: image cannot be pulled",
        ),
        (
            {
                "phase": "Synced",
                "health": "Healthy",
                "revision": {"fetched": NEW, "applied": OLD},
                "pinned": {"commit": OLD, "instead": NEW, "reason": "Degraded for 30 s"},
            },
            "failure",
            f"Rolled back to {OLD[:12]}: Degraded for 30 s",
        ),
        (
            {"revision": APPLIED, "pinned": {"instead": NEW, "reason": "Degraded for 30 s"}},
            "failure",
            "Held: Degraded for 30 s",
        ),
    ],
)
def test_a_deployed_commit_has_one_state(status: dict[str, Any], state: str, description: str) -> None:
    deployed = deployed_status(view(**status), "gitsync/shop")
    assert deployed is not None
    assert deployed.commit == NEW
    assert (deployed.status.state.value, deployed.status.description) == (state, description)


def test_without_a_commit_there_is_no_status() -> None:
    assert deployed_status(view(phase="Failed"), "gitsync/shop") is None
