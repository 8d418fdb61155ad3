"""Measure how long commands take that do next to nothing: the start of Python, the help, a build of one object."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_RUNS = 9
_MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: value}\n"


def median(*command: str) -> float:
    """Return the median of the seconds that a command takes, after one run to warm the disk."""
    times = []
    for _ in range(_RUNS + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.yaml").write_text(_MANIFEST, encoding="utf-8")
        for name, command in (
            ("python -c pass", (sys.executable, "-c", "pass")),
            ("gitsync --help", (sys.executable, "-m", "gitsync", "--help")),
            ("gitsync build --help", (sys.executable, "-m", "gitsync", "build", "--help")),
            ("gitsync build, one object", (sys.executable, "-m", "gitsync", "build", folder)),
        ):
            print(f"{name:26} {median(*command) * 1000:5.0f} ms")


if __name__ == "__main__":
    main()
