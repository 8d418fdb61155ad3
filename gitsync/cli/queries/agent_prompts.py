"""The versions of an agent's prompts, and two of them line by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from gitsync.cli.dashboard_client import Dashboard
from gitsync.cli.output import Format, say, show, show_one
from gitsync.cli.queries.agent_revisions import MARKS, prompt_lines
from gitsync.cli.queries.connection import items
from gitsync.errors import InvalidInput

_MOST = 60
_COLUMNS = ("version", "description")


def show_prompts(dashboard: Dashboard, agent: str, compared: tuple[str, str], output: Format) -> None:
    """Print the versions of the prompts of ``namespace/name``, or the lines in which the two compared ones differ."""
    path = "/".join(quote(part, safe="") for part in agent.split("/", 1))
    found = items(dashboard, f"agents/{path}/prompts", _MOST)
    versions = [{"version": one["key"], "description": one["label"], "text": one["text"]} for one in found]
    if not any(compared):
        show(versions, _COLUMNS, output, key="version")
        return
    before, after = (_version(versions, name) for name in compared)
    lines = prompt_lines(before["text"], after["text"])
    if output in (Format.JSON, Format.YAML):
        show_one({"before": before, "after": after, "lines": lines}, output)
        return
    for line in lines or [{"mark": " ", "text": "the texts are equal"}]:
        say(f"{line['mark']} {line['text']}", MARKS.get(line["mark"], ""))


def _version(versions: Iterable[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a version by its name, or the first, that of now, without one."""
    for one in versions:
        if name in ("", one["version"]):
            return one
    raise InvalidInput(f"{name!r} is not a version of a prompt", hint="list them without --before and --after")
