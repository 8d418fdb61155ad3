from __future__ import annotations

from gitsync.sandbox.crd import status_of
from gitsync.sandbox.crd.naming import is_established
from tests.sandbox.crd.factories import definition

NOW, LATER = "2024-01-02T03:04:05Z", "2024-01-02T03:05:05Z"


def test_free_names_are_accepted_and_the_definition_is_established() -> None:
    crd = definition()
    status = status_of(crd, [crd], NOW)
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert status["acceptedNames"] == crd["spec"]["names"]
    assert status["storedVersions"] == ["v1"]
    assert is_established({**crd, "status": status})
    assert status_of({**crd, "status": status}, [crd], LATER) == status


def test_names_of_another_definition_of_the_group_conflict() -> None:
    first = definition()
    first["status"] = status_of(first, [], NOW)
    second = definition()
    second["metadata"] = {"name": "gadgets.example.com"}
    second["spec"] = {**second["spec"], "names": {**second["spec"]["names"], "plural": "gadgets"}}
    status = status_of(second, [first, second], NOW)
    assert status["acceptedNames"] == {"plural": "gadgets", "kind": ""}
    assert [(c["status"], c["reason"], c["message"]) for c in status["conditions"]] == [
        ("False", "ListKindConflict", '"WidgetList" is already in use'),
        ("False", "NotAccepted", "not all names are accepted"),
    ]
    assert not is_established({**second, "status": status})
    freed = status_of({**second, "status": status}, [second], LATER)
    assert is_established({**second, "status": freed})


def test_another_group_takes_no_names() -> None:
    first = definition()
    first["status"] = status_of(first, [], NOW)
    second = definition()
    second["metadata"] = {"name": "widgets.other.com"}
    second["spec"] = {**second["spec"], "group": "other.com"}
    assert is_established({**second, "status": status_of(second, [first, second], NOW)})
