"""
Run a controller in a process of its own and answer questions about it: ``python -m bench._controller KUBECONFIG DATA``.

Each line of standard input is a question in JSON, each line of standard output its answer. With ``GITSYNC_PROCESSES``
further processes share the work.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# `gitsync run` imports its modules without a search for garbage too
gc.disable()

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from gitsync.cli.further_processes import further_processes, reports_of  # noqa: E402
from gitsync.ports import OtherProcesses, no_others  # noqa: E402
from gitsync.server.metrics import process_text  # noqa: E402
from gitsync.settings import Settings  # noqa: E402
from gitsync.wiring import Engine, build_controller  # noqa: E402

gc.freeze()
gc.enable()


def answer(engine: Engine, question: dict[str, Any], others: OtherProcesses = no_others) -> Any:
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
        case "requests":
            return requests([process_text(engine, has_applications=False), *(one.metrics for one in others())])
        case "queue":
            return engine.requests.queue_length()
    raise ValueError(question)


def requests(pages: Iterable[str]) -> Counter[str]:
    """Return the requests to the API server in metrics, by verb and resource."""
    found: Counter[str] = Counter()
    for family in (family for page in pages for family in text_string_to_metric_families(page)):
        for sample in family.samples:
            if sample.name == "gitsync_api_requests_total":
                found[f"{sample.labels['verb']} {sample.labels['resource']}"] += int(sample.value)
    return found


def _is_synced(status: dict[str, Any], commit: str) -> bool:
    applied = (status.get("revision") or {}).get("applied", "")
    return status.get("sync") == "Synced" and commit in ("", applied)


def main(kubeconfig: str, data: str) -> None:
    """Serve until the standard input ends."""
    settings = Settings(kubeconfig=kubeconfig, data=Path(data), allow_file_urls=True, controller_rights=True)
    engine = build_controller(settings)
    engine.start()
    with further_processes(settings) as children:
        for line in sys.stdin:
            print(json.dumps(answer(engine, json.loads(line), reports_of(children))), flush=True)
    engine.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
