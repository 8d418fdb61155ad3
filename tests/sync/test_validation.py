"""The declared objects are validated where they, or the schemas of their kinds, are not those that were valid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.merge.schema import DefinedKinds, builtin
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.sync import validation
from gitsync.sync.cache import CheckCache
from gitsync.sync.observe import Observation
from gitsync.sync.validation import validate_changed

Validate = Callable[..., None]


def settings(name: str, **members: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, **members}


def widget(size: Any) -> Manifest:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size}}


def definition(size_type: str) -> Manifest:
    """Return the definition of Widget whose size has a type."""
    size = {"type": "object", "properties": {"size": {"type": size_type}}}
    schema = {"type": "object", "properties": {"spec": size}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget"}, "scope": "Cluster", "versions": [version]},
    }


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the objects that were validated."""
    names: list[str] = []
    real = validation.validate

    def counted(manifest: Manifest, schema: Any) -> Any:
        names.append(manifest["metadata"]["name"])
        return real(manifest, schema)

    monkeypatch.setattr(validation, "validate", counted)
    return names


@pytest.fixture
def check() -> Validate:
    """Validate what some commits declare, one after the other."""
    cache = CheckCache()

    def declared(*manifests: Manifest, defined: Manifest | None = None) -> None:
        kinds = DefinedKinds([defined] if defined else ())
        desired = {ref_of(manifest): manifest for manifest in manifests}
        validate_changed(Observation(desired, {}, {}, builtin(), defined=kinds), lambda manifest, path: "", cache)

    return declared


def test_only_what_a_commit_changes_is_validated(check: Validate, validated: list[str]) -> None:
    unchanged = [settings(f"s{number}", data={"key": "value"}) for number in range(5)]
    check(*unchanged, settings("changed"))
    validated.clear()

    check(*unchanged, settings("changed", data={"key": "other"}), settings("new"))

    assert validated == ["changed", "new"]


def test_an_invalid_object_is_reported_until_it_is_valid(check: Validate) -> None:
    invalid = settings("s", dat={"key": "value"})

    for _ in range(2):
        with pytest.raises(InvalidInput, match="dat"):
            check(invalid)
    check(settings("s", data={"key": "value"}))


def test_another_definition_in_git_validates_its_objects(check: Validate) -> None:
    large = widget("large")
    check(large, defined=definition("string"))

    with pytest.raises(InvalidInput, match="size"):
        check(large, defined=definition("integer"))


def test_a_first_definition_in_git_validates_its_objects(check: Validate) -> None:
    large = widget("large")
    check(large)

    with pytest.raises(InvalidInput, match="size"):
        check(large, defined=definition("integer"))
