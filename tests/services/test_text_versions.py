"""The versions of a text in the versions of its file."""

from __future__ import annotations

import pytest

from gitsync.objects.record import Commit
from gitsync.ports import FileVersion
from gitsync.services.provenance import text_versions

AGENT = """apiVersion: agents.gitsync.dev/v1alpha1
kind: Agent
metadata: {{name: triage}}
spec:
  replicas: {replicas}
  prompt:
    text: |
      {text}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: triage}}
data: {{prompt.md: "{text}\\n"}}
"""
SYSTEM = "kind: MultiAgentSystem\nmetadata: {{name: desk}}\nspec:\n  agents:\n{agents}"
MEMBER = "  - name: {name}\n    template: {{spec: {{prompt: {{text: {text}}}}}}}\n"


def found(text: str, *contents: str | bytes) -> list[tuple[str, str]]:
    """Return the commits and texts in files, newest first; the commits are numbered from the oldest, 1."""
    numbered = zip(range(len(contents), 0, -1), contents, strict=True)
    files = [FileVersion(Commit(str(n)), one.encode() if isinstance(one, str) else one) for n, one in numbered]
    return [(one.commit.id, one.text) for one in text_versions(files, text)]


def test_a_file_that_is_the_text_has_its_versions() -> None:
    assert found("c\n", "c\n", b"\xff", "b\n", "a\n") == [("4", "c\n"), ("2", "b\n"), ("1", "a\n")]


def test_a_text_in_a_document_is_followed_by_kind_and_name() -> None:
    files = [AGENT.format(replicas=n, text=text) for n, text in ((3, "Be brief."), (2, "Be kind."), (1, "Be kind."))]
    moved = "---\nkind: Other\n---\n" + files[0]
    assert found("Be brief.\n", moved, *files[1:]) == [("3", "Be brief.\n"), ("1", "Be kind.\n")]


def test_a_text_in_an_item_is_followed_by_the_name_of_the_item() -> None:
    triage, old = MEMBER.format(name="triage", text="Sort."), MEMBER.format(name="triage", text="Sort tickets.")
    newest = SYSTEM.format(agents=MEMBER.format(name="desk", text="Greet.") + triage)
    assert found("Sort.", newest, SYSTEM.format(agents=old)) == [("2", "Sort."), ("1", "Sort tickets.")]


@pytest.mark.parametrize(
    "older", ["a: [1\n", b"\xff", "kind: Agent\n", "", "- 1\n", "kind: Agent\nmetadata: 1\n", "[[" * 300]
)
def test_what_does_not_have_the_text_is_left_out(older: str | bytes) -> None:
    agent = AGENT.format(replicas=1, text="Be kind.")
    assert found("Be kind.\n", agent, older) == [("2", "Be kind.\n")]


def test_a_text_that_the_newest_file_does_not_have_has_no_versions() -> None:
    assert found("Be kind.", "Be brief.", "Be kind.") == []
    assert found("Be kind.") == []
