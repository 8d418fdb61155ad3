"""Run the benchmarks: ``make bench``, or only some by name: ``make bench ARGS="render sandbox"``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench

NAMES = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))


def main(wanted: list[str]) -> int:
    """Run the named benchmarks, or all; 2 when a name is unknown."""
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}: there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in wanted or NAMES:
        print(f"# {name}", flush=True)
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
