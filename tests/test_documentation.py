"""Documents lead to what exists: links, paths in the tree, and error messages of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`]+`", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:gitsync|tests|bench|tools|docs|web)/[\w./-]+)`")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)).strip().lower().replace(" ", "-")
        for text in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        other = (page.parent / file).resolve() if file else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_paths_exist(page: Path) -> None:
    named = PATH.findall(page.read_text(encoding="utf-8"))
    assert not [path for path in named if "NAME" not in path and not (ROOT / path).exists()]


def blocks(text: str) -> list[str]:
    """Return paragraphs, items of lists and rows of tables, without blocks of code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.split(r"\n\s*\n|\n(?=[|*-]|\d+\.)", text)


def names_of(module: Path) -> set[str]:
    """Return what a module defines or names: ``Fetcher``, ``Fetcher.poll``, its words in strings."""
    text = module.read_text(encoding="utf-8")
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    methods = {
        f"{node.name}.{part.name}" for node in classes for part in node.body if isinstance(part, ast.FunctionDef)
    }
    fields = {
        f"{node.name}.{part.target.id}"
        for node in classes
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return {*re.findall(r"\w+", text), *methods, *fields}


NAME = re.compile(r"`(_?[A-Z]\w*\.\w+|_?[A-Za-z]\w*)`")
"""A name of code: a function, a class with or without a method, a table."""


def misplaced(text: str) -> list[str]:
    """Return the names of code that are in none of the modules which their paragraph, item or row names."""
    wrong = []
    for block in blocks(text):
        modules = [ROOT / path for path in PATH.findall(block) if path.endswith(".py") and "NAME" not in path]
        known = set().union(*map(names_of, modules)) if modules else set()
        wrong += [name for name in NAME.findall(block) if modules and name not in known]
    return wrong


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_named_code_is_in_the_module_beside_it(page: str) -> None:
    assert misplaced((ROOT / page).read_text(encoding="utf-8")) == []


def test_code_that_moved_is_reported() -> None:
    row = "| Who? | `gitsync/sync/polling/fetch.py`: `Fetcher.poll`, `Fetcher.render`, `Pipeline` |"
    assert misplaced(f"{row}\n| `Pipeline` without a module |") == ["Fetcher.render", "Pipeline"]


def advisories() -> list[list[str]]:
    """Return the rows of the table of advisories: id, what happened, our answer, and the test."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Advisories of others")[2]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if " CVE-" in line]


def test_each_advisory_is_listed_once_with_an_answer() -> None:
    ids = [row[0] for row in advisories()]
    assert len(ids) == len(set(ids)) >= 62
    assert not [row for row in advisories() if len(row) != 4 or not all(row)]
    assert {id.rpartition(" ")[0] for id in ids} == {"Argo CD", "Flux", "GitPython", "Kubernetes"}


def test_the_test_of_each_advisory_exists() -> None:
    for id, _, _, test in advisories():
        file, _, name = test.strip("`").partition("::")
        assert test == "-" or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), id


def test_explained_messages_are_in_the_code() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("gitsync/**/*.py"))
    assert not [message for message in re.findall(r"^### `(.*)`$", text, re.MULTILINE) if message not in code]


@cache
def shared_names() -> set[str]:
    """Return the names of resources that definitions of other projects have too, such as Argo CD's applications."""
    names = {"kustomization", "kustomizations"}
    for file in (ROOT / "manifests" / "gitsync" / "crds").glob("*.yaml"):
        spec = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader).get("spec")
        if spec is not None:
            names |= {spec["names"]["plural"], spec["names"]["singular"], *spec["names"].get("shortNames", ())}
    return names


def kubectl_words(text: str) -> Iterator[str]:
    """Yield the words of the kubectl commands in code blocks and spans."""
    for code in CODE.findall(text):
        commands = code.splitlines() if code.startswith("```") else [code.strip("`")]
        for command in commands:
            for arguments in re.findall(r"\bkubectl\s([^|;&]*)", command):
                yield from re.sub(r"-f\s+\S+", "", arguments).split()


GROUPS = ("gitsync.dev", "agents.gitsync.dev", "argoproj.io", "kustomize.toolkit.fluxcd.io")


def unqualified(word: str) -> list[str]:
    """Return the resources of an argument, such as ``agents,jobs/x``, whose group the API server would choose."""
    resources = [part.partition("/")[0].partition(".") for part in word.split(",")]
    return [name for name, _, group in resources if name in shared_names() and not group.startswith(GROUPS)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_kubectl_commands_name_the_group_of_shared_resources(page: Path) -> None:
    words = kubectl_words(page.read_text(encoding="utf-8"))
    assert [word for word in words if unqualified(word)] == []


def test_a_command_without_a_group_is_found() -> None:
    block = "```\nkubectl -n shop get applications,pods\n```\n"
    spans = "`kubectl explain\nagents.spec`, `kubectl apply -f agent.yaml`, `kubectl get applications.gitsync.dev`"
    assert [word for word in kubectl_words(block + spans) if unqualified(word)] == ["applications,pods", "agents.spec"]
