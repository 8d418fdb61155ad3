"""The elements that generators yield, in a deterministic order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.applicationsets.model import (
    Directory,
    File,
    GitGenerator,
    Inner,
    InnerMatrix,
    InnerMerge,
    Leaf,
    ListGenerator,
    Matrix,
    Merge,
)
from gitsync.applicationsets.model import Generator as GeneratorModel
from gitsync.applicationsets.texts import Parameters, fill, fill_known, flatten
from gitsync.errors import InvalidInput
from gitsync.objects.parsing import Spec, parse_spec
from gitsync.objects.patterns import matches
from gitsync.objects.tree import Entry, Tree
from gitsync.render.yaml.reader import read_all

Generator = GeneratorModel | Inner | Leaf
TreeOf = Callable[[GitGenerator], Tree]
"""Return the files of a Git generator."""

MOST_ELEMENTS = 5000  # each is an Application that is watched, planned and reconciled
"""Elements that one generator may yield."""
_NOT_IN_NAMES = re.compile(r"[^-a-z0-9.]")


@dataclass(frozen=True, slots=True)
class Element:
    """What a generator yields: the place that it comes from, and its parameters."""

    place: str
    parameters: Parameters


def elements(generator: Generator, place: str, tree_of: TreeOf) -> list[Element]:
    """Return the elements of one generator; raise InvalidInput that names the generator and the element."""
    if generator.list is not None:
        yielded = list(_listed(generator.list, f"{place}.list"))
    elif generator.git is not None:
        yielded = list(_in_git(generator.git, f"{place}.git", tree_of))
    # a Leaf has neither: the nesting of generators ends there, so that the recursion does
    elif not isinstance(generator, Leaf) and generator.matrix is not None:
        yielded = _combined(generator.matrix, f"{place}.matrix", tree_of)
    elif not isinstance(generator, Leaf) and generator.merge is not None:
        yielded = _merged(generator.merge, f"{place}.merge", tree_of)
    else:
        raise InvalidInput("is empty", location=place)
    if len(yielded) > MOST_ELEMENTS:
        raise InvalidInput(f"yields more than {MOST_ELEMENTS} elements", location=place, hint="split the set")
    return yielded


def _listed(generator: ListGenerator, place: str) -> Iterator[Element]:
    for index, element in enumerate(generator.elements):
        where = f"{place}.elements[{index}]"
        yield Element(where, flatten(fill(element, {}, where, where), where))  # what is left is not known here


def _in_git(git: GitGenerator, place: str, tree_of: TreeOf) -> Iterator[Element]:
    tree = tree_of(git)
    patterns: list[Directory | File] = [*(git.directories or ()), *(git.files or ())]
    for pattern in patterns:
        # the paths are queried before any element is known, so that no parameter may be left in them
        fill(pattern.path, {}, place, place)  # what is left is not known here
    for path in find(tree, git.directories, Entry.FOLDER) if git.directories else ():
        yield Element(f"{place}.directories {path}", _path_parameters(path, "", git.path_param_prefix))
    for path in find(tree, git.files, Entry.FILE) if git.files else ():
        folder, _, name = path.rpartition("/")
        parameters = _path_parameters(folder, name, git.path_param_prefix)
        for where, content in _contents(tree, path, f"{place}.files {path}"):
            yield Element(where, _united(flatten(content, where), parameters, where))


def _contents(tree: Tree, path: str, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the mappings in a YAML or JSON file: its documents, or the items of a list."""
    items: list[Any] = []
    for document in read_all(tree.read(path), path):
        items += document if isinstance(document, list) else [document]
    for index, item in enumerate(items):
        where = f"{place}[{index}]" if len(items) > 1 else place
        if not isinstance(item, dict):
            raise InvalidInput("is not a mapping", location=where, hint="write a mapping, or a list of mappings")
        yield where, item


