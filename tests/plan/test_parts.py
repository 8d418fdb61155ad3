"""Which steps of a plan can run without the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.plan.parts import Choice, chosen_part, closure, needs_by_step, part_of


def manifest(kind: str, name: str, api: str = "v1", **members: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, **members}


def workload(name: str, settings: str) -> Manifest:
    container = {"name": "a", "envFrom": [{"configMapRef": {"name": settings}}]}
    return manifest("Deployment", name, "apps/v1", spec={"template": {"spec": {"containers": [container]}}})


def step(action: Action, desired: Manifest | None, live: Manifest | None = None, **members: Any) -> Change:
    return Change(ref_of(desired or live or {}), action, desired=desired, live=live, **members)


def plan(*steps: Change) -> Plan:
    return Plan("gitsync/shop", "c" * 40, steps, "d" * 64, Risk.DANGEROUS)


OLD, NEW = manifest("ConfigMap", "settings-2222222222"), manifest("ConfigMap", "settings-4444444444")
CREATE = step(Action.CREATE, NEW, follows=ref_of(OLD))
PRUNE = step(Action.PRUNE, None, OLD)
ROLLOUT = step(Action.UPDATE, workload("web", NEW["metadata"]["name"]), workload("web", OLD["metadata"]["name"]))
OTHER = step(Action.UPDATE, manifest("ConfigMap", "other"), manifest("ConfigMap", "other"))
VOLUME = step(Action.PRUNE, None, manifest("PersistentVolumeClaim", "data"), risk=Risk.DANGEROUS)


def names(given: Plan, *selected: Change) -> list[str]:
    return sorted(ref.name for ref in closure((item.ref for item in selected), needs_by_step(given)))


@pytest.mark.parametrize("selected", [CREATE, PRUNE, ROLLOUT], ids=["the new one", "the old one", "the workload"])
def test_a_generated_object_its_predecessor_and_its_users_go_together(selected: Change) -> None:
    found = names(plan(CREATE, ROLLOUT, PRUNE, OTHER, VOLUME), selected)
    assert found == ["settings-2222222222", "settings-4444444444", "web"]


@pytest.mark.parametrize("selected", [OTHER, VOLUME])
def test_what_nothing_refers_to_is_independent(selected: Change) -> None:
    assert names(plan(CREATE, ROLLOUT, PRUNE, OTHER, VOLUME), selected) == [selected.ref.name]


def test_an_object_needs_its_namespace_and_the_definition_of_its_kind() -> None:
    namespace = step(Action.CREATE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, stage=1)
    names_of = {"kind": "Widget", "plural": "widgets"}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    spec = {"group": "example.com", "names": names_of}
    crd = step(Action.CREATE, {**definition, "metadata": {"name": "widgets.example.com"}, "spec": spec}, stage=1)
    widget = step(Action.CREATE, manifest("Widget", "w", "example.com/v1"), stage=3)
    assert names(plan(namespace, crd, widget), widget) == ["shop", "w", "widgets.example.com"]
    assert names(plan(namespace, crd, widget), namespace) == ["shop"]


def test_a_deleted_namespace_takes_what_is_in_it() -> None:
    namespace = step(Action.PRUNE, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    assert names(plan(namespace, VOLUME), namespace) == ["data", "shop"]
    assert names(plan(namespace, VOLUME), VOLUME) == ["data"]


def test_a_later_wave_needs_the_earlier_ones_and_a_role_binding_its_role() -> None:
    first = step(Action.UPDATE, manifest("ConfigMap", "first"), stage=3, wave=0)
    second = step(Action.UPDATE, manifest("ConfigMap", "second"), stage=3, wave=1)
    assert names(plan(first, second), second) == ["first", "second"]
    assert names(plan(first, second), first) == ["first"]
    rbac = "rbac.authorization.k8s.io/v1"
    role = step(Action.UPDATE, manifest("Role", "reader", rbac))
    binding = step(Action.CREATE, manifest("RoleBinding", "bound", rbac, roleRef={"kind": "Role", "name": "reader"}))
    assert names(plan(role, binding), binding) == ["bound", "reader"]


def test_a_part_keeps_hooks_and_digest_and_has_a_class_of_its_own() -> None:
    hook = step(Action.HOOK, manifest("Job", "check", "batch/v1"))
    calm = step(Action.NOTHING, manifest("ConfigMap", "calm"))
    given = plan(hook, OTHER, VOLUME, calm)
    part = part_of(given, [OTHER.ref.path], 10)
    assert [item.ref.name for item in part.changes] == ["check", "other", "calm"]
    assert (part.digest, part.risk) == (given.digest, Risk.SAFE)
    assert part.explanation != given.explanation


def test_a_chosen_part_has_no_hooks_and_deletes_on_request_only() -> None:
    hook = step(Action.HOOK, manifest("Job", "hook", "batch/v1"))
    kept = step(Action.UPDATE, manifest("ConfigMap", "kept"), manifest("ConfigMap", "kept"))
    gone = step(Action.PRUNE, None, manifest("ConfigMap", "gone"))
    other = step(Action.CREATE, manifest("ConfigMap", "other"))
    whole = plan(hook, kept, gone, other)
    choice = Choice(frozenset({kept.ref, gone.ref}), whole.revision)
    assert chosen_part(whole, choice, 5).writes == (kept,)
    assert chosen_part(whole, replace(choice, prune=True), 5).writes == (kept, gone)
    assert chosen_part(whole, replace(choice, revision="another"), 5).writes == ()
    assert chosen_part(whole, choice, 5).digest == whole.digest


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"objects": ["ConfigMap"], "revision": ""}', '{"objects": 1, "revision": ""}']
)
def test_an_annotation_of_another_form_chooses_nothing(text: str) -> None:
    assert Choice.from_annotation(text) == Choice(frozenset())


def test_a_choice_is_read_as_it_was_written() -> None:
    choice = Choice(frozenset({ref_of(manifest("ConfigMap", "a"))}), "c" * 40, replace=True, by="ada")
    assert Choice.from_annotation(choice.to_annotation()) == choice
