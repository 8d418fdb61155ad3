"""Scenarios: sequences of requests about one object, generated from a seed object and a random number generator."""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gitsync.kube.openapi import openapi_schemas
from tests.sandbox.differential.mutations import REMOVE, Mutation, mutate, resolved

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

_LIST_QUERIES = (
    "limit=1",
    "limit=-1",
    "limit=x",
    "labelSelector=a%20in%20(b)",
    "labelSelector=bad((",
    "fieldSelector=foo%3Dbar",
    "fieldSelector=metadata.name%3D{name}",
    "continue=garbage",
    "resourceVersion=abc",
    "resourceVersion=0",
    "resourceVersion=1&resourceVersionMatch=Exact",
    "resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=Bad",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "sendInitialEvents=true",
    "timeoutSeconds=x",
    "watch=1&resourceVersion=abc&timeoutSeconds=1",
    "watch=1&sendInitialEvents=true&timeoutSeconds=1",
    "watch=1&fieldSelector=foo%3Dbar&timeoutSeconds=1",
    "watch=1&limit=x&timeoutSeconds=1",
    "watch=1&resourceVersionMatch=Exact&timeoutSeconds=1",
    "watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
    "watch=1&sendInitialEvents=x&timeoutSeconds=1",
)
_DELETE_BODIES: tuple[Any, ...] = (
    None,
    {"propagationPolicy": "Bad"},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Orphan"},
    {"gracePeriodSeconds": "x"},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": -1},
    {"preconditions": {"uid": "other"}},
    {"preconditions": {"resourceVersion": "1"}},
    {"preconditions": "x"},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"orphanDependents": False},
    {"dryRun": ["Bad"]},
    {"dryRun": ["All"]},
    {"kind": "Other", "apiVersion": "v1"},
    {"unknownMember": 1},
)


