"""Run a controller in a process of its own, so that a test can kill it: ``process.py KUBECONFIG DATA``."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from gitsync.settings import Settings
from gitsync.wiring import build_controller


def main(kubeconfig: str, data: str) -> None:
    build_controller(
        Settings(kubeconfig=kubeconfig, data=Path(data), allow_file_urls=True, controller_rights=True, render_workers=1)
    ).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
