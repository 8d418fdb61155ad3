"""Applications are read as they are written, and what cannot be read is named."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.application import Application, MetricQuery, parse_application


def parsed(**post_sync: Any) -> Application:
    manifest = {
        "metadata": {"name": "shop", "namespace": "gitsync"},
        "spec": {"source": {"repoURL": "https://x.example/r"}, "sync": {"postSync": post_sync}},
    }
    return parse_application(manifest)


def query(**members: Any) -> dict[str, Any]:
    return {"name": "error rate", "prometheusQuery": "up", "max": "0.05", **members}


def test_queries_are_limits() -> None:
    app = parsed(queries=[query(), query(name="latency", max="-2", **{"for": "2m"})])
    assert app.sync.limits == (MetricQuery("error rate", "up", 0.05), MetricQuery("latency", "up", -2.0, 120.0))
    assert parsed().sync.limits == ()


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"name": ""}, "queries[0]"),
        ({"prometheusQuery": ""}, "queries[0]"),
        ({"max": "NaN"}, "queries[0].max"),
        ({"max": "1e3"}, "queries[0].max"),
        ({"for": "soon"}, "queries[0].for"),
    ],
)
def test_a_query_that_means_nothing_is_named(members: dict[str, str], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(queries=[query(**members)])
    assert caught.value.location == f"spec.sync.postSync.{where}"


def test_two_queries_of_one_name_cannot_be_told_apart() -> None:
    with pytest.raises(InvalidInput, match="one name"):
        parsed(queries=[query(), query()])
