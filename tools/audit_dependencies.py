"""
Compare the pinned dependencies with the published vulnerabilities.

Usage: ``python -m tools.audit_dependencies``. Exit code 1: one is vulnerable. Where the data is not reachable, the
audit is skipped, and the reason is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

_FILE = "requirements-image.txt"
_AUDIT = (
    "-r",
    _FILE,
    "--require-hashes",
    "--disable-pip",
    "--no-deps",
    "--progress-spinner",
    "off",
    "--format",
    "json",
)
_SECONDS = 120


def main() -> int:
    """Run pip-audit and print what it found."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *_AUDIT], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _skipped(f"no answer within {_SECONDS} s")
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        return _skipped((done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1])
    return report(dependencies)


def report(dependencies: list[Mapping[str, Any]]) -> int:
    """Print the vulnerabilities of dependencies as pip-audit lists them; return the exit code."""
    audited = [dependency for dependency in dependencies if "skip_reason" not in dependency]
    if not audited:
        reasons = [str(dependency["skip_reason"]) for dependency in dependencies] or [f"{_FILE} is empty"]
        return _skipped(reasons[0])
    lines = [
        f"{dependency['name']} {dependency['version']}: {bug['id']}"
        for dependency in audited
        for bug in dependency.get("vulns", ())
    ]
    for line in lines:
        print(line)
    print(f"{len(audited)} of {len(dependencies)} dependencies audited, {len(lines)} vulnerabilities")
    return 1 if lines else 0


def _skipped(reason: str) -> int:
    print(f"dependency audit skipped, its data is not reachable: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
