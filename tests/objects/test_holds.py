"""Holds of fields in the annotations of an Application."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gitsync.objects.holds import LONGEST_HOLD, FieldHold, active_holds, field_key, held_fields, hold_manager, holds_of
from gitsync.objects.ref import ObjectRef

NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
WEB = ObjectRef("apps", "Deployment", "shop", "web")
HOLD = FieldHold(WEB, ".spec.replicas", NOW + timedelta(minutes=30), "ada", "incident 12")


def annotated(*holds: FieldHold, **others: str):
    return {"metadata": {"annotations": {hold.name: hold.to_annotation() for hold in holds} | others}}


def test_a_hold_is_read_back_from_its_annotation():
    other = replace(HOLD, field=".spec.paused")
    assert set(holds_of(annotated(HOLD, other))) == {HOLD, other}


def test_a_hold_of_the_same_field_replaces_the_one_before():
    longer = replace(HOLD, field="spec.replicas", until=NOW + timedelta(hours=2), by="bob")
    assert longer.name == HOLD.name
    assert replace(HOLD, ref=WEB._replace(name="api")).name != HOLD.name


def test_each_hold_has_a_field_manager_of_its_own():
    assert hold_manager(HOLD.name).startswith("gitsync-hold-")
    assert hold_manager(HOLD.name) != hold_manager(replace(HOLD, field=".spec.paused").name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "null",
        "{}",
        HOLD.to_annotation().replace("2026-03-01T03:30:00+00:00", "2026-03-01T03:30:00"),
        HOLD.to_annotation().replace("2026-03-01T03:30:00+00:00", "soon"),
        HOLD.to_annotation().replace("apps/Deployment/shop/web", "web"),
        HOLD.to_annotation().replace(".spec.replicas", "."),
    ],
)
def test_an_annotation_of_another_form_holds_nothing(text):
    assert holds_of(annotated(**{HOLD.name: text})) == ()


def test_a_hold_ends_by_itself():
    assert active_holds([HOLD], NOW) == (HOLD,)
    assert active_holds([HOLD], HOLD.until - timedelta(microseconds=1)) == (HOLD,)
    assert active_holds([HOLD], HOLD.until) == ()


def test_a_hold_without_an_end_in_sight_holds_nothing():
    """Requests refuse it; an annotation that was written by hand must not hold for ever."""
    assert active_holds([replace(HOLD, until=NOW + LONGEST_HOLD)], NOW)
    assert active_holds([replace(HOLD, until=NOW + LONGEST_HOLD + timedelta(seconds=1))], NOW) == ()


def test_the_held_fields_are_those_of_the_object():
    assert held_fields([HOLD], WEB) == {"spec.replicas"}
    assert held_fields([HOLD], WEB._replace(namespace="other")) == set()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("spec.replicas", ".spec.replicas"),
        ('.spec.containers[name="web"].image', "spec.containers[name=web].image"),
        ('.spec.ports[containerPort=80,protocol="TCP"]', 'spec.ports[protocol="TCP",containerPort="80"]'),
        (".metadata.annotations.example.com/team", 'metadata.annotations["example.com/team"]'),
        (".metadata.annotations.example.com/team", r"metadata.annotations.example\.com/team"),
        ('.spec.args[="-v"]', "spec.args[=-v]"),
    ],
)
def test_a_field_has_one_key_however_it_is_spelled(one, other):
    assert field_key(one) == field_key(other)


def test_fields_that_differ_have_keys_that_differ():
    fields = (".spec.a[name=x].b", ".spec.a[name=y].b", ".spec.a[name=x]", ".spec.a[0]", ".spec.a.b")
    assert len({field_key(field) for field in fields}) == len(fields)
