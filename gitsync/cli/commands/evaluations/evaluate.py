"""Send the cases of an evaluation to agents, and write what they answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from gitsync.agents.evaluation import Case, CaseResult, Verdict, failure, judge
from gitsync.agents.model.evaluation import Evaluation
from gitsync.errors import ClusterUnavailable
from gitsync.integrations.a2a import send


def evaluate(cases: Sequence[Case], settings: Evaluation, url: str, serving: str = "") -> Verdict:
    """Return the verdict on the agent at a URL, compared with the one that serves, where there is one."""
    before = _reached(cases[0], settings, serving) if serving else False
    return judge(settings, [_result(case, settings, url, serving if before else "") for case in cases])


def _reached(case: Case, settings: Evaluation, url: str) -> bool:
    try:
        send(url, case.input, settings.timeout_seconds)
    except ClusterUnavailable:
        return False
    return True


def _result(case: Case, settings: Evaluation, url: str, serving: str) -> CaseResult:
    message = _failure(case, settings, url)
    was_passed = not _failure(case, settings, serving) if serving else None
    return CaseResult(case.name, not message, was_passed, message)


def _failure(case: Case, settings: Evaluation, url: str) -> str:
    try:
        return failure(case, send(url, case.input, settings.timeout_seconds))
    except ClusterUnavailable as error:
        return str(error)


def write_junit(path: Path, verdicts: dict[str, Verdict]) -> None:
    """Write verdicts by agent as JUnit XML, a suite for each agent."""
    root = ElementTree.Element("testsuites")
    for agent, verdict in verdicts.items():
        failed = sum(not one.is_passed for one in verdict.results)
        counts = {"name": agent, "tests": str(len(verdict.results)), "failures": str(failed)}
        suite = ElementTree.SubElement(root, "testsuite", counts)
        for one in verdict.results:
            case = ElementTree.SubElement(suite, "testcase", classname=agent, name=one.name)
            if not one.is_passed:
                ElementTree.SubElement(case, "failure", message=one.message)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
