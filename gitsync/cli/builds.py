"""Render paths and print their manifests: ``gitsync build`` without its options, which take long to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial

from gitsync.cli.output import BuildFormat, Exit, to_json
from gitsync.cli.parallel import map_forked
from gitsync.cli.rendering.build_options import BuildOptions
from gitsync.errors import GitsyncError, one_line
from gitsync.render.yaml.writer import write_all
from gitsync.source.local import LocalTarget, open_path


def print_builds(paths: Sequence[str], options: BuildOptions, output: BuildFormat, check: bool) -> Exit:
    """Print the manifests of every path, in order; after a path that fails the others are rendered nevertheless."""
    work = partial(_render_one, options, output, check)
    texts, failed = [], False
    for text, messages, failure in map_forked(work, paths) if len(paths) > 1 else map(work, paths):
        sys.stderr.write(messages)
        failed = failed or bool(failure)
        texts.append(text)
    if failed:
        return Exit.INVALID
    if not check:
        sys.stdout.write(_joined([text for text in texts if text], output))
    return Exit.OK


def _render_one(options: BuildOptions, output: BuildFormat, check: bool, path: str) -> tuple[str, str, str]:
    """Return the manifests of a path as text, the messages for standard error, and a text where it failed."""
    try:
        place = open_path(path, options.revision)
        problems = _check(place, options) if check else ()
        build = options.render(place) if not problems else None
    except GitsyncError as error:
        problems, build = (str(error),), None
    if build is None:
        return "", "".join(f"gitsync: {_as_typed(line, path)}\n" for line in problems), "failed"
    warnings = "".join(f"warning: {_as_typed(one_line(warning), path)}\n" for warning in build.warnings)
    manifests = list(build.manifests)
    if check or not manifests:
        return "", warnings, ""
    return to_json(manifests) if output is BuildFormat.JSON else write_all(manifests), warnings, ""


def _as_typed(line: str, path: str) -> str:
    """
    Return a line in which files below a path are named as the user typed the path, and others relative to here.

    Outside Git the tree is the whole disk, and its files are named relative to the root of the disk.
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


def _check(place: LocalTarget, options: BuildOptions) -> Sequence[str]:
    from gitsync.cli.check import problems  # it loads the schemas of Kubernetes, which a plain build does not need

    return problems(place, options)
