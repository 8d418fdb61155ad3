"""A real OCI registry (``docker-registry``) on loopback, and charts that the helm program packs and pushes to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.child_process import child_process
from tests.waiting import until

_CONFIG = """\
version: 0.1
storage: {filesystem: {rootdirectory: FOLDER}}
http: {addr: "127.0.0.1:0"}
"""


def need(*programs: str) -> None:
    """Skip the test unless all of these programs are on PATH."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} on PATH")


@contextmanager
def docker_registry(folder: Path) -> Iterator[str]:
    """Serve an empty registry without TLS, and yield its host and port."""
    folder.mkdir()
    config = folder / "config.yml"
    config.write_text(_CONFIG.replace("FOLDER", str(folder / "data")))
    log = folder / "log"
    with log.open("w") as out, child_process(["docker-registry", "serve", config], stdout=out, stderr=out):
        match = until(lambda: re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text()), describe=log.read_text)
        yield match[1]


def helm(folder: Path, *arguments: object) -> str:
    """Run helm in a folder, with its caches there, and return what it printed."""
    home = {name: str(folder / ".helm") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    done = subprocess.run(
        ["helm", *map(str, arguments)], cwd=folder, env={**os.environ, **home}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def push_chart(folder: Path, registry: str, version: str, files: Mapping[str, str]) -> None:
    """Push a version of a chart, given by its files without ``Chart.yaml``, as ``oci://REGISTRY/charts/web``."""
    chart = folder / f"chart-{version}" / "web"
    texts = {"Chart.yaml": f"apiVersion: v2\nname: web\nversion: {version}\n", **files}
    for path, text in texts.items():
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)
    helm(folder, "package", chart)
    helm(folder, "push", f"web-{version}.tgz", f"oci://{registry}/charts", "--plain-http")
