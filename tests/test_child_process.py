"""Processes that tests start end with the block, also where the test fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.child_process import child_process
from tests.flow.sandbox_process import SandboxProcess


def test_a_process_has_ended_after_a_failure_in_its_block() -> None:
    with pytest.raises(ValueError, match="the test"), child_process(["sleep", "60"], stdout=subprocess.PIPE) as child:
        raise ValueError("the test")
    assert child.returncode == -9
    assert child.stdout is not None
    assert child.stdout.closed


def test_a_sandbox_that_does_not_start_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "sandbox.kubeconfig").mkdir()  # so that it cannot be written
    with pytest.raises(AssertionError, match="the sandbox ended with exit code"), SandboxProcess(tmp_path):
        pass  # a process that is left is a ResourceWarning, which pytest makes an error