def _path_parameters(folder: str, file: str, prefix: str) -> dict[str, str]:
    start = f"{prefix}.path" if prefix else "path"
    base = folder.rpartition("/")[2]
    parameters = {start: folder, f"{start}.path": folder, f"{start}.basename": base}
    parameters[f"{start}.basenameNormalized"] = _normalized(base)
    # the index of each part, as Argo CD names them
    parameters |= {f"{start}[{index}]": part for index, part in enumerate(folder.split("/")) if part}
    return parameters | ({f"{start}.filename": file, f"{start}.filenameNormalized": _normalized(file)} if file else {})


def _normalized(name: str) -> str:
    """Return a name as objects may have it."""
    # 253 characters are the limit of names of most objects
    return _NOT_IN_NAMES.sub("-", name.lower())[:253].strip("-.")


def _combined(matrix: Matrix | InnerMatrix, place: str, tree_of: TreeOf) -> list[Element]:
    """Return each element of the first generator with each of the second, filled with parameters of the first."""
    first, second = matrix.generators
    combined: list[Element] = []
    for outer in elements(first, f"{place}.generators[0]", tree_of):
        where = f"{place}.generators[1]"
        # of each first element, since the second may have its parameters in paths
        for right in elements(_filled(second, outer, where), where, tree_of):
            both = f"{outer.place} with {right.place}"
            combined.append(Element(both, _united(outer.parameters, right.parameters, both)))
        # here already: the product of two generators may be far larger than either
        if len(combined) > MOST_ELEMENTS:
            break  # the caller reports it
    return combined


def _filled(generator: Inner | Leaf, element: Element, place: str) -> Inner | Leaf:
    """Return a generator with the parameters of an element filled into its texts."""
    # without defaults: what was not written must stay absent for the validation of the filled one
    members = generator.model_dump(mode="json", by_alias=True, exclude_unset=True)
    filled = fill_known(members, element.parameters)
    return generator if filled == members else parse_spec(type(generator), filled, place)


def _merged(merge: Merge | InnerMerge, place: str, tree_of: TreeOf) -> list[Element]:
    """Return the elements of the first generator, each with the parameters of those of others with the same keys."""
    generators: tuple[Inner | Leaf, ...] = merge.generators
    groups = [
        _by_keys(elements(generator, f"{place}.generators[{index}]", tree_of), merge.merge_keys)
        for index, generator in enumerate(generators)
    ]
    merged = []
    for key, base in groups[0].items():
        others = [group[key] for group in groups[1:] if key in group]
        parameters = dict(base.parameters)
        for other in others:
            # the later generators win, in the order in which they are written
            parameters |= other.parameters
        merged.append(Element(" with ".join(element.place for element in (base, *others)), parameters))
    return merged


def _by_keys(yielded: Sequence[Element], keys: Sequence[str]) -> dict[tuple[str, ...], Element]:
    result: dict[tuple[str, ...], Element] = {}
    for element in yielded:
        for key in keys:
            if key not in element.parameters:
                raise InvalidInput(f"has no parameter {key!r}, which is a merge key", location=element.place)
        values = tuple(element.parameters[key] for key in keys)
        if values in result:
            # two base elements of one key would both be merged with the same others
            raise InvalidInput(
                f"has the same merge keys as {result[values].place}: {', '.join(values)}", location=element.place
            )
        result[values] = element
    return result


def _united(first: Parameters, second: Parameters, place: str) -> dict[str, str]:
    for name in sorted(first.keys() & second.keys()):
        if first[name] != second[name]:
            raise InvalidInput(
                f"parameter {name!r} has two values: {first[name][:80]!r} and {second[name][:80]!r}",
                location=place,
                hint="rename one of them; pathParamPrefix renames those of a path",
            )
    return {**first, **second}


def git_generators(spec: Spec) -> Iterator[GitGenerator]:
    """Yield the Git generators in a spec at any depth, in the order in which they are written."""
    if isinstance(spec, GitGenerator):
        yield spec
        return
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Spec):
                yield from git_generators(item)


_WILD = "*?[{"
_ANY_DEPTH = "**"
_MOST = 5000
"""Folders or files that one generator may yield."""
_MOST_VISITED = 200_000
"""Names that one pattern may pass: those of a large repository several times."""


