"""``gitsync eval``: run the agents of a folder in a sandbox, send the cases to them, and judge the answers."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree

import orjson
import typer

from gitsync.agents.evaluation.assertions import AgentAnswer
from gitsync.agents.evaluation.cases import Case, Imported, failure, imported, parse_cases
from gitsync.agents.evaluation.samples import AnswerOutcome, AnswerSample, ask_case, vote
from gitsync.agents.evaluation.traces import drafted
from gitsync.agents.evaluation.verdict import CaseResult, EvaluationResult, EvaluationVerdict, judge, question
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.model.evaluation import Evaluation, Judge
from gitsync.cli.builds import BuildOptions
from gitsync.cli.options import command, load_settings
from gitsync.cli.output import Exit, say
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.files import PUBLIC, write_file
from gitsync.integrations.agent_evaluation import ask_judge, send
from gitsync.integrations.traces import TraceReceiver
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.plan.order import stage_of
from gitsync.render.yaml.reader import read_all
from gitsync.sandbox.processes.environment import read_images
from gitsync.sandbox.server import Sandbox
from gitsync.source.local import open_path
from gitsync.wiring import build_controller
from gitsync.workers import protocol

JUDGE_KEY = "GITSYNC_JUDGE_KEY"
"""The environment variable with the key for the model that judges."""
_OTLP = re.compile(r"otlp(://(?P<host>[^:/]*)(:(?P<port>[0-9]{1,5}))?)?")
_OTLP_PORT = 4318  # of OTLP over HTTP, as registered with IANA
_LIMITS = "limits"
_MANAGER = "gitsync-eval"
_CLUSTER_SCOPED = frozenset({"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"})
_PATIENCE = 180.0
_PERIOD = 0.2
_SUMMARY_BYTES = 4000
"""Kubernetes keeps 4096 bytes of a termination message."""


@command
def eval(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="The folder with the Agents and their cases.")] = "",
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only this Agent; by default all with cases.")] = "",
    cases: Annotated[Path | None, typer.Option(help="Cases as JSON Lines, instead of those of PATH.")] = None,
    url: Annotated[str, typer.Option(help="The agent to ask; by default the Agents of PATH run in a sandbox.")] = "",
    serving: Annotated[str, typer.Option(help="The agent to compare with.")] = "",
    wait: Annotated[int, typer.Option(help="Seconds until the agent at --url has to answer the first time.")] = 0,
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
    traces: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Print the conversations of these traces (OTLP in JSON; -: standard input; otlp: those that are sent"
            " until Ctrl-C) that failed or were rated as drafts of cases, and ask nothing.",
        ),
    ] = "",
) -> Exit:
    """Ask agents the cases of their evaluation, and compare the answers with the assertions."""
    if promptfoo is not None:
        document = next(iter(read_all(promptfoo.read_text(encoding="utf-8"), str(promptfoo))), None)
        return _print(imported(document, str(promptfoo)))
    if traces:
        drafts = drafted(*_traces(traces))
        say("names of people and places are not masked: read the drafts before you commit them", is_warning=True)
        return _print(drafts)
    if cases is not None:
        members = {"cases": {"name": "file", "key": cases.name}, **orjson.loads(settings)}
        given_cases = parse_cases(cases.read_text(encoding="utf-8"), str(cases))
        evaluation = Evaluation.model_validate(members)
        await_agent(given_cases[0], evaluation, _needed(url), wait)
        verdicts = {agent or url: evaluate(given_cases, evaluation, url, serving)}
    else:
        manifests = [
            protocol.as_received(manifest) for manifest in BuildOptions().render(open_path(_needed(path), "")).manifests
        ]
        _check_judge(manifests, judge)
        verdicts = _of_folder(manifests, agent, url, images)
    return _report(verdicts, junit, summary)


def _traces(source: str) -> tuple[str, str]:
    """Return the text of traces and its place: a file, standard input, or what exporters send until Ctrl-C."""
    if source == "-":
        return sys.stdin.read(), "standard input"
    address = _OTLP.fullmatch(source)
    if address is None:
        return Path(source).read_text(encoding="utf-8"), source
    host = address["host"] or "127.0.0.1"
    with TraceReceiver(host, int(address["port"] or _OTLP_PORT)) as receiver:
        # to standard error: standard output has the drafts
        say(f"receives OTLP in JSON at http://{host}:{receiver.server_port} until Ctrl-C", is_warning=True)
        # Ctrl-C is the end that the user chooses, and not an error.
        with contextlib.suppress(KeyboardInterrupt):
            receiver.serve_forever()
        return "\n".join(receiver.documents), source


def _print(imported_cases: Imported) -> Exit:
    """Print cases to standard output, and what has no counterpart to standard error."""
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


def evaluate(cases: Sequence[Case], settings: Evaluation, url: str, serving: str = "") -> EvaluationVerdict:
    """Return the verdict on the agent at a URL, compared with the one that serves, where there is one."""
    asker = Asker(settings)
    # once, by the first case: an agent that does not answer would cost a timeout for each of them
    is_serving = bool(serving) and asker.reaches(cases[0], serving)
    return judge(settings, [_result(asker, case, url, serving if is_serving else "") for case in cases])


def await_agent(case: Case, settings: Evaluation, url: str, seconds: int) -> None:
    """Ask the agent at a URL until it answers, or until these seconds are over; what it answers does not count."""
    deadline = time.monotonic() + seconds
    # one that does not come up is found by the evaluation, which then says why
    while time.monotonic() < deadline and not Asker(settings).reaches(case, url):
        time.sleep(_PERIOD)


class Asker:
    """Ask agents, and the model that judges their answers, within the limits of an evaluation."""

    def __init__(self, settings: Evaluation) -> None:
        self._settings = settings
        self._began = time.monotonic()
        self._calls = 0
        self._tokens = 0

    def reaches(self, case: Case, url: str) -> bool:
        """Whether an agent answers."""
        # counted as well: it costs what any other question costs
        self._calls += 1
        try:
            self._tokens += self._send(case, url).tokens
        except ClusterUnavailable:
            return False
        return True

    @property
    def settings(self) -> Evaluation:
        """What the evaluation is to be."""
        return self._settings

    def sample(self, case: Case, url: str) -> AnswerSample:
        """Return how the agent at a URL does a case once; unknown where the agent or the judge has no answer."""
        try:
            self._spend()
            answer = self._send(case, url)
            self._tokens += answer.tokens
            message = failure(case, answer, partial(self._grade, case) if self._settings.judge else None)
        except ClusterUnavailable as error:
            return AnswerSample(AnswerOutcome.UNKNOWN, str(error))
        except InvalidInput as error:
            # A case beyond a limit fails, as documented; a judge without a verdict says nothing about the agent.
            return AnswerSample(
                AnswerOutcome.FAILED if error.location == _LIMITS else AnswerOutcome.UNKNOWN, str(error)
            )
        return AnswerSample(AnswerOutcome.FAILED, message) if message else AnswerSample(AnswerOutcome.PASSED)

    def _send(self, case: Case, url: str) -> AgentAnswer:
        return send(url, case.input, self._settings.timeout_seconds, self._settings.http)

    def _grade(self, case: Case, rubric: str, text: str) -> str:
        """Return why most votes of the judge reject an answer; raise InvalidInput where no side has most of them."""
        judge = self._settings.judge
        if judge is None:
            raise ValueError("no model judges")
        decided = vote(partial(self._vote, judge, question(rubric, case.input, text)), judge.votes)
        if decided.outcome is AnswerOutcome.UNKNOWN:
            raise InvalidInput(decided.message or "the judge did not agree with itself")
        return decided.message

    def _vote(self, judge: Judge, asked: str) -> AnswerSample:
        self._spend()
        why, tokens = ask_judge(judge, os.environ.get(JUDGE_KEY, ""), asked, self._settings.timeout_seconds)
        self._tokens += tokens
        return AnswerSample(AnswerOutcome.FAILED, why) if why else AnswerSample(AnswerOutcome.PASSED)

    def _spend(self) -> None:
        """Count a call; raise InvalidInput that names the limit that is reached."""
        limits = self._settings.limits
        seconds = time.monotonic() - self._began
        used = {"seconds": (seconds, limits.seconds), "calls": (self._calls, limits.calls)}
        for name, (count, most) in {**used, "tokens": (self._tokens, limits.tokens)}.items():
            if most is not None and count >= most:
                raise InvalidInput(f"not asked: the limit of {most} {name} is reached", location=_LIMITS)
        self._calls += 1


def _result(asker: Asker, case: Case, url: str, serving: str) -> CaseResult:
    ask_serving = partial(asker.sample, case, serving) if serving else None
    return ask_case(case.name, asker.settings, partial(asker.sample, case, url), ask_serving)


def write_junit(path: Path, verdicts: dict[str, EvaluationVerdict]) -> None:
    """Write verdicts by agent as JUnit XML, a suite for each agent."""
    root = ElementTree.Element("testsuites")
    for agent, verdict in verdicts.items():
        # JUnit distinguishes what failed from what could not be tested
        errors = sum(result.is_inconclusive for result in verdict.results)
        failed = sum(not result.is_passed for result in verdict.results) - errors
        tests = str(len(verdict.results))
        counts = {"name": agent, "tests": tests, "failures": str(failed), "errors": str(errors)}
        suite = ElementTree.SubElement(root, "testsuite", counts)
        for result in verdict.results:
            case = ElementTree.SubElement(suite, "testcase", classname=agent, name=result.name)
            if not result.is_passed:
                kind = "error" if result.is_inconclusive else "failure"
                ElementTree.SubElement(case, kind, message=result.message)
    write_file(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True), PUBLIC)


@contextlib.contextmanager
def running_agents(
    manifests: Sequence[Manifest], agents: Sequence[Agent], images: Path | None
) -> Iterator[dict[str, str]]:
    """Run what a folder renders to, and yield the URLs of these Agents by name once they are ready."""
    table = read_images(images or Path(str(files("gitsync.demo_agents") / "images.yaml")))
    # the sandbox ends before the folder with its kubeconfig and data is removed
    with tempfile.TemporaryDirectory(prefix="gitsync-eval-") as folder, Sandbox(images=table) as sandbox:
        kubeconfig = sandbox.kubeconfig(Path(folder) / "kubeconfig")
        client = Client(Connection(str(kubeconfig)))
        cluster = KubernetesCluster(client)
        CrdInstaller(cluster, install=True).start()  # waits until the API server serves the kinds
        _create_namespace(cluster, "gitsync")  # for the Lease of the controller
        controller = build_controller(load_settings(kubeconfig=str(kubeconfig), data=Path(folder) / "data"))
        controller.start()
        try:
            _apply(cluster, manifests)
            _wait(cluster, agents)
            os.environ["http_proxy"] = sandbox.proxy_url  # how urllib finds the Services of the sandbox
            yield {
                agent.name: f"http://{agent.name}.{_namespace(agent.namespace)}:{agent.spec.runtime.port}/"
                for agent in agents
            }
        finally:
            os.environ.pop("http_proxy", None)
            controller.stop()
            client.close()


def _apply(cluster: KubernetesCluster, manifests: Sequence[Manifest]) -> None:
    # namespaces and definitions before what needs them
    ordered = sorted(map(_unchecked, manifests), key=lambda manifest: stage_of(ref_of(manifest).of))
    known = {ref_of(manifest).name for manifest in ordered if manifest.get("kind") == "Namespace"}
    # a cluster has them already where it runs these agents
    for name in sorted({_namespace(ref_of(manifest).namespace) for manifest in ordered} - known):
        _create_namespace(cluster, name)
    for manifest in ordered:
        cluster.apply(manifest, manager=_MANAGER)


def _create_namespace(cluster: KubernetesCluster, name: str) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager=_MANAGER)


def _unchecked(manifest: Manifest) -> Manifest:
    """Return a manifest with a namespace, an Agent without the evaluation that this command does itself."""
    spec = manifest.get("spec")
    if manifest.get("kind") == "Agent" and isinstance(spec, dict):
        manifest = {**manifest, "spec": {name: value for name, value in spec.items() if name != "evaluation"}}
    if manifest.get("kind") in _CLUSTER_SCOPED:
        return manifest
    return {**manifest, "metadata": {**metadata_of(manifest), "namespace": _namespace(ref_of(manifest).namespace)}}


def _namespace(name: str) -> str:
    return name or "default"


def _wait(cluster: KubernetesCluster, agents: Sequence[Agent]) -> None:
    deadline = time.monotonic() + _PATIENCE
    for agent in agents:
        ref = agent.ref
        while True:
            live = cluster.read(ref._replace(namespace=_namespace(ref.namespace)), VERSION)
            if at(live, "status", "phase") == "Running":
                break
            if time.monotonic() > deadline:
                why = [condition.get("message", "") for condition in at(live, "status", "conditions", default=[])]
                raise ClusterUnavailable(f"{agent.name} is not ready: {'; '.join(filter(None, why))}")
            time.sleep(_PERIOD)
