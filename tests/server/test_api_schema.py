"""The API answers generated requests as its OpenAPI document says: schemathesis plays a client that knows only that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.server.api.routes import description
from gitsync.server.auth.access import Access, SignIn
from tests.asgi_server import serve
from tests.replicas import still_dashboard
from tests.server.fakes import NOW, application, changed, engine, resource

TOKEN = "t" * 43
EXCLUDED = [
    ignored_auth,  # wrong tokens are delayed: 429 after some
    negative_data_rejection,  # unknown query parameters are ignored
    positive_data_acceptance,  # whether a name is required depends on who signed in
]
SETTINGS = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
DOCUMENT = description()
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("api")
    web = resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),))
    still = engine(folder, [application("shop", [web, resource("a")], held=("1 step waits for an approval",))])
    step = Step("apps/Deployment/shop/web", "update", "Safe", "why", Outcome.SUCCEEDED)
    still.records.save(
        SyncRecord("gitsync/shop", Commit("c" * 40), "commit", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))
    )
    still.sets.known = [{"metadata": {"namespace": "gitsync", "name": "shop"}, "status": {"counts": {"desired": 2}}}]
    with serve(still_dashboard(still, Access(SignIn(TOKEN)))) as web_server:
        yield web_server.url
    still.records.close()


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_answer_is_one_that_the_document_describes(method: str, path: str, schema: BaseSchema, url: str) -> None:
    def check(case: Case) -> None:
        if "namespace" in (case.path_parameters or {}) and case.path_parameters.get("name") != "absent":
            case.path_parameters |= {"namespace": "gitsync", "name": "shop"}
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=EXCLUDED)

    operations = schema.include(path=path, method=method)
    # not schema.parametrize(): that generates requests while tests are collected, in each process of a run
    (built,) = get_all_tests(schema=operations, test_func=check, settings=SETTINGS, given_kwargs=None)
    _, run = built.ok()
    run()


def test_the_document_names_every_route_of_the_api() -> None:
    assert len(OPERATIONS) >= 21
