"""
Run a controller in a process of its own and answer questions about it: ``python -m bench._controller KUBECONFIG DATA``.

Each line of standard input is a question in JSON, each line of standard output its answer. With ``GITSYNC_PROCESSES``
further processes share the work.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from gitsync.cli.processes.controller import further_processes
from gitsync.settings import Settings
from gitsync.wiring import Engine, build_controller


def answer(engine: Engine, question: dict[str, Any]) -> Any:
    """Return the answer to a question."""
    match question["ask"]:
        case "synced":
            began = time.thread_time()
            found = sum(1 for view in engine.view.applications() if _is_synced(view.status, question["commit"]))
            return found, time.thread_time() - began
        case "push":
            return engine.requests.repository_changed(lambda url: True)
        case "cpu":
            ours, git = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
            return [ours.ru_utime + ours.ru_stime, git.ru_utime + git.ru_stime]
        case "queue":
            return engine.requests.queue_length()
    raise ValueError(question)


def _is_synced(status: dict[str, Any], commit: str) -> bool:
    applied = (status.get("revision") or {}).get("applied", "")
    return status.get("sync") == "Synced" and commit in ("", applied)


def main(kubeconfig: str, data: str) -> None:
    """Serve until the standard input ends."""
    settings = Settings(kubeconfig=kubeconfig, data=Path(data), allow_file_urls=True)
    engine = build_controller(settings)
    engine.start()
    with further_processes(settings):
        for line in sys.stdin:
            print(json.dumps(answer(engine, json.loads(line))), flush=True)
    engine.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
