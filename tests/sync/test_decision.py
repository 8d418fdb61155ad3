"""What an application waits for before a new commit of it is applied."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.application import parse_application
from gitsync.objects.manifest import Manifest
from gitsync.sync.decision import blocking_dependency

COMMIT = "1" * 40


def application(name: str, *depends_on: str, url: str = "https://git.example.com/a.git", **status: Any) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "apps", "generation": 2},
        "spec": {"source": {"repoURL": url}, "dependsOn": [{"name": other} for other in depends_on]},
        "status": {
            "observedGeneration": 2,
            "revision": {"applied": COMMIT},
            "conditions": [{"type": "Ready", "status": "True", "reason": "SyncedAndHealthy"}],
            **status,
        },
    }


def waiting(*others: Manifest) -> str:
    known = {f"apps/{other['metadata']['name']}": other for other in others}
    app = application("shop", "base")
    return blocking_dependency(parse_application(app), COMMIT, {"apps/shop": app, **known}.get)


UNREADY = [{"type": "Ready", "status": "False", "reason": "Degraded"}]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        pytest.param([], "does not exist", id="absent"),
        pytest.param([application("base", observedGeneration=1)], "latest spec", id="a new spec not reconciled"),
        pytest.param([application("base", conditions=UNREADY)], "not ready: Degraded", id="unhealthy"),
        pytest.param([application("base", conditions=[])], "not ready: Unknown", id="never reconciled"),
        pytest.param([application("base", revision={"applied": "0"})], "not at commit 1111", id="at an older commit"),
        pytest.param([application("base", "shop")], "apps/shop → apps/base → apps/shop", id="a cycle"),
        pytest.param([application("base", "far"), application("far", "base")], "", id="a cycle of others"),
    ],
)
def test_it_says_what_it_waits_for(others: list[Manifest], said: str) -> None:
    assert said in waiting(*others)


def test_it_waits_for_nothing_when_the_other_is_ready() -> None:
    assert waiting(application("base")) == ""


def test_the_commit_of_another_repository_does_not_matter() -> None:
    assert waiting(application("base", url="https://git.example.com/b.git", revision={"applied": "0"})) == ""
