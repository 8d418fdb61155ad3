"""Compare the sandbox with the control plane of ``GITSYNC_TEST_KUBECONFIG`` on generated requests."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.sandbox.differential.compare import Answer, differences, normal
from tests.sandbox.differential.mutations import REMOVE, Mutation, mutate
from tests.sandbox.differential.requests import Request, Scenario, read_seeds
from tests.sandbox.differential.run import ControllersRunError, Difference, compare, known, unseen

KUBECONFIG = os.environ.get("GITSYNC_TEST_KUBECONFIG", "")
MOST = 0.005
"""The rate of unexplained differences that the sandbox reached; lower it with each rule that is fixed."""


@pytest.mark.skipif(not KUBECONFIG, reason="GITSYNC_TEST_KUBECONFIG names no cluster for tests")
def test_generated_requests_are_answered_as_by_a_real_server() -> None:
    try:
        total, found = compare(Path(KUBECONFIG), requests=1000, seed=1)
    except ControllersRunError as reason:
        pytest.skip(str(reason))
    unexplained = [one.key for one in found if not known(one)]
    assert len(unexplained) / total < MOST, "\n".join(unexplained)


def test_seeds_cover_forty_kinds_and_generate_the_same_requests_again() -> None:
    seeds = read_seeds()
    assert len({(seed.path, seed.body["kind"]) for seed in seeds}) >= 40
    for number, seed in enumerate(seeds):
        first, second = (list(Scenario(seed, "ns", number, random.Random(5)).requests()) for _ in range(2))
        assert first == second


def test_objects_that_could_disturb_a_cluster_are_only_written_with_dry_run() -> None:
    seeds = [seed for seed in read_seeds() if seed.dry]
    for number in range(100):
        seed = seeds[number % len(seeds)]
        for request in Scenario(seed, "ns", number, random.Random(number)).requests():
            if request.method in ("POST", "PUT", "PATCH"):
                assert "dryRun=All" in request.path


def test_trial_deletions_have_their_dry_run_where_a_server_reads_it() -> None:
    seed = next(seed for seed in read_seeds() if seed.resource == "configmaps")
    requests = (one for n in range(60) for one in Scenario(seed, "ns", n, random.Random(n)).requests())
    bodies = [one.body for one in requests if one.about == "delete-options" and one.body is not None]
    assert bodies
    assert all(body["dryRun"] for body in bodies)


def test_what_only_this_cluster_adds_or_allocates_is_not_compared() -> None:
    added = {
        "configMap": {
            "name": "openshift-service-ca.crt",
            "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}],
        }
    }
    assert normal({"sources": [{"secret": {}}, added]}) == {"sources": [{"secret": {}}]}
    assert normal({"cells": ["a", "10.96.0.7", "3m2s", 5]}) == {"cells": ["a", "*", "*", 5]}


def test_a_mutation_changes_one_path() -> None:
    obj = {"spec": {"a": [1, 2], "b": {"c": "x"}}}
    assert Mutation(("spec", "a", 1), REMOVE).applied(obj) == {"spec": {"a": [1], "b": {"c": "x"}}}
    assert Mutation(("spec", "b", "c"), 5).applied(obj) == {"spec": {"a": [1, 2], "b": {"c": 5}}}
    assert mutate(obj, {}, {}, random.Random(1)).applied(obj) != obj
    assert obj == {"spec": {"a": [1, 2], "b": {"c": "x"}}}


def test_differences_name_status_causes_and_values() -> None:
    request = Request("create", "POST", "/x")
    refused = {"reason": "Invalid", "details": {"causes": [{"field": "a", "reason": "R"}]}}
    assert not list(differences(request, Answer(422, refused), Answer(422, refused)))
    (found,) = differences(request, Answer(422, {**refused, "details": {"causes": []}}), Answer(422, refused))
    assert found.startswith("causes: missing [('a', 'R')], additional []")
    ours, real = {"metadata": {"uid": "1"}, "a": 1}, {"metadata": {"uid": "2"}, "a": 2}
    assert list(differences(request, Answer(200, ours), Answer(200, real))) == [".a is 1, real 2"]
    (found,) = differences(request, Answer(200, ours), Answer(422, refused))
    assert found.startswith("status 200, real 422")


def test_explanations_are_checked_in_both_directions() -> None:
    seed = next(seed for seed in read_seeds() if seed.resource == "services")
    request = Request("delete", "DELETE", "/x", of=seed)

    def difference(found: str) -> Difference:
        return Difference(request, Answer(200, {}), Answer(200, {}), (found,), ())

    explained, other = difference(".status is 1, real 0: the server closed the connection"), difference(".spec is 1")
    assert known(explained).startswith("a defect of the real server")
    assert known(other) == ""
    (seen,) = set(unseen([other])) - set(unseen([explained, other]))
    assert seen.startswith("real 0: ")
