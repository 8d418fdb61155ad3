"""Limits that a render process sets itself, before it reads anything, and cannot lift again."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

_MAPPED: Final = 4 << 30
"""Room beside the memory limit for files that are only mapped, such as the packs that git reads."""
_MAX_FILES: Final = 64
_PAGE: Final = resource.getpagesize()


def confine(memory: int) -> None:
    """Limit this process to a number of bytes of memory and few open files, and forbid writing files."""
    for limit, value in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_AS, memory + _MAPPED),
        (resource.RLIMIT_NOFILE, _MAX_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def allow_processor_time(seconds: float) -> None:
    """Set the processor time after which the system kills this process, in case its parent does not."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    until = int(usage.ru_utime + usage.ru_stime + seconds) + 2
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (until, hard))


def memory_in_use() -> int:
    """Return the bytes of data that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * _PAGE
