"""Custom resources whose stored version is not the requested one."""

from __future__ import annotations

import time
from typing import Any

from tests.sandbox.http_client import Client
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BASE = "/apis/versions.example.com"


def version(name: str, *, storage: bool, **members: dict[str, str]) -> dict[str, Any]:
    spec = {"type": "object", "properties": {key: {"type": "string", **extra} for key, extra in members.items()}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def define(api: Client) -> None:
    old = version("v1", storage=False, a={"default": "of v1"}, c={})
    new = version("v2", storage=True, b={"default": "of v2"}, c={"default": "of v2"})
    names = {"plural": "wids", "singular": "wid", "kind": "Wid", "listKind": "WidList"}
    spec = {"group": "versions.example.com", "scope": "Cluster", "names": names, "versions": [old, new]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "wids.versions.example.com"},
        "spec": spec,
    }
    assert api.ask("POST", DEFINITIONS, definition).status == 201
    deadline = time.monotonic() + 60
    while api.get(f"{BASE}/v2/wids").status != 200 and time.monotonic() < deadline:
        time.sleep(0.05)


def wid(name: str, of: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"versions.example.com/{of}", "kind": "Wid", "metadata": {"name": name}, "spec": spec}


def test_object_has_the_defaults_and_members_of_its_stored_version(api: Client) -> None:
    define(api)
    made = api.ask("POST", f"{BASE}/v1/wids", wid("first", "v1")).json
    assert made["spec"] == {"c": "of v2"}
    assert api.get(f"{BASE}/v1/wids/first").json["spec"] == {"c": "of v2"}
    assert api.get(f"{BASE}/v2/wids/first").json["spec"] == {"b": "of v2", "c": "of v2"}
    api.ask("POST", f"{BASE}/v2/wids", wid("second", "v2", b="given"))
    assert api.get(f"{BASE}/v1/wids/second").json["spec"] == {"c": "of v2"}
    assert [item["spec"] for item in api.get(f"{BASE}/v1/wids").json["items"]] == [{"c": "of v2"}] * 2
    assert api.get(f"{BASE}/v2/wids/second").json["spec"] == {"b": "given", "c": "of v2"}
    api.ask("DELETE", f"{DEFINITIONS}/wids.versions.example.com")


def test_groups_of_custom_resources_are_sorted_by_their_names(fresh: Client) -> None:
    """Of two kinds with one plural, kubectl takes that of the first group, whichever was defined first."""
    for group in ("gitsync.dev", "argoproj.io"):
        names = {"plural": "applications", "singular": "application", "kind": "Application", "listKind": "Applications"}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"applications.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": names,
                "versions": [version("v1alpha1", storage=True)],
            },
        }
        assert fresh.ask("POST", DEFINITIONS, definition).status == 201
    until(lambda: fresh.get("/apis/argoproj.io").status == fresh.get("/apis/gitsync.dev").status == 200)
    groups = [group["name"] for group in fresh.get("/apis").json["groups"]]
    assert groups.index("argoproj.io") < groups.index("gitsync.dev")
