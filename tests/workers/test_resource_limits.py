from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance_data import ROOT

MEMORY = 256 << 20


def confined(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that has confined itself."""
    program = f"from gitsync.workers.resource_limits import *\nconfine({MEMORY})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (f"bytearray({MEMORY})", "MemoryError"),
        ("open('file', 'w').write('x' * 100_000)", "File too large"),
        ("files = [open('/dev/null') for _ in range(100)]", "Too many open files"),
    ],
)
def test_a_confined_process_cannot(code: str, error: str, tmp_path: Path) -> None:
    assert error in confined(code, tmp_path).stderr
    assert not any(file.stat().st_size for file in tmp_path.iterdir())


def test_a_confined_process_can_still_map_large_files(tmp_path: Path) -> None:
    code = (
        f"import mmap\nwith open('/dev/zero', 'rb') as f: mmap.mmap(-1, {MEMORY}, prot=mmap.PROT_READ)\nprint('mapped')"
    )
    assert confined(code, tmp_path).stdout == "mapped\n"


def test_processor_time_is_limited_from_now_on(tmp_path: Path) -> None:
    done = confined("allow_processor_time(-1)\nwhile True: pass", tmp_path)
    assert done.returncode == -24  # SIGXCPU


def test_memory_in_use_follows_what_is_held(tmp_path: Path) -> None:
    code = "before = memory_in_use()\nheld = bytearray(64 << 20)\nprint((memory_in_use() - before) >> 20)"
    assert 60 <= int(confined(code, tmp_path).stdout) <= 80
