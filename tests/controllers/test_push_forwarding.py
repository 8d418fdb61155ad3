"""A push costs other replicas one notification for each branch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gitsync.controllers.push_forwarding import one_of_each
from gitsync.objects.application import parse_application
from gitsync.objects.manifest import Manifest
from gitsync.ports import ApplicationView

VALID = {
    "apiVersion": "gitsync.dev/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "shop", "namespace": "gitsync"},
    "spec": {"source": {"repoURL": "https://git.example.com/shop.git", "path": "shop"}},
}


def application(namespace: str = "gitsync", *, suspend: bool = False, **source: Any) -> Manifest:
    spec = {"source": {"repoURL": "https://git.example.com/shop.git", **source}, "suspend": suspend}
    return {"metadata": {"namespace": namespace}, "spec": spec}


def view(key: str) -> ApplicationView | None:
    """Return a view; the spec of an Application whose name begins with ``bad`` is invalid."""
    found = ApplicationView(key, parse_application(VALID), {}, (), None, None, datetime(2026, 1, 1, tzinfo=UTC))
    return replace(found, application=None) if key.startswith("bad") else found


def chosen(applications: dict[str, Manifest], owners: int = 1) -> list[str]:
    keys = list(applications)
    return sorted(one_of_each(applications.items(), lambda key: str(keys.index(key) % owners), view))


def test_a_thousand_applications_of_a_branch_are_one_notification_for_each_replica() -> None:
    many = {f"app-{number:04}": application(path=f"app-{number}") for number in range(1000)}
    assert chosen(many) == ["app-0000"]
    assert chosen(many, owners=3) == ["app-0000", "app-0001", "app-0002"]


def test_applications_that_share_no_poll_are_notified_apart() -> None:
    apart = {
        "a": application(),
        "b": application(revision="v1"),
        "c": application(repoURL="https://git.example.com/other.git"),
        "d": application(credentials="token"),
        "e": application("shop", credentials="token"),
    }
    assert chosen(apart) == sorted(apart)


def test_one_that_is_not_polled_is_taken_for_none_that_is() -> None:
    assert chosen({"a": application(suspend=True), "bad": application(), "c": application()}) == ["a", "bad", "c"]
