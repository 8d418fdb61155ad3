"""A hook that never ends holds up its own application until the deadline, and no other."""

from __future__ import annotations

from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until

HOOK = """apiVersion: batch/v1
kind: Job
metadata:
  name: endless
  annotations:
    gitsync.dev/hook: PreSync
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: tool
          image: tool:forever
"""


def test_an_endless_hook_is_stopped_at_its_deadline_and_others_run_meanwhile(world: World) -> None:
    world.namespace("mall")
    first = world.repo.commit(
        "first",
        {"shop/hook.yaml": HOOK, "shop/a.yaml": config_map("a", x="1"), "mall/b.yaml": config_map("b", x="1")},
    )
    world.application(sync={"postSync": {"healthTimeout": "3s"}})
    world.application("mall")
    world.start()
    until(lambda: world.get("Job", "endless", api="batch/v1"), 10, world.status)
    world.synced(first, "mall")
    second = world.repo.commit("second", {"mall/b.yaml": config_map("b", x="2")})
    world.synced(second, "mall", timeout=3)
    assert world.get("ConfigMap", "a") is None, "what comes after the hook waits"
    until(lambda: world.status().get("phase") == "Failed", 10, world.status)
    assert "endless" in str(world.status())
    until(lambda: world.get("Job", "endless", api="batch/v1") is None, 5)
    assert world.get("ConfigMap", "a") is None
