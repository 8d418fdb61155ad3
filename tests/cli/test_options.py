"""Groups of options become options of a command, and the help lists commands by what people do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from gitsync.cli.commands import GROUPS, SUMMARIES
from gitsync.cli.options import ApplicationTarget, ClusterTarget, Data, command
from gitsync.cli.output import Exit, say
from tests.cli.conftest import Gitsync


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Another group with the option ``--data``."""

    data: Data = Path("other")
    depth: Annotated[int, typer.Option(help="A number.")] = 1


@command
def example(
    target: ApplicationTarget,
    elsewhere: Elsewhere,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A path.")],
    loud: Annotated[bool, typer.Option("--loud", help="Shout.")] = False,
) -> Exit:
    """Print what it got."""
    say(f"{target.key} {target.kubeconfig} {path} {elsewhere.depth} {loud} {target.data} {elsewhere.data}")
    return Exit.DIFFERENT


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(example)
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output.strip()


def test_members_of_groups_are_options() -> None:
    code, output = run("shop", "folder", "-n", "team", "--kubeconfig", "config", "--depth", "3", "--loud")
    assert (code, output.split()[:5]) == (1, ["team/shop", "config", "folder", "3", "True"])


def test_an_option_of_two_groups_has_one_value() -> None:
    assert run("shop", "folder", "--data", "here")[1].split()[-2:] == ["here", "here"]


def test_the_default_of_a_group_is_kept() -> None:
    assert run("shop", "folder")[1].split()[0] == "gitsync/shop"


def test_a_missing_argument_of_a_group_is_a_usage_error() -> None:
    assert run()[0] == 2


def test_the_options_of_a_base_class_come_last() -> None:
    help_text = run("--help")[1]
    assert help_text.index("--namespace") < help_text.index("--kubeconfig")


def test_a_place_knows_the_demo_by_its_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert not ClusterTarget(data=tmp_path).is_demo
    (tmp_path / "kubeconfig").touch()
    assert ClusterTarget(data=tmp_path).is_demo
    assert not ClusterTarget(data=tmp_path, kubeconfig="other").is_demo
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert ClusterTarget(data=tmp_path).is_demo
    monkeypatch.setenv("KUBECONFIG", "other")
    assert not ClusterTarget(data=tmp_path).is_demo


def test_the_first_group_of_the_help_has_ten_commands(gitsync: Gitsync) -> None:
    text = gitsync("--help").out
    titles = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert titles == sorted(titles)
    assert len(next(iter(GROUPS.values()))) == 10
    assert sum(map(len, GROUPS.values())) == len(SUMMARIES)


@pytest.mark.parametrize("option", ["--before=x", "--system", "--output=json"])
def test_a_request_of_an_agent_has_only_its_own_options(gitsync: Gitsync, option: str) -> None:
    done = gitsync("agent", "restart", "triage", option)
    assert done.code == 2
    assert "No such option" in done.err
