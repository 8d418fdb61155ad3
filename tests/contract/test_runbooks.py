"""Each command of the runbooks in docs/operations.md works as printed, on an installation that runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.installed import DEPLOYER, controller, install, kubeconfig_of
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import Stage, eventually

ROOT = Path(__file__).resolve().parents[2]
_TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
_PAGE = _TEXT[_TEXT.index("\n## Backup and restore") : _TEXT.index("\n## Objects that another tool applied")]
_CODE = re.compile(r"^```\n(.*?)^```|`((?:gitsync|kubectl|curl) [^`]*)`", re.MULTILINE | re.DOTALL)
_EXEC = "kubectl -n gitsync exec deploy/gitsync -- "
"""What runs in the container of the controller: here, with its account and data folder."""
NOT_RUN = {
    "kubectl -n gitsync cp": "needs the container of the controller",
    "kubectl -n gitsync logs": "needs the container of the controller",
    "kubectl -n gitsync port-forward": "serves until it is stopped; tests/cli/test_port_forward.py opens one",
    "curl": "asks the forwarded port; tests/server/test_metrics.py reads the metrics with a token",
    "gitsync install --component monitoring": "is run by tests/contract/test_installation.py",
    "gitsync logs NAME": "needs a kubelet; tests/cli/test_dashboard_queries.py runs it",
    "gitsync rollback NAME": "pushes to Git; tests/contract/test_rollback.py runs it",
    "gitsync restore": "is run at the end, as the page has it, with no controller",
    "gitsync audit": "is run at the end, as the page has it, with no controller",
    "gitsync backup": "names the command of the block below it",
}
"""The commands that are not run in the order of the page, by their beginning, and why."""
_DIFFERENT = 1
"""The exit code of a command that found what is not as it should be."""


def documented() -> list[str]:
    """Return the commands of the page in its order: lines of blocks, and those in sentences."""
    commands: list[str] = []
    for block, span in _CODE.findall(_PAGE):
        commands += [" ".join(span.split())] if span else block.splitlines()
    return [command for command in commands if not command.startswith(tuple(NOT_RUN))]


def test_each_command_that_is_not_run_is_on_the_page() -> None:
    assert [beginning for beginning in NOT_RUN if f"`{beginning}" not in _PAGE and f"\n{beginning}" not in _PAGE] == []


@pytest.mark.own_rights
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_every_command_of_the_runbooks_works_as_printed(stage: Stage) -> None:
    install(stage, "read-secrets")
    data = stage.folder / "data"

    def run(command: str, kubeconfig: Path = stage.kubeconfig) -> str:
        line = (
            command.removeprefix(_EXEC).replace("-n gitsync", f"-n {stage.system}").replace("NAMESPACE", stage.system)
        )
        line = line.replace("serviceaccount:gitsync:", f"serviceaccount:{stage.system}:").replace("NAME", "app")
        tools = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig_of(stage, "gitsync") if command.startswith(_EXEC) else kubeconfig),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITSYNC_DATA": str(data),
            "GITSYNC_NAMESPACE": stage.system,
            "GITSYNC_ALLOW_FILE_URLS": "true",
        }
        line = line.replace("/data", str(data)) if "gitsync " in line else line
        done = subprocess.run(["bash", "-c", line], cwd=stage.folder, env=tools, capture_output=True, text=True)
        assert done.returncode in (0, _DIFFERENT), (line, done.stderr)
        # a page of help instead of an answer, or a command that the shell does not know
        assert "Usage:" not in done.stderr, (line, done.stderr)
        return done.stdout

    with controller(stage):
        stage.commit({"web.yaml": deployment(replicas=1), "settings.yaml": config_map("settings", a="1")})
        stage.application(**DEPLOYER)
        eventually(stage, lambda: stage.status().get("sync") == "Synced")
        said = {command: run(command) for command in documented()}
    assert len(said) > 12
    (may,) = (out for command, out in said.items() if "can-i" in command)
    assert may.strip() == "yes", "it answers no once the right is missing"
    stage.engine = None
    backup = data / "gitsync.backup.gz"
    assert backup.stat().st_size
    for file in data.glob("history.db*"):
        file.unlink()
    backup.rename(stage.folder / "gitsync.backup.gz")
    run("gitsync restore gitsync.backup.gz --data /data")
    # what was written after the backup is named, since the status of the Application has its hash
    assert "audit" in run("gitsync audit verify --data /data")
    run("gitsync audit accept --reason TEXT")
    assert "intact" in run("gitsync audit verify --data /data")
