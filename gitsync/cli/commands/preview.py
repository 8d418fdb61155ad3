"""``gitsync preview``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.applications import all_applications, connect, one_application
from gitsync.cli.change import CiJob, PreviewedChange, detect, local_change, pull_request_change
from gitsync.cli.comparison import Evaluator
from gitsync.cli.dashboard import read_token
from gitsync.cli.options import ClusterTarget, GitTarget, Policies, command
from gitsync.cli.output import Exit, say, to_json
from gitsync.errors import GitsyncError, InvalidInput
from gitsync.gate.policy_files import PolicySet
from gitsync.objects.application import parse_application
from gitsync.objects.change import Decision, Risk
from gitsync.preview.compare import Preview, RootChange, Rules, Sides
from gitsync.preview.compare import preview as preview_of
from gitsync.preview.effects import effects_of
from gitsync.preview.html import to_html
from gitsync.preview.markdown import to_markdown
from gitsync.preview.report import PreviewReport, report_of, with_live
from gitsync.preview.roots import Root
from gitsync.preview.text import annotate, to_lines
from gitsync.services.policies import read_policies
from gitsync.source.validation import clean_path


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
    policies: Policies = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the Markdown of a comment to this file.")
    ] = None,
    output: Annotated[
        PreviewFormat, typer.Option("--output", "-o", help="text, markdown, html, json, or the schema of the JSON.")
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
    job = detect(os.environ) if ci else None
    if not pull_request:
        previewed = local_change(spans[0] if spans else "", paths, job, staged=staged)
    elif spans or paths or staged:
        raise InvalidInput("name a pull request or a change of this clone, not both", location="--pr")
    else:
        previewed = pull_request_change(pull_request, read_token(token))
    known = _known(cluster, previewed) if live else ()
    comparison = _compared(previewed, policies, known)
    merged = previewed.merge
    report = report_of(comparison, merged.base, merged.head, previewed.authors)
    if live:
        report = with_live(report, _live_changes(cluster, previewed, comparison, policies))
    if markdown_file is not None:
        markdown_file.write_text(to_markdown(report), encoding="utf-8")
    if job is not None:
        _report_to(job, report)
    else:
        _print(report, output)
    return _exit_of(report, max_risk, is_ci=ci)


def _known(cluster: ClusterTarget, change: PreviewedChange) -> tuple[Root, ...]:
    """Return the folders of the repository that Applications of the cluster deploy, declared in it or not."""
    applications = (parse_application(manifest) for manifest in all_applications(connect(cluster.cluster)))
    return tuple(Root(clean_path(app.source.path), app) for app in applications if change.is_own(app.source.repo_url))


def _compared(change: PreviewedChange, policies: Path | None, known: Sequence[Root]) -> Preview:
    policy_set = read_policies(policies) if policies else PolicySet()
    return preview_of(
        Sides(change.base, change.result, change.merge.changed),
        change.is_own,
        Rules(policy_set.policies, policy_set.rules),
        change.below,
        known,
    )


def _live_changes(
    cluster: ClusterTarget, change: PreviewedChange, comparison: Preview, policies: Path | None
) -> Iterator[RootChange]:
    """Yield what a sync of the merge would write for each Application whose folder changes, drift included."""
    roots = {root for item in comparison.changes for root in item.roots if root.application}
    for root in sorted(roots, key=lambda item: item.name):
        app = root.application
        if app is None:
            continue
        target = GitTarget(
            kubeconfig=cluster.kubeconfig, data=cluster.data, name=app.name, namespace=app.namespace, policies=policies
        )
        try:
            evaluator = Evaluator(target)
            manifest = one_application(evaluator.client, app.namespace, app.name)
            evaluated = evaluator.evaluate_tree(manifest, change.result, root.path)
        except GitsyncError as error:  # the others are compared all the same
            yield RootChange((root,), problem=str(error))
            continue
        steps = tuple(evaluated.plan.outstanding)
        is_rejected = evaluated.verdict.decision is Decision.REFUSED
        violations = evaluated.verdict.reasons if is_rejected else ()
        yield RootChange((root,), steps, effects_of(steps, {}), violations, evaluated.traces)


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
