"""``gitsync eval``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import orjson
import typer

from gitsync.agents.evaluation.cases import Case, imported, parse_cases
from gitsync.agents.evaluation.verdict import EvaluationResult, EvaluationVerdict
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.model.evaluation import Evaluation
from gitsync.cli.agent_evaluation import JUDGE_KEY, evaluate, running_agents, write_junit
from gitsync.cli.builds import BuildOptions
from gitsync.cli.options import command
from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ref_of
from gitsync.render.yaml.reader import read_all
from gitsync.source.local import open_path
from gitsync.workers import protocol

_SUMMARY_BYTES = 4000
"""Kubernetes keeps 4096 bytes of a termination message."""


@command
def eval(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="The folder with the Agents and their cases.")] = "",
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only this Agent; by default all with cases.")] = "",
    cases: Annotated[Path | None, typer.Option(help="Cases as JSON Lines, instead of those of PATH.")] = None,
    url: Annotated[str, typer.Option(help="The agent to ask; by default the Agents of PATH run in a sandbox.")] = "",
    serving: Annotated[str, typer.Option(help="The agent to compare with.")] = "",
    settings: Annotated[str, typer.Option(help="The members of spec.evaluation as JSON, for --cases.")] = "{}",
    judge: Annotated[
        str,
        typer.Option(
            envvar="GITSYNC_JUDGE_URL",
            help="The endpoint of the judge that GITSYNC_JUDGE_KEY is for; one that PATH names gets no key.",
        ),
    ] = "",
    images: Annotated[
        Path | None, typer.Option(help="The images of the sandbox that run; by default the demo's.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit XML to this file.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write the verdict as JSON to this file.")] = None,
    promptfoo: Annotated[
        Path | None, typer.Option(help="Print the tests of this promptfoo configuration as cases, and ask nothing.")
    ] = None,
) -> Exit:
    """Ask agents the cases of their evaluation, and compare the answers with the assertions."""
    if promptfoo is not None:
        return _import(promptfoo)
    if cases is not None:
        members = {"cases": {"name": "file", "key": cases.name}, **orjson.loads(settings)}
        given_cases = parse_cases(cases.read_text(encoding="utf-8"), str(cases))
        verdicts = {agent or url: evaluate(given_cases, Evaluation.model_validate(members), _needed(url), serving)}
    else:
        manifests = [
            protocol.as_received(manifest) for manifest in BuildOptions().render(open_path(_needed(path), "")).manifests
        ]
        _check_judge(manifests, judge)
        verdicts = _of_folder(manifests, agent, url, images)
    return _report(verdicts, junit, summary)


def _import(file: Path) -> Exit:
    """Print cases to standard output, and what has no counterpart to standard error."""
    document = next(iter(read_all(file.read_text(encoding="utf-8"), str(file))), None)
    imported_cases = imported(document, str(file))
    for case in imported_cases.cases:
        typer.echo(orjson.dumps(case).decode())
    for line in imported_cases.left_out:
        typer.echo(f"not imported: {line}", err=True)
    return Exit.DIFFERENT if imported_cases.left_out else Exit.OK


def _needed(value: str) -> str:
    if not value:
        raise InvalidInput(
            "what to evaluate is not named", hint="gitsync eval PATH, or gitsync eval --cases FILE --url URL"
        )
    return value


def _check_judge(manifests: list[Manifest], endpoint: str) -> None:
    """Raise InvalidInput where a folder names another judge than the one that the key is for."""
    named = {str(at(manifest, "spec", "evaluation", "judge", "endpoint", default="")) for manifest in manifests}
    others = named - {"", endpoint}
    # before anything runs: who writes the folder, as in a pull request, need not be who has the key
    if others and os.environ.get(JUDGE_KEY):
        raise InvalidInput(
            f"the key of {JUDGE_KEY} would be sent to {', '.join(sorted(others))}, which the folder names",
            location="spec.evaluation.judge.endpoint",
            hint="name the endpoint that it is for with --judge (GITSYNC_JUDGE_URL)",
        )


def _of_folder(manifests: list[Manifest], name: str, url: str, images: Path | None) -> dict[str, EvaluationVerdict]:
    agents = [parse_agent(agent) for agent in manifests if agent.get("kind") == "Agent"]
    chosen = [
        (agent, agent.spec.evaluation)
        for agent in agents
        if agent.spec.evaluation is not None and name in ("", agent.name)
    ]
    if not chosen:
        named = f" {name}" if name else ""
        raise InvalidInput(f"no Agent{named} with spec.evaluation", hint="see docs/agents-evaluate.md")
    cases_by_agent = {agent.name: (cases_of(settings, manifests), settings) for agent, settings in chosen}
    if url:
        return {key: evaluate(*cases, url) for key, cases in cases_by_agent.items()}
    with running_agents(manifests, [agent for agent, _ in chosen], images) as urls:
        return {key: evaluate(*cases, urls[key]) for key, cases in cases_by_agent.items()}


def cases_of(settings: Evaluation, manifests: list[Manifest]) -> tuple[Case, ...]:
    """Return the cases of an evaluation from the ConfigMap beside its Agent."""
    wanted = settings.cases
    config_map = next(
        (
            manifest
            for manifest in manifests
            if manifest.get("kind") == "ConfigMap" and ref_of(manifest).name == wanted.name
        ),
        None,
    )
    text = at(config_map, "data", wanted.key) if config_map else None
    if not isinstance(text, str):
        raise InvalidInput(
            f"the folder has no ConfigMap {wanted.name} with member {wanted.key}", location="spec.evaluation"
        )
    return parse_cases(text, f"{wanted.name}/{wanted.key}")


def _report(verdicts: dict[str, EvaluationVerdict], junit: Path | None, summary: Path | None) -> Exit:
    for name, verdict in verdicts.items():
        say(f"{name}: {verdict.message}", "green" if verdict.is_passed else "red")
        for result in verdict.results:
            if not result.is_passed:
                say(f"  {result.name}: {result.message}")
    if junit is not None:
        write_junit(junit, verdicts)
    if summary is not None:
        # in place: the termination log of a Pod is a mounted file, which no rename can replace
        summary.write_bytes(orjson.dumps(next(iter(verdicts.values())).to_status(_SUMMARY_BYTES)))
    results = {verdict.result for verdict in verdicts.values()}
    # a failure is certain, and an inconclusive result of another agent does not hide it
    if EvaluationResult.FAILED in results:
        return Exit.DIFFERENT
    return Exit.UNAVAILABLE if EvaluationResult.INCONCLUSIVE in results else Exit.OK
