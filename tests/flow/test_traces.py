"""A controller sends a trace of each reconcile to a collector."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.http_service import serve_http

# what is rendered is validated with the schemas of the cluster, once it is observed
STAGES = ["reconcile", "read", "source", "render", "observe", "render", "plan", "apply", "observe", "plan", "record"]


def test_the_trace_of_a_sync_has_its_stages_in_order(world: World) -> None:
    spans: list[dict[str, Any]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            spans.extend(message["resourceSpans"][0]["scopeSpans"][0]["spans"])
            self.send_response(200)
            self.end_headers()

    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"interval": "1h"})
    with serve_http(Collector) as port:
        world.start(traces=f"http://127.0.0.1:{port}")
        world.synced(commit)
        world.stop()
    traces: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        traces.setdefault(span["traceId"], []).append(span)
    assert [span["name"] for span in spans].count("apply") == 1
    (sync,) = [trace for trace in traces.values() if any(span["name"] == "apply" for span in trace)]
    assert [span["name"] for span in sync] == STAGES
    facts = {item["key"]: item["value"].get("stringValue") for item in sync[0]["attributes"]}
    assert facts == {"gitsync.application": "gitsync/shop", "gitsync.phase": "Synced", "gitsync.revision": commit}
