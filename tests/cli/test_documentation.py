"""``docs/cli.md`` and the list of commands agree with the help of each command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gitsync.cli.commands import SUMMARIES
from gitsync.cli.main import load_command
from gitsync.cli.output import Exit

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
TREE: dict[str, Any] = {name: load_command(name) for name in SUMMARIES}
COMMANDS: dict[str, Any] = {
    " ".join(filter(None, (name, inner))): command
    for name, outer in TREE.items()
    for inner, command in getattr(outer, "commands", {"": outer}).items()
}


def test_every_command_has_a_section_in_the_order_of_the_help() -> None:
    assert list(SECTIONS) == list(COMMANDS)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_the_first_sentence_of_the_help(name: str) -> None:
    assert TREE[name].help.partition(" Exit code ")[0] == SUMMARIES[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_lists_the_options_with_their_help(name: str) -> None:
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", SECTIONS[name], re.MULTILINE)
    options = {tuple(re.findall(r"`(.*?)`", names)): text for names, text in rows if "`-" in names}

    assert options == {
        (*option.opts, *option.secondary_opts): option.help
        for option in COMMANDS[name].params
        if option.param_type_name == "option"
    }
    arguments = [text for names, text in rows if "`-" not in names]
    assert arguments == [item.help for item in COMMANDS[name].params if item.param_type_name == "argument"]
    assert COMMANDS[name].help in SECTIONS[name]


def test_every_exit_code_is_explained() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == [int(code) for code in Exit]
