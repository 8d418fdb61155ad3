"""Plain manifests: a folder without a kustomization file is the YAML and JSON files in and below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gitsync.errors import EmptyRender, InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render.errors import ErrorCollector
from gitsync.render.kustomize.files import Files, join
from gitsync.render.kustomize.kustomization import API_GROUP, FILE_NAMES
from gitsync.render.kustomize.loader import Loader, reject_chart
from gitsync.render.resources.resource import Id, Resource
from gitsync.render.resources.scopes import Scopes
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalar_types import text_of

_ENDINGS: Final = (".yaml", ".yml", ".json")


def plain_resources(files: Files, loader: Loader, folder: str, errors: ErrorCollector) -> list[Resource]:
    """
    Return the objects of all manifests in and below a folder, in the order of their paths.

    Reject a Helm chart or a kustomization below it: its files are not what its author means to apply.
    """
    scopes = Scopes()
    resources: dict[Id, Resource] = {}
    for path in _manifests(files, folder):
        with errors:
            _reject_kustomization(files, path)
            for resource in loader.resources(path, generates_names=True):
                id_ = scopes.id_of(resource)
                other = resources.setdefault(id_, resource)
                if other is not resource:
                    raise InvalidInput(
                        f"the object is already in {other.origin.file}",
                        location=path,
                        object=str(id_),
                        hint="remove one of them",
                    )
    if not resources and not errors.collected:
        raise EmptyRender(
            "the folder has neither a kustomization file nor manifests",
            location=folder or ".",
            hint="correct the path of the application",
        )
    return list(resources.values())


def _manifests(files: Files, folder: str) -> Iterator[str]:
    """Yield the real paths of the manifests in and below a folder; a link to a folder is not followed."""
    rules = read_rules(files, folder)
    waiting = [folder]
    while waiting:
        parent = waiting.pop()
        reject_chart(files, parent, "" if parent == folder else f", or exclude the folder in {IGNORE_FILE}")
        inner: list[str] = []
        for name in files.names(parent):
            # Such as .git, .github and the files of editors: none belongs to the application.
            if name.startswith("."):
                continue
            path, entry = files.resolve(parent, name)
            inside = join(parent, name)[len(folder) + 1 if folder else 0 :]
            if rules.ignores(inside, is_folder=entry is Entry.FOLDER):
                continue
            if entry is Entry.FILE and (name.lower().endswith(_ENDINGS) or name in FILE_NAMES):
                yield path
            elif entry is Entry.FOLDER and path == join(parent, name):  # a link to a folder could lead in a circle
                inner.append(path)
        waiting += reversed(inner)


def _reject_kustomization(files: Files, path: str) -> None:
    folder, _, name = path.rpartition("/")
    if name in FILE_NAMES and any(_is_kustomization(document) for document in read_all(files.read(path), path)[:1]):
        raise InvalidInput(
            "a kustomization file is not a Kubernetes object, and plain manifests do not use it",
            location=path,
            hint=f"set the path of the application to {folder or '.'} and the renderer to Auto or Kustomize, "
            f"list the folder in a kustomization.yaml above it, or exclude it in {IGNORE_FILE}",
        )


def _is_kustomization(document: object) -> bool:
    """Return whether a document configures Kustomize; objects of other tools may have the same kind."""
    if not isinstance(document, dict):
        return False
    return "kind" not in document or text_of(document.get("apiVersion")).startswith(f"{API_GROUP}/")


IGNORE_FILE: Final = ".gitsyncignore"
_TOKEN: Final = r"(?s)\*\*/|/\*\*\Z|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|\\.|."
_FIXED: Final = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class _Pattern(NamedTuple):
    expression: re.Pattern[str]
    is_kept: bool
    is_folder: bool


class IgnoreRules:
    """The rules of one folder; the last one that matches a path decides."""

    def __init__(self, patterns: tuple[_Pattern, ...] = ()) -> None:
        self._patterns = patterns

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path, relative to the folder, is left out; what is below an ignored folder is not asked."""
        # As in git: a later rule overrides an earlier one.
        for pattern in reversed(self._patterns):
            if (is_folder or not pattern.is_folder) and pattern.expression.fullmatch(path):
                return not pattern.is_kept
        return False


def read_rules(files: Files, folder: str) -> IgnoreRules:
    """Return the rules of a folder's file, if it has one; raise InvalidInput for an invalid pattern."""
    path, entry = files.resolve(folder, IGNORE_FILE)
    if entry is not Entry.FILE:
        return IgnoreRules()
    text = files.read(path).decode("utf-8", "replace")
    return IgnoreRules(tuple(_patterns(text, path)))


def _patterns(text: str, path: str) -> Iterator[_Pattern]:
    for number, line in enumerate(text.splitlines(), 1):
        written = line.rstrip()
        if not written or written.startswith("#"):
            continue
        is_kept = written.startswith("!")
        body = written.removeprefix("!")
        name = body.rstrip("/")
        try:
            yield _Pattern(re.compile(_expression(name)), is_kept, body.endswith("/"))
        except re.error as error:
            what = f"{written!r} is not a pattern: {error}"
            where = f"{path}:{number}"
            raise InvalidInput(what, location=where, hint="write it as in .gitignore") from error


def _expression(name: str) -> str:
    """Return the regular expression of a pattern; one without a slash matches at any depth."""
    anywhere = "" if "/" in name else "(?:.*/)?"
    return anywhere + "".join(_translated(token) for token in re.findall(_TOKEN, name.removeprefix("/")))


def _translated(token: str) -> str:
    if token in _FIXED:
        return _FIXED[token]
    if token.startswith("[") and len(token) > 1:
        return f"[^{token[2:]}" if token[1] == "!" else token
    return re.escape(token[-1])
