"""``gitsync preview``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gitsync.cli.builds import collect_remotes
from gitsync.cli.change import CiJob, PreviewedChange, detect, local_change, pull_request_change
from gitsync.cli.dashboard import read_token
from gitsync.cli.options import ClusterTarget, Policies, command
from gitsync.cli.options import Remotes as RemoteUrls
from gitsync.cli.output import Exit, say, to_json
from gitsync.errors import InvalidInput, RemoteNeeded
from gitsync.gate.policy_files import PolicySet
from gitsync.objects.change import Risk
from gitsync.objects.remote import parse_remote
from gitsync.objects.tree import Tree
from gitsync.objects.urls import matches_url
from gitsync.preview.compare import Preview, Remotes, Rules, Sides
from gitsync.preview.compare import preview as preview_of
from gitsync.preview.documents import to_html, to_markdown
from gitsync.preview.report import PreviewReport, report_of, with_live, with_rehearsal
from gitsync.preview.roots import Root
from gitsync.preview.text import annotate, to_lines
from gitsync.workers.helm import HelmProgram

if TYPE_CHECKING:  # with the ports, of which a preview of 1 s needs none
    from gitsync.ports import RemoteBase


class PreviewFormat(StrEnum):
    """The forms of a preview."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    SCHEMA = "schema"


class MaxRisk(StrEnum):
    """The highest class that passes."""

    SAFE = "Safe"
    MODERATE = "Moderate"
    DANGEROUS = "Dangerous"


@command
def preview(
    cluster: ClusterTarget,
    change: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BASE..HEAD] [PATH]...",
            help="The commits to merge, by default the branch of the remote and HEAD; and the folders to cover.",
        ),
    ] = None,
    staged: Annotated[bool, typer.Option("--staged", help="Preview what is staged for a commit.")] = False,
    ci: Annotated[
        bool, typer.Option("--ci", help="Find base and head in the CI job, annotate lines, and write its summary.")
    ] = False,
    max_risk: Annotated[
        MaxRisk | None, typer.Option(help="Exit with 2 where a step is of a higher class than this.")
    ] = None,
    pull_request: Annotated[
        str, typer.Option("--pr", metavar="URL", help="Preview a pull request by its page, without a clone.")
    ] = "",
    token: Annotated[
        Path | None,
        typer.Option("--token-file", envvar="GITSYNC_GIT_TOKEN_FILE", help="The file with your token for its host."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Compare with the cluster too: what a sync of the merge would write.")
    ] = False,
    rehearse: Annotated[
        bool,
        typer.Option("--rehearse", help="Apply the change and its revert to a sandbox, and report what is refused."),
    ] = False,
    policies: Policies = None,
    remote: RemoteUrls = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the Markdown of a comment to this file.")
    ] = None,
    output: Annotated[
        PreviewFormat, typer.Option("--output", "-o", help="text, markdown, html, json, or the schema of the JSON.")
    ] = PreviewFormat.TEXT,
) -> Exit:
    """
    Show what a change in Git will do, without a cluster: objects, fields with lines, classes, effects. Exit code 1:
    something changes (with --ci: 0); 2: it cannot be merged or built, a policy or --rehearse rejects it, or --max-risk.
    """
    if output is PreviewFormat.SCHEMA:
        print(to_json(PreviewReport.model_json_schema()))
        return Exit.OK
    # ../folder is a path: a range has its dots in the last part
    spans = [item for item in change or () if ".." in item.split("/")[-1] or "..." in item]
    paths = [item for item in change or () if item not in spans]
    if len(spans) > 1 or (spans and staged):
        raise InvalidInput("name one range of commits, or --staged")
    job = detect(os.environ) if ci else None
    if not pull_request:
        previewed = local_change(spans[0] if spans else "", paths, job, staged=staged)
    elif spans or paths or staged:
        raise InvalidInput("name a pull request or a change of this clone, not both", location="--pr")
    else:
        previewed = pull_request_change(pull_request, read_token(token))
    known: Sequence[Root] = ()
    if live:
        from gitsync.cli.comparison import known_roots  # late, with its client of the cluster: most need none

        known = known_roots(cluster, previewed)
    comparison = _compared(previewed, policies, known, remote or ())
    merged = previewed.merge
    report = report_of(comparison, merged.base, merged.head, previewed.authors)
    if live:
        from gitsync.cli.comparison import live_changes

        report = with_live(report, live_changes(cluster, previewed, comparison, policies))
    if rehearse:
        from gitsync.cli.commands.rehearse import changes_of  # late, with the sandbox
        from gitsync.workers.rehearsals import rehearse_all

        report = with_rehearsal(report, rehearse_all(changes_of(previewed)))
    if markdown_file is not None:
        markdown_file.write_text(to_markdown(report), encoding="utf-8")
    if job is not None:
        _report_to(job, report)
    else:
        _print(report, output)
    return _exit_of(report, max_risk, is_ci=ci)


