"""10,000 objects in 500 applications: every page is small. How quick it is, bench/dashboard.py measures."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import pytest

from gitsync.objects.health import Health
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from tests.asgi_server import Served, serve
from tests.replicas import still_dashboard
from tests.server.fakes import NOW, application, changed, edited, engine, resource

PAGES = [
    "/",
    "/apps",
    "/apps?q=app-49",
    "/apps?health=Degraded&sort=name",
    "/approvals",
    "/audit",
    "/apps/gitsync/app-7",
    "/apps/gitsync/large",
    "/apps/gitsync/large?only=drift&start=100",
    "/apps/gitsync/large?view=tree",
    "/apps/gitsync/large/plan",
    "/apps/gitsync/large/diff",
    "/apps/gitsync/large/diff?mode=unified",
    "/apps/gitsync/large/history",
    "/apps/gitsync/large/history/1",
    "/metrics",
    "/changes",
    "/changes/compare",
    "/drift",
    "/objects",
    "/objects?q=is:different",
    "/search?q=thing",
    "/apps/gitsync/prompts/plan",
    "/apps/gitsync/prompts/diff",
    "/api/v1/objects",
]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    health = [Health.HEALTHY] * 9 + [Health.DEGRADED]
    small = (
        application(f"app-{n}", [resource(f"object-{n}-{i}") for i in range(16)], health=health[n % 10].value)
        for n in range(499)
    )
    drifted = [edited(resource(f"thing-{i}", sync="OutOfSync", differences=(changed(),))) for i in range(1000)]
    large = application("large", [*drifted, *(resource(f"calm-{i}") for i in range(1016))], held=("it waits",))
    before = "\n".join(f"line {i} of a prompt" for i in range(400))
    texts = (changed(".data.prompt", before, before.replace("a prompt", "another prompt")),)
    prompts = application("prompts", [resource(f"p-{i}", sync="OutOfSync", differences=texts) for i in range(60)])
    still = engine(tmp_path_factory.mktemp("scale"), [*small, large, prompts])
    done = Outcome.SUCCEEDED
    steps = tuple(Step(f"/ConfigMap/shop/thing-{i}", "update", "Safe", "why", done) for i in range(1000))
    record = SyncRecord(
        "gitsync/large", Commit("c" * 40), "commit", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=steps
    )
    for _ in range(25):
        still.records.save(record)
    link = AuditRecord("gitsync/large", "update", "/ConfigMap/shop/a", Outcome.SUCCEEDED, NOW, "s")
    still.records.audit([link] * 300)
    with serve(still_dashboard(still)) as served:
        yield served
    still.records.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_small(web: Served, path: str) -> None:
    answer = web.ask(path)
    assert answer.status == 200
    assert len(gzip.compress(answer.text.encode(), 5)) < 100_000
    assert len(re.findall(r"<[a-z]", answer.text)) <= 1500


def test_the_pages_of_a_large_application_hold_all_of_it(web: Served) -> None:
    seen: set[str] = set()
    path = "/apps/gitsync/large"
    while path:
        text = web.ask(path).text
        seen |= set(re.findall(r'data-row="([^"]+)"', text))
        following = re.search(r'<a rel="next" href="([^"]+)"', text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert len(seen) == 2016