@dataclass(frozen=True, slots=True)
class Seed:
    """A kind to test: where it is served, a valid object, and the subresources to write."""

    path: str
    resource: str
    body: dict[str, Any]
    scope: str = "Namespaced"
    name: str = ""
    status: bool = False
    scale: bool = False
    dry: bool = False

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return self.path.removeprefix("/apis/").removeprefix("/api/")

    def collection(self, namespace: str) -> str:
        """Return the path of its objects in a namespace, of all of them where it has none."""
        return f"{self.path}/{'' if self.scope == 'Cluster' else f'namespaces/{namespace}/'}{self.resource}"

    def schemas(self) -> tuple[Mapping[str, Any], Any]:
        """Return all schemas of its group version and the one of the kind; empty ones for a custom resource."""
        try:
            schemas = openapi_schemas(self.api_version)
        except KeyError:
            return {}, {}
        group = self.api_version.rpartition("/")[0]
        wanted = {"group": group, "kind": self.body["kind"], "version": self.api_version.rpartition("/")[2]}
        found = [one for one in schemas.values() if wanted in one.get("x-kubernetes-group-version-kind", ())]
        return schemas, found[0] if found else {}


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``{ns}`` and ``{name}`` are already filled in. ``about`` is its class in the report."""

    about: str
    method: str
    path: str
    body: Any = None
    media: str = JSON
    accept: str = JSON
    of: Seed | None = field(default=None, compare=False)


@functools.cache
def read_seeds() -> tuple[Seed, ...]:
    """Return the seeds of the data file."""
    text = Path(__file__).with_name("seeds.yaml").read_text(encoding="utf-8")
    return tuple(Seed(**entry) for entry in yaml.safe_load(text))


class Scenario:
    """Generate the requests of one scenario."""

    def __init__(self, seed: Seed, namespace: str, number: int, rng: random.Random) -> None:
        self.seed, self.rng = seed, rng
        self.name = seed.name or f"{namespace}-{number}"
        self.collection = seed.collection(namespace)
        self.object = f"{self.collection}/{self.name}"
        metadata = {"name": self.name, "labels": {"differential": "yes"}, "annotations": {"note": "n"}}
        text = json.dumps({"apiVersion": seed.api_version, **seed.body, "metadata": metadata})
        self.body = json.loads(text.replace("{ns}", namespace))
        self.schemas, self.schema = seed.schemas()

    def requests(self) -> Iterator[Request]:
        """Yield the requests: a refused or odd create, or a valid create and operations on the object."""
        if self.seed.dry or self.rng.random() < 0.4:
            yield self._create(self._mutated())
        else:
            yield self._apply("diff-a", self.body) if self.rng.random() < 0.5 else self._create(self.body)
            for _ in range(self.rng.randrange(2, 7)):
                yield self.rng.choice(self._operations())()
        if not self.seed.dry:
            yield self._request("delete", "DELETE", self.object)

    def _operations(self) -> list[Callable[[], Request]]:
        operations = [
            self._get, self._list, self._put, self._put, self._merge, self._merge, self._strategic, self._strategic,
            self._json_patch, self._json_patch, self._apply_own, self._apply_own, self._apply_other, self._apply_other,
            self._delete, self._unsupported,
        ]  # fmt: skip
        if self.seed.status:
            operations += [self._status, self._status]
        if self.seed.scale:
            operations += [self._scale, self._scale]
        return operations

    def _request(self, about: str, method: str, path: str, query: str = "", body: Any = None, **more: str) -> Request:
        cautious = self.seed.dry or (self.seed.scope == "Cluster" and about not in ("create", "apply", "delete"))
        if cautious and method not in ("GET", "DELETE"):
            query = "&".join(filter(None, (query, "dryRun=All")))
        if method in ("POST", "PUT") or (method == "PATCH" and "fieldManager" not in query):
            query = "&".join(filter(None, (query, "fieldManager=diff-a")))
        return Request(about, method, f"{path}?{query}" if query else path, body, of=self.seed, **more)

    def _mutation(self) -> Mutation:
        return mutate(self.body, self.schemas, self.schema, self.rng)

    def _mutated(self) -> Any:
        body = self.body
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            body = mutate(body, self.schemas, self.schema, self.rng).applied(body)
        return body

    def _create(self, body: Any) -> Request:
        query = self.rng.choice(("", "", "fieldValidation=Strict", "fieldValidation=Ignore"))
        about = "create" if body is self.body else "create-odd"
        return self._request(about, "POST", self.collection, query, body)

    def _get(self) -> Request:
        table = self.rng.random() < 0.5
        return self._request("table" if table else "get", "GET", self.object, accept=TABLE if table else JSON)

    def _list(self) -> Request:
        query = self.rng.choice(_LIST_QUERIES).replace("{name}", self.name)
        return self._request("list-params", "GET", self.collection, query)

    def _put(self) -> Request:
        body = self.body if self.rng.random() < 0.2 else self._mutated()
        return self._request("update", "PUT", self.object, "", body)

    def _merge(self) -> Request:
        return self._request("merge-patch", "PATCH", self.object, "", self._partial(), media=MERGE)

    def _strategic(self) -> Request:
        return self._request("strategic-patch", "PATCH", self.object, "", self._partial(), media=STRATEGIC)

    def _partial(self) -> Any:
        """Return a patch: the mutated member with its ancestors, whole lists where the path crosses one."""
        mutation = self._mutation()
        changed = mutation.applied(self.body)
        path = next((mutation.path[:n] for n, part in enumerate(mutation.path) if isinstance(part, int)), mutation.path)
        value: Any = changed
        for part in path:
            value = value.get(part) if isinstance(value, dict) else value
        for part in reversed(path):
            value = {part: value}
        return value

    def _json_patch(self) -> Request:
        mutation = self._mutation()
        pointer = "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in mutation.path)
        operation = self.rng.choice(("replace", "add", "remove", "test", "copy", "bad"))
        change: dict[str, Any] = {"op": operation, "path": pointer}
        if operation in ("replace", "add", "test"):
            change["value"] = None if mutation.value is REMOVE else mutation.value
        if operation == "copy":
            change["from"] = "/metadata/labels"
        return self._request("json-patch", "PATCH", self.object, "", [change], media=JSON_PATCH)

    def _apply(self, manager: str, body: Any, force: bool = False) -> Request:
        query = f"fieldManager={manager}" + ("&force=true" if force else "")
        about = "apply" if body is self.body else "apply-odd"
        return self._request(about, "PATCH", self.object, query, body, media=APPLY)

    def _apply_own(self) -> Request:
        return self._apply("diff-a", self._mutated(), self.rng.random() < 0.3)

    def _apply_other(self) -> Request:
        return self._apply("diff-b", self._mutated(), self.rng.random() < 0.3)

    def _delete(self) -> Request:
        body = self.rng.choice(_DELETE_BODIES)
        if body is not None:  # options in the query are ignored beside a body
            body = {"dryRun": ["All"], **body}
        return self._request("delete-options", "DELETE", self.object, "dryRun=All", body)

    def _unsupported(self) -> Request:
        media = self.rng.choice(("application/json", "text/plain", STRATEGIC, "application/apply-patch+cbor", ""))
        return self._request("media-type", "PATCH", self.object, "", {"metadata": {"labels": {"m": "n"}}}, media=media)

    def _status(self) -> Request:
        schema = resolved(self.schemas, self.schema).get("properties", {}).get("status")
        body = copy.deepcopy(self.body)
        if schema is None:
            odd = ({"phase": "Ready"}, {"phase": "x"}, {"replicas": "x"}, None, {"a": 1}, [])
            body["status"] = self.rng.choice(odd)
        else:
            properties = resolved(self.schemas, schema).get("properties", {})
            name = self.rng.choice(sorted(properties))
            body["status"] = {name: mutate({"x": 1}, {}, {}, self.rng).value if self.rng.random() < 0.4 else 1}
            if body["status"][name] is REMOVE:
                body["status"] = {}
        path = f"{self.object}/status"
        way = self.rng.randrange(3)
        if way == 0:
            return self._request("status-update", "PUT", path, "", body)
        if way == 1:
            return self._request("status-merge", "PATCH", path, "", {"status": body["status"]}, media=MERGE)
        return self._request("status-apply", "PATCH", path, "fieldManager=diff-s", body, media=APPLY)

    def _scale(self) -> Request:
        replicas = self.rng.choice((0, 1, 2, -1, "x", None, 2**31))
        scale: dict[str, Any] = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": self.name}}
        scale["spec"] = {"replicas": replicas}
        path = f"{self.object}/scale"
        way = self.rng.randrange(5)
        if way == 0:
            return self._request("scale-get", "GET", path)
        if way == 1:
            return self._request("scale-update", "PUT", path, "dryRun=All", scale)
        if way == 2:
            return self._request(
                "scale-merge", "PATCH", path, "dryRun=All", {"spec": {"replicas": replicas}}, media=MERGE
            )
        manager = self.rng.choice(("diff-a", "diff-b", "diff-b&force=true"))
        return self._request("scale-apply", "PATCH", path, f"fieldManager={manager}&dryRun=All", scale, media=APPLY)