class _AllowedRemotes(Remotes):
    """What is fetched of other repositories for all folders; an allowed one that is missing ends the comparison."""

    def __init__(self, bases: Mapping[str, RemoteBase], allowed: Sequence[str]) -> None:
        super().__init__()
        self._bases = bases
        self._allowed = allowed

    def mounted(self, tree: Tree, key: str) -> Tree:
        """Return a tree with the files that were fetched."""
        if not self._bases:
            return tree
        from gitsync.sync.remote_bases import mounted  # late, with the engine

        return mounted(tree, self._bases)

    def problem_of(self, error: RemoteNeeded, key: str) -> tuple[str, bool]:
        """Return why a reference is not read; raise the error for one that the user allows."""
        wanted = parse_remote(error.reference)
        if wanted is not None and any(matches_url(pattern, wanted.url) for pattern in self._allowed):
            raise error
        return super().problem_of(error, key)


def _compared(change: PreviewedChange, policies: Path | None, known: Sequence[Root], allowed: Sequence[str]) -> Preview:
    policy_set = PolicySet()
    if policies:
        from gitsync.services.policies import read_policies  # late, with the engine: a preview of 1 s needs none of it

        policy_set = read_policies(policies)
    rules = Rules(policy_set.policies, policy_set.rules)

    def compared(bases: Mapping[str, RemoteBase]) -> Preview:
        return preview_of(
            Sides(change.base, change.result, change.merge.changed, HelmProgram()),
            change.is_own,
            rules,
            change.below,
            known,
            remotes=_AllowedRemotes(bases, allowed),
        )

    return collect_remotes(compared, allowed) if allowed else compared({})


def _print(report: PreviewReport, output: PreviewFormat) -> None:
    if output is PreviewFormat.JSON:
        print(to_json(report.model_dump(mode="json")))
    elif output is PreviewFormat.MARKDOWN:
        print(to_markdown(report), end="")
    elif output is PreviewFormat.HTML:
        print(to_html(report), end="")
    else:
        for line, style in to_lines(report):
            say(line, style)


def _report_to(job: CiJob, report: PreviewReport) -> None:
    for line in annotate(report, job.runner):
        print(line)
    if job.summary is not None:
        with job.summary.open("a", encoding="utf-8") as file:  # other steps of the job write to it too
            file.write(to_markdown(report))
    else:
        for line, _ in to_lines(report):
            print(line)


def _exit_of(report: PreviewReport, max_risk: MaxRisk | None, *, is_ci: bool) -> Exit:
    if not report.is_valid:
        return Exit.INVALID
    if max_risk is not None and Risk(report.risk).level > Risk(max_risk.value).level:
        say(f"the change is {report.risk}, at most {max_risk.value} passes", "red", is_warning=True)
        return Exit.INVALID
    return Exit.DIFFERENT if report.changes and not is_ci else Exit.OK
