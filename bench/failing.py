"""
Memory beside Applications that fail: ``python -m bench.failing [SECONDS]``, by default for three minutes.

60 Applications whose Git server refuses connections, 60 of which one has a new commit each second, and 60 quiet ones.
Prints what the controller uses, and how much that grew after the first third; `../docs/decisions/0041` has the reasons.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench._fleet import Fleet, fleet, memory_of
from tests.flow.factories import config_map

SECONDS = 180
_EACH = 60
_REFUSING = "https://127.0.0.1:9/none.git"
_ROWS = 12


def main(seconds: int = SECONDS) -> None:
    """Print the memory of a controller while some Applications fail and others change."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as made:
        names = [f"app-{number}" for number in range(2 * _EACH)]
        commit = made.repo.commit("first", {f"{name}/o.yaml": config_map("o", value="first") for name in names})
        made.applications(names, interval="5s")
        made.start()
        made.synced(len(names), commit)
        for number in range(_EACH):
            made.application(f"failing-{number}", _REFUSING, "5s")
        rows = [_row(made, names[:_EACH], seconds / _ROWS) for _ in range(_ROWS)]
        print(f"growth after the first third: {rows[-1] - rows[_ROWS // 3 - 1]:.1f} MiB", flush=True)


def _row(made: Fleet, changing: list[str], seconds: float) -> float:
    """Commit once a second for some seconds; return the memory then, in MiB."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        name = changing[int(time.monotonic()) % len(changing)]
        made.repo.commit("change", {f"{name}/o.yaml": config_map("o", value=str(time.monotonic()))})
        time.sleep(1.0)
    memory = memory_of(made.controller.id) / (1 << 20)
    print(f"memory {memory:.1f} MiB", flush=True)
    return memory


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
