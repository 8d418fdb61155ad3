"""A Secret that an Application references is read again as soon as it changes, whatever the interval."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.git_repository import ssh_key
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def trust(world: World, *keys: Path) -> None:
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": NAMESPACE},
            "stringData": {key.name: key.with_suffix(".pub").read_text() for key in keys},
        }
    )


def test_a_key_that_is_added_later_lets_the_same_commit_pass_at_once(world: World, tmp_path: Path) -> None:
    ours, other = ssh_key(tmp_path, "ours"), ssh_key(tmp_path, "other")
    world.repo.git("config", "gpg.format", "ssh")
    world.repo.git("config", "user.signingKey", f"{ours}.pub")
    (world.repo.clone / "shop").mkdir()
    (world.repo.clone / "shop" / "a.yaml").write_text(config_map("a", x="1"))
    world.repo.git("add", "-A")
    world.repo.git("commit", "-q", "-S", "-m", "signed")
    commit = world.repo.push()
    trust(world, other)
    world.application(
        sync={"interval": "1h"}, source={"verify": {"mode": "SignedCommits", "secretRef": {"name": "keys"}}}
    )
    world.start()
    until(lambda: "not among the trusted" in world.condition("SourceReady").get("message", ""), 10, world.status)
    assert world.get("ConfigMap", "a") is None
    trust(world, ours, other)
    world.synced(commit, timeout=5)