def find(tree: Tree, patterns: Sequence[Directory | File], kind: Entry) -> tuple[str, ...]:
    """Return the sorted paths of a kind that match one of the patterns, and none that excludes."""
    excluded = [pattern.path for pattern in patterns if pattern.exclude]
    paths: set[str] = set()
    for pattern in patterns:
        if not pattern.exclude:
            paths.update(_Walk(tree, kind, pattern.path).below("", tuple(pattern.path.split("/"))))
        if len(paths) > _MOST:
            raise InvalidInput(f"{pattern.path} matches more than {_MOST} paths", hint="narrow the pattern")
    # exclusion comes last, so that the order of the patterns does not matter
    return tuple(sorted(path for path in paths if not any(_fits(path, pattern) for pattern in excluded)))


def paths_read(git: GitGenerator) -> frozenset[str]:
    """Return the files, and folders with ``/`` at the end, on which the elements of a generator depend."""
    # a file without wildcards is watched alone, and not with its folder
    return frozenset(map(_read, (pattern.path for pattern in git.directories or ()))) | frozenset(
        pattern.path if not set(_WILD) & set(pattern.path) else _read(pattern.path) for pattern in git.files or ()
    )


def _read(pattern: str) -> str:
    """Return the deepest folder that a pattern names without wildcards or parameters."""
    fixed = []
    for part in pattern.split("/")[:-1]:
        # the last part is the name that is matched; what is above it is fixed until the first wildcard
        if set(_WILD) & set(part):
            break
        fixed.append(part)
    return "/".join(fixed) + "/"


class _Walk:
    """
    The paths of a tree that match a pattern, of files or of folders.

    Equal folders are one object of Git, so few objects can be a tree of 10^11 folders: a walk has a limit.
    """

    def __init__(self, tree: Tree, kind: Entry, pattern: str) -> None:
        self._tree = tree
        self._kind = kind
        self._pattern = pattern
        self._visited = 0

    def below(self, folder: str, parts: tuple[str, ...]) -> Iterator[str]:
        """Yield the paths below a folder whose names match the parts of a pattern."""
        head = parts[0]
        rest = parts[1:]
        if head == _ANY_DEPTH:
            # ``**`` also means no folder at all
            yield from self.below(folder, rest or ("*",))
            for path in self._folders(folder):
                yield from self.below(path, parts)
            return
        for name in self._names(folder):
            path = f"{folder}/{name}" if folder else name
            if not _names(name, head):
                continue
            entry = self._tree.entry(path)
            if rest and entry is Entry.FOLDER:
                yield from self.below(path, rest)
            elif not rest and entry is self._kind:
                yield path

    def _folders(self, folder: str) -> Iterator[str]:
        for name in self._names(folder):
            path = f"{folder}/{name}" if folder else name
            # as in a shell: hidden folders are entered only where a pattern names them
            if not name.startswith(".") and self._tree.entry(path) is Entry.FOLDER:
                yield path

    def _names(self, folder: str) -> Iterator[str]:
        # a tree of Git has no entry for its root
        for name in self._tree.names(folder) if self._tree.entry(folder) is Entry.FOLDER or not folder else ():
            # before the match: a pattern without matches visits as much as any other
            self._visited += 1
            if self._visited > _MOST_VISITED:
                raise InvalidInput(
                    f"{self._pattern} searches more than {_MOST_VISITED} files and folders", hint="narrow the pattern"
                )
            yield name


def _names(name: str, part: str) -> bool:
    """Whether a name matches a part of a pattern; a wildcard at the start does not match a dot."""
    return matches(name, part) and (part.startswith(".") or not name.startswith("."))


def _fits(path: str, pattern: str) -> bool:
    return _all_match(tuple(path.split("/")), tuple(pattern.split("/")))


def _all_match(names: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if not parts:
        return not names
    if parts[0] == _ANY_DEPTH:
        rest = parts[1:]
        return not rest or any(_all_match(names[start:], rest) for start in range(len(names) + 1))
    return bool(names) and _names(names[0], parts[0]) and _all_match(names[1:], parts[1:])
