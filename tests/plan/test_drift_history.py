"""The history of drift as links of the audit: written when drift ends, and read back by field."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from gitsync.objects.change import ABSENT, Action, Change, Difference, FieldDifference, FieldOwner, Risk
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import (
    AuditedWrite,
    EndedBy,
    OpenDrift,
    OpenFinding,
    audited_writes,
    edit_link,
    ended_finding_link,
    ended_link,
    past_fields,
    person_of,
    sent_writes,
    writes_of,
)
from gitsync.plan.running import RunningFinding, RunningKind
from tests.fakes.ports import START

WEB = ObjectRef("apps", "Deployment", "shop", "web")
EDITOR = FieldOwner("kubectl-edit", "Update", "2026-11-20T09:59:00Z")
FIELD = FieldDifference(".spec.replicas", "/spec/replicas", Difference.CHANGED, 2, 7, (EDITOR,))
LABEL = FieldDifference(".metadata.labels.a", "/metadata/labels/a", Difference.FOREIGN, ABSENT, "b", (EDITOR,))
STEP = Change(WEB, Action.UPDATE, Risk.SAFE, "repairs", "restores", differences=(FIELD, LABEL))
END = START + timedelta(seconds=5)


def test_a_link_has_each_field_that_drifted() -> None:
    link = ended_link("gitsync/shop", OpenDrift(STEP, START), END, EndedBy.SELF_HEAL)
    assert (link.action, link.resource, link.duration_ms) == ("drift", WEB.path, 5000)
    (field,) = past_fields([link])
    assert (field.ref, field.path, field.declared, field.changed_to) == (WEB, ".spec.replicas", 2, 7)
    assert (field.manager, field.by, field.detected, field.ended) == ("kubectl-edit", "self-heal", START, END)
    assert field.seconds == 65.0  # from the edit


def test_without_the_time_of_the_edit_its_detection_counts() -> None:
    scaled = replace(FIELD, owners=(FieldOwner("kubectl", "Update", "", "scale"),))
    link = ended_link("gitsync/shop", OpenDrift(replace(STEP, differences=(scaled,)), START), END, EndedBy.SYNC)
    (field,) = past_fields([link])
    assert (field.edited, field.seconds) == (None, 5.0)


def test_an_edit_from_the_future_took_no_time() -> None:
    ahead = replace(FIELD, owners=(replace(EDITOR, time="2026-11-20T10:01:00Z"),))
    link = ended_link("gitsync/shop", OpenDrift(replace(STEP, differences=(ahead,)), START), END, EndedBy.OTHERS)
    assert [field.seconds for field in past_fields([link])] == [0.0]


def test_a_deleted_object_is_one_entry_without_a_field() -> None:
    deleted = replace(STEP, action=Action.CREATE, differences=())
    (field,) = past_fields([ended_link("gitsync/shop", OpenDrift(deleted, START), END, EndedBy.SELF_HEAL)])
    # what was there is named
    assert (field.path, field.declared, field.changed_to, field.manager) == ("", "Deployment shop/web", None, "")


def event(**members: Any) -> bytes:
    """Return an event of an audit log: the write of the field, but for some members."""
    return orjson.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "stage": "ResponseComplete",
            "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=kubectl-edit",
            "verb": "patch",
            "user": {"username": "ada"},
            "userAgent": "kubectl/v1.36.2 (linux/amd64)",
            "objectRef": {"resource": "deployments", "namespace": "shop", "name": "web", "apiGroup": "apps"},
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": "2026-11-20T09:59:00.150307Z",
            **members,
        }
    )


def person(step: Change, *lines: bytes) -> str:
    """Return who an audit log names for the only field of a step."""
    (field,) = past_fields([ended_link("gitsync/shop", OpenDrift(step, START), END, EndedBy.SELF_HEAL)])
    return person_of(field, tuple(audited_writes(lines, {("shop", "web")})))


def test_the_audit_log_names_the_person_of_a_write() -> None:
    assert person(STEP, b"{", b"null\n", event()) == "ada"
    assert person(STEP, event(impersonatedUser={"username": "bob"})) == "bob (by ada)"


@pytest.mark.parametrize(
    "members",
    [
        {"verb": "get"},
        {"stage": "RequestReceived"},
        {"responseStatus": {"code": 409}},
        {"requestReceivedTimestamp": "2026-11-20T09:58:00Z"},
        {"requestURI": "/apis/apps/v1/namespaces/shop/deployments/web"},  # another manager: kubectl
        {"objectRef": {"resource": "deployments", "namespace": "shop", "name": "api", "apiGroup": "apps"}},
        {"objectRef": {"resource": "statefulsets", "namespace": "shop", "name": "web", "apiGroup": "apps"}},
        {"objectRef": None},
        {"user": None},
    ],
)
def test_another_request_names_no_person(members: dict[str, Any]) -> None:
    assert person(STEP, event(**members)) == ""


def test_the_person_of_a_deletion_is_that_of_the_delete() -> None:
    deleted = replace(STEP, action=Action.CREATE, differences=())
    times = [f"2026-11-20T{time}Z" for time in ("09:59:55", "09:59:58")]
    edit, delete = event(requestReceivedTimestamp=times[1]), event(verb="delete", requestReceivedTimestamp=times[0])
    assert person(deleted, delete, edit) == "ada"
    assert person(deleted, edit) == ""


def test_what_a_pod_ran_is_an_entry_of_its_workload() -> None:
    pod = ObjectRef("", "Pod", "shop", "web-1")
    finding = RunningFinding(RunningKind.MODIFIED, pod, "u", "has the ephemeral container debug", "", EDITOR.time)
    link = ended_finding_link("gitsync/shop", OpenFinding(WEB, finding, START, EndedBy.SYNC), END)
    (field,) = past_fields([link])
    assert (field.ref, field.pod, field.path, field.changed_to) == (WEB, "web-1", "modified", finding.message)
    assert (field.by, field.detected, field.ended, field.seconds) == ("sync", START, END, 65.0)


def test_a_moved_tag_counts_from_its_detection() -> None:
    pod = ObjectRef("", "Pod", "shop", "web-1")
    finding = RunningFinding(RunningKind.IMAGE, pod, "u", "the tag moved", "", "2026-11-01T00:00:00Z")
    (field,) = past_fields([ended_finding_link("gitsync/shop", OpenFinding(WEB, finding, START), END)])
    assert (field.by, field.seconds) == ("others", 5.0)


def test_values_of_secrets_are_masked() -> None:
    secret = replace(STEP, ref=ObjectRef("", "Secret", "shop", "key"))
    hidden = replace(FIELD, path=".data.token", pointer="/data/token", desired="b3Vycw==", live="ZXZpbA==")
    link = ended_link("gitsync/shop", OpenDrift(replace(secret, differences=(hidden,)), START), END, EndedBy.SELF_HEAL)
    assert "ZXZpbA" not in str(link)
    assert "b3Vycw" not in str(link)


def sent(**members: Any) -> list[AuditedWrite]:
    """Return what the audit sink takes from one event."""
    return list(sent_writes([orjson.loads(event(**members))]))


POD_TARGET = {"resource": "pods", "namespace": "shop", "name": "web-1"}


def test_an_edit_that_was_sent_names_the_person_of_a_field() -> None:
    (write,) = sent()
    link = edit_link("gitsync/shop", WEB, write, END)
    (field,) = past_fields([ended_link("gitsync/shop", OpenDrift(STEP, START), END, EndedBy.SELF_HEAL)])
    assert person_of(field, list(writes_of([link]))) == "ada"


@pytest.mark.parametrize("stage", ["ResponseStarted", "ResponseComplete"])
@pytest.mark.parametrize("verb", ["exec", "attach"])
def test_what_runs_in_a_pod_is_taken_when_it_begins(stage: str, verb: str) -> None:
    target = {**POD_TARGET, "subresource": verb}
    (write,) = sent(verb="get", stage=stage, objectRef=target, responseStatus={"code": 101})
    assert (write.is_in_pod, write.verb, write.name, write.person) == (True, verb, "web-1", "ada")
    (back,) = writes_of([edit_link("gitsync/shop", WEB, write, END)])
    assert (back.is_in_pod, back.name) == (True, "web-1")
    (field,) = past_fields([ended_link("gitsync/shop", OpenDrift(STEP, START), END, EndedBy.SELF_HEAL)])
    assert person_of(field, [back]) == "", "it changed no object"


@pytest.mark.parametrize(
    "members",
    [
        {"objectRef": {**POD_TARGET, "subresource": "exec"}, "responseStatus": {"code": 403}},
        {"objectRef": {**POD_TARGET, "subresource": "log"}},
        {"objectRef": {"resource": "deployments", "namespace": "shop", "name": "web", "subresource": "status"}},
        {"verb": "list"},
        {"requestReceivedTimestamp": "yesterday"},
    ],
    ids=["forbidden", "a log", "a status", "a read", "no time"],
)
def test_what_changes_nothing_is_left_out(members: dict[str, Any]) -> None:
    assert sent(**members) == []
