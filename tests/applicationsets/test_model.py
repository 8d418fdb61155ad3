"""What is not a valid ApplicationSet, whatever its elements are."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.admission.review import check_own
from gitsync.errors import InvalidInput
from tests.applicationsets.factories import TEMPLATE, git, listed, manifest

PARAMETERS = {"sync": {"interval": "{{interval}}"}, "source": {"repoURL": "{{url}}", "renderer": "{{renderer}}"}}


def template(**metadata: Any) -> dict[str, Any]:
    return {**TEMPLATE, "metadata": {"name": "x", **metadata}}


INVALID = [
    (manifest(listed(), git(directories=[{"path": "a"}], files=[{"path": "b"}])), "set either directories or files"),
    (manifest({}), "set exactly one of list, git, matrix and merge"),
    (manifest({**listed(), **git(files=[{"path": "a"}])}), "set exactly one of list, git, matrix and merge"),
    (manifest({"matrix": {"generators": [listed()]}}), r"spec\.generators\[0\]\.matrix\.generators"),
    (manifest(git(revision="{{x}}", files=[{"path": "a"}])), r"spec\.generators\[0\]\.git\.revision"),
    (manifest(git(files=[{"path": "/a"}])), r"git\.files\[0\]\.path"),
    (manifest(listed(), goTemplate=True), "goTemplate: .*is not a known field"),
    (manifest(listed(), template=template(namespace="other")), r"metadata\.namespace: .*is not a known field"),
    (manifest(listed(), template=template(annotations={"gitsync.dev/tracking-id": "x"})), "is set by gitsync"),
    (manifest(listed(), template=template(annotations={"gitsync.dev/hold-0a": "x"})), "is set by gitsync"),
    (manifest(listed(), template={**TEMPLATE, "spec": {}}), r"spec\.template\.spec: .*source is missing"),
    (
        manifest(listed(), template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "nothing": "{{x}}"}}),
        r"spec\.template\.spec\.nothing: .*is not a known field",
    ),
    (
        manifest(listed(), template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "sync": {"interval": "soon"}}}),
        r"spec\.template\.spec\.sync\.interval: .*'soon' is not a duration",
    ),
    (manifest(listed(), syncPolicy={"applicationsSync": "all"}), r"spec\.syncPolicy\.applicationsSync"),
]


@pytest.mark.parametrize(("given", "message"), INVALID)
def test_an_invalid_set_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_own(given)


def test_a_name_that_no_label_takes_is_rejected() -> None:
    given = copy.deepcopy(manifest(listed()))
    given["metadata"]["name"] = "x" * 64
    with pytest.raises(InvalidInput, match="choose a shorter name"):
        check_own(given)


def test_texts_with_parameters_are_judged_later() -> None:
    check_own(manifest(listed(), template={**TEMPLATE, "spec": PARAMETERS}))


def application(**source: str) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": "gitsync"}
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": metadata,
        "spec": {"source": source},
    }


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"repoURL": "https://ada:secret@git.example.com/shop.git"}, "the repository URL holds a password"),
        ({"repoURL": "https://git.example.com/shop.git", "path": "../x"}, "is not a relative path"),
        ({"repoURL": "not a url"}, "spec.source.repoURL"),
        ({"repoURL": "https://git.example.com/shop.git", "revision": "HEAD~3"}, "the revision 'HEAD~3' is invalid"),
    ],
)
def test_an_application_that_the_controller_refuses_is_rejected(source: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        check_own(application(**source))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://git.example.com/shop.git", "file:///srv/shop.git", "git@example.com:shop.git"]
)
def test_what_only_the_operator_allows_is_not_rejected(url: str) -> None:
    check_own(application(repoURL=url))
