"""``gitsync preview``."""

from __future__ import annotations

import os
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.ci import CiJob, detect
from gitsync.cli.options import Policies, command
from gitsync.cli.output import Exit, say, to_json
from gitsync.errors import InvalidInput
from gitsync.gate.policy_files import PolicySet
from gitsync.objects.change import Risk
from gitsync.objects.urls import matches_url
from gitsync.ports import MergeResult
from gitsync.preview.annotations import annotate
from gitsync.preview.compare import Rules, Sides
from gitsync.preview.compare import preview as preview_of
from gitsync.preview.markdown import to_markdown
from gitsync.preview.report import PreviewReport, report_of
from gitsync.preview.text import to_lines
from gitsync.services.policies import read_policies
from gitsync.source.proposals import LocalRepository, merge

_DEFAULT_BASES = ("refs/remotes/origin/HEAD", "origin/main", "origin/master", "main", "master")
"""What a change is compared with where nothing is named: the branch that a clone checks out, then common names."""


class PreviewFormat(StrEnum):
    """The forms of a preview."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    SCHEMA = "schema"


class MaxRisk(StrEnum):
    """The highest class that passes."""

    SAFE = "Safe"
    MODERATE = "Moderate"
    DANGEROUS = "Dangerous"


@command
def preview(
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
    policies: Policies = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the Markdown of a comment to this file.")
    ] = None,
    output: Annotated[
        PreviewFormat, typer.Option("--output", "-o", help="text, markdown, json, or the schema of the JSON.")
    ] = PreviewFormat.TEXT,
) -> Exit:
    """
    Show what a change in Git will do, without a cluster: objects, fields with lines, classes, effects. Exit code 1:
    something changes (with --ci: 0); 2: it cannot be merged or built, a policy rejects it, or --max-risk.
    """
    if output is PreviewFormat.SCHEMA:
        print(to_json(PreviewReport.model_json_schema()))
        return Exit.OK
    # ../folder is a path: a range has its dots in the last part
    spans = [item for item in change or () if ".." in item.split("/")[-1] or "..." in item]
    paths = [item for item in change or () if item not in spans]
    if len(spans) > 1 or (spans and staged):
        raise InvalidInput("name one range of commits, or --staged")
    # the repository of the first path need not be that of the current folder
    repository = LocalRepository(Path(paths[0] if paths and Path(paths[0]).exists() else "."))
    job = detect(os.environ) if ci else None
    merged = repository.staged() if staged else _merged(repository, spans[0] if spans else "", job)
    report = _report(repository, merged, policies, paths)
    if markdown_file is not None:
        markdown_file.write_text(to_markdown(report), encoding="utf-8")
    if job is not None:
        _report_to(job, report)
    else:
        _print(report, output)
    return _exit_of(report, max_risk, is_ci=ci)


def _merged(repository: LocalRepository, span: str, job: CiJob | None) -> MergeResult:
    base, _, head = span.replace("...", "..").partition("..")
    head = head or (job.head if job else "HEAD")
    if base:
        return merge(repository, repository.commit(base), repository.commit(head))
    candidates = (*(job.bases if job else ()), *_DEFAULT_BASES)
    base_commit = next((commit for name in candidates if (commit := repository.find_commit(name))), "")
    if not base_commit:
        raise InvalidInput(
            "no base to compare with: the repository has no remote branch",
            hint="name it: gitsync preview main..HEAD",
        )
    return merge(repository, base_commit, repository.commit(head))


def _report(repository: LocalRepository, merged: MergeResult, policies: Path | None, paths: list[str]) -> PreviewReport:
    policy_set = read_policies(policies) if policies else PolicySet()
    urls = repository.urls()
    below = [Path(os.path.abspath(path)).relative_to(repository.top).as_posix() for path in paths]
    base = repository.tree(merged.base)
    result = repository.tree(merged.commit)
    try:
        comparison = preview_of(
            Sides(base, result, merged.changed),
            # without a remote every URL may be that of this repository
            lambda url: not urls or any(matches_url(own, url) for own in urls),
            Rules(policy_set.policies, policy_set.rules),
            ["" if path == "." else path for path in below],
        )
        return report_of(comparison, merged.base, merged.head, partial(repository.authors, merged.commit))
    finally:
        base.close()
        result.close()


def _print(report: PreviewReport, output: PreviewFormat) -> None:
    if output is PreviewFormat.JSON:
        print(to_json(report.model_dump(mode="json")))
    elif output is PreviewFormat.MARKDOWN:
        print(to_markdown(report), end="")
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
