"""Run the differential test: ``python -m tests.sandbox.differential.run KUBECONFIG [REQUESTS] [SEED] [RESOURCE]``."""

from __future__ import annotations

import functools
import json
import random
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gitsync.sandbox.server import Sandbox
from tests.sandbox.differential.clusters import ClusterClient, real_cluster
from tests.sandbox.differential.compare import Answer, differences
from tests.sandbox.differential.requests import Request, Scenario, Seed, read_seeds

_LABEL = "differential=yes"


@dataclass(frozen=True, slots=True)
class Difference:
    """A request that both clusters answered differently, with what came before it."""

    request: Request
    ours: Answer
    real: Answer
    found: tuple[str, ...]
    before: tuple[Request, ...]

    @property
    def key(self) -> str:
        """Its class in the report: resource, operation and the first difference without values."""
        resource = self.request.of.resource if self.request.of else ""
        return f"{resource} {self.request.about}: {re.sub('[0-9]+', '#', self.found[0])[:300]}"


class ControllersRunError(Exception):
    """The real cluster runs controllers, whose writes in between would be compared as answers."""


class Comparison:
    """The differential test on two API servers, with a namespace that no run had before."""

    def __init__(self, ours: ClusterClient, real: ClusterClient, rng: random.Random) -> None:
        self._sides = (ours, real)
        self._rng = rng
        self.namespace = f"diff-{secrets.token_hex(4)}"  # a namespace of a former run still terminates
        self.requests = 0

    def prepare(self) -> None:
        """Create the namespace, its default ServiceAccount and the custom resource definition on both sides.

        Raise ControllersRunError when a controller filled the real namespace.
        """
        self._both("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self._both("POST", accounts, {"metadata": {"name": "default"}})
        definition = next(seed for seed in read_seeds() if seed.resource == "customresourcedefinitions")
        body = {"apiVersion": definition.api_version, **definition.body, "metadata": {"name": definition.name}}
        self._both("POST", f"{definition.path}/{definition.resource}", body)
        time.sleep(3)  # until the definition is established and the ServiceAccount known to admission
        root_authority = f"/api/v1/namespaces/{self.namespace}/configmaps/kube-root-ca.crt"
        if self._sides[1].send(Request("setup", "GET", root_authority)).status == 200:
            raise ControllersRunError("the real cluster runs controllers; start it with NOCTRL=1 NOKUBELET=1")

    def clean(self) -> None:
        """Delete on both sides what the test created; the definition stays, others may run at the same time."""
        for seed in read_seeds():
            if not seed.dry:
                self._both("DELETE", f"{seed.collection(self.namespace)}?labelSelector={_LABEL}", None)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self._both("DELETE", f"/api/v1/namespaces/{self.namespace}", None)
        self._both("PUT", f"/api/v1/namespaces/{self.namespace}/finalize", namespace)  # no controller does it

    def _both(self, method: str, path: str, body: Any) -> None:
        for side in self._sides:
            side.send(Request("setup", method, path, body))

    def run(self, seeds: list[Seed], requests: int) -> Iterator[Difference]:
        """Send scenarios until ``requests`` requests were compared; a scenario ends at its first difference."""
        number = 0
        while self.requests < requests:
            scenario = Scenario(seeds[number % len(seeds)], self.namespace, number, self._rng)
            number += 1
            before: list[Request] = []
            for request in scenario.requests():
                self.requests += 1
                ours, real = (side.send(request) for side in self._sides)
                found = tuple(differences(request, ours, real))
                if found:
                    yield Difference(request, ours, real, found, tuple(before))
                    if not scenario.seed.dry:
                        self._both("DELETE", scenario.object, None)
                    break
                before.append(request)


@functools.cache
def _explained() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = yaml.safe_load(Path(__file__).with_name("known.yaml").read_text(encoding="utf-8"))
    return entries


def known(difference: Difference) -> str:
    """Return the reason of an explained difference, empty for an unexplained one."""
    return next((entry["reason"] for entry in _explained() if _explains(entry, difference)), "")


def unseen(found: list[Difference]) -> list[str]:
    """Return the patterns of explanations that match none of the differences: after a long run they are outdated."""
    return [entry["match"] for entry in _explained() if not any(_explains(entry, one) for one in found)]


def _explains(entry: dict[str, str], difference: Difference) -> bool:
    return bool(re.search(entry["match"], "\n".join((difference.key, *difference.found))))


def compare(kubeconfig: Path, requests: int, seed: int, resource: str = "") -> tuple[int, list[Difference]]:
    """Return how many requests were compared and the differences between a new sandbox and a real cluster."""
    with Sandbox(controllers=False) as sandbox:
        ours, real = ClusterClient(sandbox.url, sandbox.token), real_cluster(kubeconfig)
        comparison = Comparison(ours, real, random.Random(seed))
        try:
            comparison.prepare()
            seeds = [one for one in read_seeds() if not resource or one.resource == resource]
            found = list(comparison.run(seeds, requests))
        finally:
            comparison.clean()
            ours.close()
            real.close()
    return comparison.requests, found


def main(arguments: list[str]) -> int:
    """Print the rate and the unexplained differences by class; the first of each with its request."""
    requests, seed = (int(arg) for arg in (*arguments[1:3], "1000", "1")[:2]) if len(arguments) > 2 else (1000, 1)
    total, found = compare(Path(arguments[0]), requests, seed, arguments[3] if len(arguments) > 3 else "")
    unexplained = [one for one in found if not known(one)]
    classes = Counter(one.key for one in unexplained)
    first = {one.key: one for one in reversed(unexplained)}
    for key, count in classes.most_common():
        one = first[key]
        print(f"{count:4} {key}")
        for line in one.found[:4]:
            print("       ", line[:500])
        print("        ", one.request.method, one.request.path, json.dumps(one.request.body)[:1500], one.request.media)
    print(f"{total} requests, {len(found)} differ ({len(found) / total:.2%}), {len(unexplained)} unexplained")
    for match in unseen(found):
        print(f"explained but not seen: {match}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
