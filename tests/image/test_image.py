"""The content of the container image runs as a user who may write nothing in it; no container engine is needed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gitsync.sandbox.server import Sandbox
from tests.child_process import child_process
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
FOLDER = os.environ.get("GITSYNC_TEST_IMAGE", "")
USER = "10001"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_dockerfile_and_deployment_agree() -> None:
    text = (ROOT / "manifests" / "gitsync" / "deployment.yaml").read_text(encoding="utf-8")
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in DOCKERFILE
    assert re.search(r"CMD \[(.*)\]\n*\Z", DOCKERFILE)[1].replace('"', "") == ", ".join(container["args"])  # type: ignore[index]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/policies", "/tmp"}
    assert f"EXPOSE {container['ports'][0]['containerPort']}" in DOCKERFILE
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


@pytest.fixture
def writable() -> Iterator[Path]:
    """A folder of the user of the image, who may not enter those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="gitsync-image-"))
    folder.chmod(0o755)
    for name in ("data", "tmp"):
        (folder / name).mkdir()
        shutil.chown(folder / name, int(USER), int(USER))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not FOLDER, reason="GITSYNC_TEST_IMAGE names no folder; `make image-content` builds one")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run a process as another user")
def test_the_controller_runs_from_a_folder_that_it_may_not_write(writable: Path) -> None:
    image = Path(FOLDER).absolute()
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in image.rglob("*"))
    log = writable / "log"
    with Sandbox(workloads=False) as sandbox, log.open("w") as output:
        config = sandbox.kubeconfig(writable / "kubeconfig")
        shutil.chown(config, int(USER), int(USER))
        user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs"]
        environment = {
            "PATH": f"{image / 'bin'}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "GITSYNC_DATA": str(writable / "data"),
            "TMPDIR": str(writable / "tmp"),
            "KUBECONFIG": str(config),
            "GITSYNC_WEB_TOKEN": "t" * 32,
        }
        command = [*user, str(image / "bin" / "gitsync"), "run", "--host", "0.0.0.0", "--port", "0"]
        with child_process(command, cwd="/", env=environment, stdout=output, stderr=subprocess.STDOUT) as child:
            try:
                until(lambda: "dashboard ready at" in log.read_text(), 60, log.read_text)
            finally:
                child.send_signal(signal.SIGTERM)
                assert child.wait(60) == 0, log.read_text()
    assert (writable / "data" / "history.db").is_file()
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in image.rglob("*")) == before
    assert not list(image.glob("lib/python*/site-packages/pip"))
