"""Validate a manifest against the schema of its kind, before anything is written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gitsync.merge.schema import Schema
from gitsync.merge.typed import misfits
from gitsync.objects.manifest import Manifest

_PROBLEM = re.compile(r"(?P<path>(?:\.[^:\[]*|\[[^\]]*\])+): (?P<what>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that does not fit: the path of the field (``.spec.foo``), and what in the API server's words."""

    path: str
    what: str


def validate(manifest: Manifest, schema: Schema) -> list[Problem]:
    """
    Return what does not fit the schema: unknown fields, wrong types, duplicate items; empty when all fits.

    Values of Secrets never stand in a problem.
    """
    return [_problem(text, manifest) for text in misfits(schema, manifest)]


def _problem(text: str, manifest: Manifest) -> Problem:
    match = _PROBLEM.fullmatch(text)
    path, what = (match["path"], match["what"]) if match else ("", text)
    if manifest.get("kind") == "Secret":
        what = what.partition(", got")[0]
    return Problem(path, what)
