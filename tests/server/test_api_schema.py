"""The API answers generated requests as its OpenAPI document says: schemathesis plays a client that knows only that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.server.api.routes import description
from gitsync.server.app import create_app
from gitsync.server.auth.access import Access, SignIn
from tests.asgi_server import serve
from tests.server.fakes import NOW, application, changed, engine, resource

TOKEN = "t" * 43
EXCLUDED = [
    ignored_auth,  # wrong tokens are delayed: 429 after some
    negative_data_rejection,  # unknown query parameters are ignored
    positive_data_acceptance,  # whether a name is required depends on who signed in
]
schema = schemathesis.openapi.from_dict(description())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("api")
    web = resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),))
    still = engine(folder, [application("shop", [web, resource("a")], held=("1 step waits for an approver",))])
    step = Step("apps/Deployment/shop/web", "update", "Safe", "why", Outcome.SUCCEEDED)
    still.records.save(
        SyncRecord("gitsync/shop", Commit("c" * 40), "commit", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))
    )
    still.sets.known = [{"metadata": {"namespace": "gitsync", "name": "shop"}, "status": {"counts": {"desired": 2}}}]
    with serve(create_app(still, Access(SignIn(TOKEN)))) as web_server:
        yield web_server.url
    still.records.close()


@schema.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_the_document_describes(case: Case, url: str) -> None:
    if "namespace" in (case.path_parameters or {}) and case.path_parameters.get("name") != "absent":
        case.path_parameters |= {"namespace": "gitsync", "name": "shop"}
    case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=EXCLUDED)


def test_the_document_names_every_route_of_the_api() -> None:
    assert len(list(schema.get_all_operations())) >= 21
