"""Ownership is transferred exactly where a removal in Git would otherwise have no effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.objects.keys import APPLICATION_LABEL, FIELD_MANAGER, LAST_APPLIED
from gitsync.objects.manifest import Manifest
from gitsync.plan.ownership import APPLIERS, Transfer, at_version, transfer

DATA = {"f:data": {"f:a": {}, "f:b": {}}}
OURS = {"f:data": {"f:a": {}}}


def entry(manager: str, fields: dict[str, Any], operation: str = "Apply", **members: str) -> dict[str, Any]:
    made = {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**made, **members}


def live(*entries: dict[str, Any], annotations: dict[str, str] | None = None) -> Manifest:
    metadata: dict[str, Any] = {"name": "c", "namespace": "n", "managedFields": list(entries)}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "b": "2"}}


def done(found: Transfer | None) -> dict[str, Any]:
    assert found is not None
    return {item["manager"]: item["fieldsV1"] for item in found.managed_fields}


@pytest.mark.parametrize("manager", sorted(APPLIERS))
def test_the_fields_of_an_applier_become_ours(manager: str) -> None:
    found = transfer(live(entry(manager, DATA), entry(FIELD_MANAGER, OURS)), "v1", None)
    assert done(found) == {FIELD_MANAGER: DATA}
    assert found is not None
    assert found.reason == f"takes over the fields applied by {manager}"


def test_an_object_that_we_never_applied_gets_an_entry_of_ours() -> None:
    found = transfer(live(entry("helm", DATA, time="2026-01-02T03:04:05Z")), "v1", None)
    assert found is not None
    assert found.managed_fields == (entry(FIELD_MANAGER, DATA, time="2026-01-02T03:04:05Z"),)


def test_the_fields_become_those_of_the_manager_that_applies() -> None:
    agents = entry("gitsync-agents", OURS)
    found = transfer(live(entry("helm", DATA), agents), "v1", None, manager="gitsync-agents")
    assert done(found) == {"gitsync-agents": DATA}
    # an Application that declares the same object keeps what it applied
    ours = entry(FIELD_MANAGER, OURS)
    found = transfer(live(entry("helm", DATA), ours), "v1", None, manager="gitsync-agents")
    assert done(found) == {"gitsync-agents": DATA, FIELD_MANAGER: OURS}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(entry("kubectl-edit", DATA, "Update"), id="a person's edit"),
        pytest.param(entry("my-operator", DATA), id="an unknown applier"),
        pytest.param(entry("kubectl", {"f:status": {}}, subresource="status"), id="a subresource"),
        pytest.param({**entry("helm", DATA), "apiVersion": "v2"}, id="another version"),
    ],
)
def test_other_entries_stay(other: dict[str, Any]) -> None:
    assert transfer(live(other, entry(FIELD_MANAGER, OURS)), "v1", None) is None
    found = transfer(live(other, entry("argocd-controller", DATA)), "v1", None)
    assert found is not None
    assert other in found.managed_fields


def test_an_entry_of_an_updater_is_spelled_as_an_applier_spells_it() -> None:
    fields = {"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {".": {}}}}
    found = transfer(live(entry("kubectl-create", fields, "Update")), "v1", None)
    assert done(found) == {FIELD_MANAGER: {**DATA, "f:metadata": {"f:labels": {".": {}}}}}


def test_only_what_was_applied_is_taken_from_a_client_side_apply() -> None:
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"a": "1"}}
    fields = {
        "f:data": {".": {}, "f:a": {}, "f:b": {}},
        "f:metadata": {"f:annotations": {".": {}, f"f:{LAST_APPLIED}": {}}},
    }
    found = transfer(
        live(entry("kubectl-client-side-apply", fields, "Update"), annotations={LAST_APPLIED: json.dumps(applied)}),
        "v1",
        None,
    )
    assert done(found) == {FIELD_MANAGER: OURS}


def test_an_object_keeps_an_entry_where_only_the_last_applied_configuration_was_owned() -> None:
    """The API server would give all fields to "before-first-apply" at the next apply, as if others had set them."""
    only = {"f:metadata": {"f:annotations": {".": {}, f"f:{LAST_APPLIED}": {}}}}
    client_side = entry("kubectl-client-side-apply", only, "Update")
    annotations = {LAST_APPLIED: json.dumps({"metadata": {"name": "c"}})}
    mark = {"f:metadata": {"f:labels": {f"f:{APPLICATION_LABEL}": {}}}}
    status = entry("kubectl", {"f:status": {}}, "Update", subresource="status")

    assert done(transfer(live(client_side, annotations=annotations), "v1", None)) == {FIELD_MANAGER: mark}
    assert done(transfer(live(client_side, status, annotations=annotations), "v1", None)) == {
        "kubectl": {"f:status": {}}
    }


def test_a_field_left_to_others_is_given_up() -> None:
    path = ("f:data", "f:b")
    found = transfer(live(entry(FIELD_MANAGER, DATA)), "v1", None, ignored=[path])
    assert done(found) == {FIELD_MANAGER: OURS}
    assert found is not None
    assert found.reason == "leaves .data.b to other managers"
    assert transfer(live(entry(FIELD_MANAGER, OURS)), "v1", None, ignored=[path]) is None


def test_nothing_is_transferred_where_every_owner_is_right() -> None:
    assert transfer(live(entry(FIELD_MANAGER, DATA), entry("hpa", OURS, "Update")), "v1", None) is None
    assert transfer(live(), "v1", None) is None


def test_our_fields_move_to_another_version() -> None:
    theirs = entry("kubectl-edit", DATA, "Update")
    moved = at_version(live(entry(FIELD_MANAGER, OURS), theirs), FIELD_MANAGER, "v2")
    assert moved == (entry(FIELD_MANAGER, OURS, apiVersion="v2"), theirs)


def test_fields_at_a_removed_version_move_whoever_owns_them() -> None:
    theirs = entry("their-operator", DATA, "Update")
    status = entry("their-operator", DATA, "Update", subresource="status")
    found = live(entry(FIELD_MANAGER, OURS, apiVersion="v2"), theirs, status)
    moved = at_version(found, FIELD_MANAGER, "v2", "v1")
    assert moved is not None
    assert [(item["manager"], item["apiVersion"]) for item in moved] == [
        (FIELD_MANAGER, "v2"),
        ("their-operator", "v2"),
        ("their-operator", "v2"),
    ]


def test_fields_of_the_same_version_do_not_move() -> None:
    assert at_version(live(entry(FIELD_MANAGER, OURS)), FIELD_MANAGER, "v1") is None
    assert at_version({}, FIELD_MANAGER, "v1") is None
