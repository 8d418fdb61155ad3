"""Lines that CI runners show beside the changed files."""

from __future__ import annotations

from gitsync.preview.text import Runner, annotate
from tests.preview.factories import deployment, report

BASE = {"kustomization.yaml": "resources: [d.yaml]", "d.yaml": deployment()}


def test_a_new_value_is_annotated_at_its_line() -> None:
    changed = report(BASE, {**BASE, "d.yaml": deployment(replicas=2)})

    assert list(annotate(changed, Runner.ACTIONS)) == [
        "::warning file=d.yaml,line=5::Moderate: Deployment default/web in .: changes an object"
    ]
    assert list(annotate(changed, Runner.PLAIN)) == [
        "d.yaml:5: warning: Moderate: Deployment default/web in .: changes an object"
    ]


def test_a_folder_that_cannot_be_built_is_an_error_at_its_line() -> None:
    [line] = annotate(report(BASE, {**BASE, "kustomization.yaml": "resourcs: []"}), Runner.ACTIONS)

    assert line.startswith("::error file=kustomization.yaml,line=1::.: kustomization.yaml:1: ")


def test_a_name_cannot_add_a_workflow_command() -> None:
    hostile = "a%0A::set-output name=x::y,line=9"
    base = {f"{hostile}/kustomization.yaml": "resources: [d.yaml]", f"{hostile}/d.yaml": deployment()}
    [line] = annotate(report(base, {**base, f"{hostile}/d.yaml": deployment(replicas=2)}), Runner.ACTIONS)

    assert line.startswith("::warning file=a%250A%3A%3Aset-output name=x%3A%3Ay%2Cline=9/d.yaml,line=5::")
    assert "\n" not in line
