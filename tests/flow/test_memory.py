"""Applications that fail for long: what each failure leaves in memory without a collection of cycles."""

from __future__ import annotations

import gc

from gitsync.errors import GitsyncError
from gitsync.sync.status.report import Report
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until

FAILING = {
    "away": {"repoURL": "file:///no/such/repository"},
    "renamed": {"revision": "gone"},
    "invalid": {"path": "invalid"},
    "empty": {"path": "no-such-folder"},
}


def test_failing_reconciles_leave_no_cycles(world: World) -> None:
    """A report that a kept error refers to, through the frames of its traceback, would stay with all that it holds."""
    world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "invalid/a.yaml": "kind: ["})
    for name, source in FAILING.items():
        world.application(name, source=source)
    view = world.start().view

    def reconciles() -> int:
        return min(view.cost(f"{NAMESPACE}/{name}").full for name in FAILING)

    until(lambda: all(world.status(name).get("phase") == "Failed" for name in FAILING), 30)
    gc.collect()
    gc.disable()
    try:
        target = reconciles() + 15
        until(lambda: reconciles() >= target, 60)
        reports = [found for found in gc.get_objects() if isinstance(found, Report)]
        with_frames = [
            found for found in gc.get_objects() if isinstance(found, GitsyncError) and found.__traceback__ is not None
        ]
    finally:
        gc.enable()
    assert len(reports) <= len(FAILING), "one for each Application that is reconciled now"
    assert len(with_frames) <= len(FAILING)
