"""
One commit a second for ten Applications: ``python -m bench.soak [SECONDS]``, by default for an hour.

Prints twenty times what the controller uses, and how much that grew after the first quarter of the time. The audit
keeps a number of records, as an operator would set it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from bench._fleet import Fleet, fleet, memory_of
from tests.flow.factories import config_map
from tests.waiting import until

SECONDS = 3600
_APPLICATIONS = 10
_ROWS = 20
_AUDIT_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class Usage:
    """What a controller uses: MiB with its children, counts of the controller, and KiB of its folders."""

    memory: int
    descriptors: int
    threads: int
    mirrors: int
    database: int

    def __str__(self) -> str:
        return (
            f"memory {self.memory} MiB, descriptors {self.descriptors}, threads {self.threads}, "
            f"mirrors {self.mirrors} KiB, database {self.database} KiB"
        )


def main(seconds: int = SECONDS) -> None:
    """Print the usage while commits arrive."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as made:
        names = [f"app-{number}" for number in range(_APPLICATIONS)]
        commit = made.repo.commit("first", {f"{name}/o.yaml": config_map("o", value="first") for name in names})
        made.applications(names, interval="1s")
        made.start(GITSYNC_AUDIT_RECORDS=str(_AUDIT_RECORDS))
        made.synced(len(names), commit)
        rows = list(soak(made, names, seconds))
        pairs = zip(astuple(rows[_ROWS // 4 - 1]), astuple(rows[-1]), strict=True)
        growth = Usage(*(after - before for before, after in pairs))
        print(f"growth after the first quarter: {growth}", flush=True)


def soak(made: Fleet, names: list[str], seconds: int) -> Iterator[Usage]:
    """Commit once a second, and yield the usage twenty times."""
    began, count = time.monotonic(), 0
    for row in range(1, _ROWS + 1):
        while time.monotonic() - began < seconds * row / _ROWS:
            count += 1
            commit(made, names[count % len(names)], str(count))
            time.sleep(max(0.0, began + count - time.monotonic()))
        wait(made, names[count % len(names)], str(count))
        usage = usage_of(made)
        print(f"{time.monotonic() - began:.0f} s, {count} commits: {usage}", flush=True)
        yield usage


def commit(made: Fleet, name: str, value: str) -> None:
    """Commit another value for an object of one Application."""
    made.repo.commit("change", {f"{name}/o.yaml": config_map("o", value=value)})


def wait(made: Fleet, name: str, value: str) -> None:
    """Wait until a value is live."""
    until(lambda: made.config(name, "o") == {"value": value}, 60)


def usage_of(made: Fleet) -> Usage:
    """Return what the controller uses now."""
    process = Path(f"/proc/{made.controller.id}")
    return Usage(
        memory_of(made.controller.id) >> 20,
        len(list((process / "fd").iterdir())),
        len(list((process / "task").iterdir())),
        size_of(made.folder / "data" / "mirrors"),
        sum(file.stat().st_size for file in (made.folder / "data").glob("history.db*")) >> 10,
    )


def size_of(folder: Path) -> int:
    """Return the KiB of the files below a folder; files that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:
            continue
    return total >> 10


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
