"""``gitsync build``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from gitsync.cli.output import BuildFormat, Exit, to_json
from gitsync.cli.parallel import map_forked
from gitsync.errors import GitsyncError, InvalidInput, one_line
from gitsync.render.build import Build
from gitsync.render.build import build as render
from gitsync.render.yaml.writer import write_all
from gitsync.source.local import LocalTarget, open_path


class BuildOptions(NamedTuple):
    """How to render: of which revision (empty: the files on disk), by which renderer, how strictly."""

    revision: str = ""
    renderer: str = "Auto"
    load_restrictions: bool = True

    def render(
        self,
        place: LocalTarget,
        *,
        provenance: bool = False,
        faults: list[InvalidInput] | None = None,
    ) -> Build:
        """Return what a place renders to."""
        return render(
            place.tree,
            place.path,
            renderer=self.renderer,
            load_restrictions=self.load_restrictions,
            provenance=provenance,
            faults=faults,
        )


def build(paths: Sequence[str], wish: BuildOptions, output: BuildFormat, check: bool) -> Exit:
    """Print the manifests of every path, in order; a path that fails does not keep the others from being tried."""
    work = partial(_render_one, wish, output, check)
    texts, failed = [], False
    for text, said, wrong in map_forked(work, paths) if len(paths) > 1 else map(work, paths):
        sys.stderr.write(said)
        failed = failed or bool(wrong)
        texts.append(text)
    if failed:
        return Exit.INVALID
    if not check:
        sys.stdout.write(_joined([text for text in texts if text], output))
    return Exit.OK


def _render_one(wish: BuildOptions, output: BuildFormat, check: bool, path: str) -> tuple[str, str, str]:
    """Return the manifests of a path as text, what is to be said of it, and a word where it is wrong."""
    try:
        place = open_path(path, wish.revision)
        wrong = _check(place, wish) if check else ()
        made = wish.render(place) if not wrong else None
    except GitsyncError as error:
        wrong, made = (str(error),), None
    if made is None:
        return "", "".join(f"gitsync: {_as_typed(line, path)}\n" for line in wrong), "wrong"
    said = "".join(f"warning: {_as_typed(one_line(warning), path)}\n" for warning in made.warnings)
    manifests = list(made.manifests)
    if check or not manifests:
        return "", said, ""
    return to_json(manifests) if output is BuildFormat.JSON else write_all(manifests), said, ""


def _as_typed(line: str, path: str) -> str:
    """
    Return a line in which files below a path are named as the path was typed, and others from here.

    Where there is no Git, the tree is the whole disk, and its files are named from the root of that.
    """
    typed, whole, here = os.path.normpath(path), os.path.realpath(path)[1:], os.getcwd()[1:]
    if not whole or not here:
        return line
    parts = (part.replace(f"{here}/", "") for part in line.split(f"{whole}/"))
    return ("" if typed == "." else f"{typed}/").join(parts)


def _joined(texts: Sequence[str], output: BuildFormat) -> str:
    """Return the manifests of several paths as one text."""
    if output is BuildFormat.YAML:
        return "---\n".join(texts)
    return "[" + ",".join(text[1:-2] for text in texts) + ("\n]\n" if texts else "]\n")


def _check(place: LocalTarget, wish: BuildOptions) -> Sequence[str]:
    from gitsync.cli.check import problems  # late: it knows every kind of Kubernetes

    return problems(place, wish)
