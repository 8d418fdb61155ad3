"""Send the cases of an evaluation to agents, and write what they answered."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from gitsync.agents.evaluation.cases import Case, failure
from gitsync.agents.evaluation.verdict import CaseResult, Verdict, judge, question
from gitsync.agents.model.evaluation import Evaluation
from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.files import PUBLIC, write_file
from gitsync.integrations.agent_evaluation import ask_judge, send

JUDGE_KEY = "GITSYNC_JUDGE_KEY"
"""The environment variable with the key for the model that judges."""


def evaluate(cases: Sequence[Case], settings: Evaluation, url: str, serving: str = "") -> Verdict:
    """Return the verdict on the agent at a URL, compared with the one that serves, where there is one."""
    asker = Asker(settings)
    before = bool(serving) and asker.reaches(cases[0], serving)
    return judge(settings, [_result(asker, case, url, serving if before else "") for case in cases])


class Asker:
    """Ask agents, and the model that judges their answers, within the limits of an evaluation."""

    def __init__(self, settings: Evaluation) -> None:
        self._settings = settings
        self._began, self._calls, self._tokens = time.monotonic(), 0, 0

    def reaches(self, case: Case, url: str) -> bool:
        """Whether an agent answers."""
        self._calls += 1
        try:
            self._tokens += send(url, case.input, self._settings.timeout_seconds).tokens
        except ClusterUnavailable:
            return False
        return True

    def failure(self, case: Case, url: str) -> str:
        """Return why the agent at a URL fails a case, empty where it passes."""
        try:
            self._spend()
            answer = send(url, case.input, self._settings.timeout_seconds)
            self._tokens += answer.tokens
            return failure(case, answer, partial(self._grade, case) if self._settings.judge else None)
        except (ClusterUnavailable, InvalidInput) as error:
            return str(error)

    def _grade(self, case: Case, rubric: str, text: str) -> str:
        if self._settings.judge is None:
            raise ValueError("no model judges")
        self._spend()
        key, seconds = os.environ.get(JUDGE_KEY, ""), self._settings.timeout_seconds
        why, tokens = ask_judge(self._settings.judge, key, question(rubric, case.input, text), seconds)
        self._tokens += tokens
        return why

    def _spend(self) -> None:
        """Count a call; raise InvalidInput that names the limit that is reached."""
        limits, seconds = self._settings.limits, time.monotonic() - self._began
        used = {"seconds": (seconds, limits.seconds), "calls": (self._calls, limits.calls)}
        for name, (count, most) in {**used, "tokens": (self._tokens, limits.tokens)}.items():
            if most is not None and count >= most:
                raise InvalidInput(f"not asked: the limit of {most} {name} is reached", location="limits")
        self._calls += 1


def _result(asker: Asker, case: Case, url: str, serving: str) -> CaseResult:
    message = asker.failure(case, url)
    was_passed = not asker.failure(case, serving) if serving else None
    return CaseResult(case.name, not message, was_passed, message)


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
    write_file(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True), PUBLIC)
