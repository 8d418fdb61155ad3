"""
Pull requests of hostile authors break nothing, mention no user and inject nothing.

``GITSYNC_HOSTILE`` gives the number of pull requests (default 40). A CommonMark parser judges the comment.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from gitsync.controllers.commit_statuses import preview_status
from gitsync.errors import InvalidInput, one_line
from gitsync.objects.record import Commit
from gitsync.ports.previews import Proposal, ProposalView
from gitsync.preview.compare import Sides, preview
from gitsync.preview.documents import COMMENT_LIMIT, MARKER, problem_markdown, to_html, to_markdown
from gitsync.preview.report import PreviewReport, report_of
from gitsync.preview.text import Runner, annotate, to_lines
from tests.preview.factories import deployment
from tests.render.kustomize_cases import MemoryTree

COUNT = int(os.environ.get("GITSYNC_HOSTILE", "40"))
CHUNK = 20
"""Pull requests of one test."""
WORDS = r"""
    @all @org/team #1 !2 $3 /close <script>alert(1)</script> <img src=x onerror=alert(1)> </details> </code></pre>
    <!-- --> ``` ```` ` ~~~ ![x](http://evil.example) [x](javascript:alert(1)) http://evil.example ::error::x ##[group]
    %0A::set-output {{7*7}} ${{secrets.T}} &lt; &#64;all *b* _i_ |a|b| \ ' " --- ... : - ? &a *a
    !!python/object:os.system !<tag:x> %YAML {a: [x]} é 💣 ../../etc/passwd .git/config
"""
PIECES = [
    *WORDS.split(),
    *(" ", "\t", "\n", "\r\n", "\n\n# h", "\n/merge", "\x00", "\x1b[31m", "\x1b]8;;http://evil.example\x07", "\x7f"),
    *("\u0085", "\u200b", "\u2028", "\u202e", "\u2066", "\ufeff", "\ufffe", "\U000e0041", "a" * 5000),
]
BOMB = (
    "a: &a ["
    + "x," * 50
    + "]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 50)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
)
SETTINGS = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, "data": {"a": "b"}}'
BASE: dict[str, bytes | str] = {
    "prod/kustomization.yaml": b"resources: [web.yaml, settings.yaml]\n",
    "prod/web.yaml": deployment().encode(),
    "prod/settings.yaml": SETTINGS.encode(),
}
INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f\x85\u200b\u2028\u202a-\u202e\u2066-\u2069\ufeff]")
MARKDOWN_TAGS = {"h3", "h4", "p", "code", "pre", "ul", "li", "strong", "details", "summary"}
PAGE_TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "ul", "li", "b", "code", "pre"}


def hostile(rng: random.Random, most: int = 4) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, most)))


def changed(rng: random.Random, kind: int) -> dict[str, bytes | str]:
    """Return the files of a pull request of one of eleven kinds."""

    def word(most: int = 4) -> str:
        return hostile(rng, most)

    declared = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}}
    match kind:
        case 0 | 1:
            named = {**declared, "metadata": {"name": "p", "annotations": {word(): word()}}}
            return {"prod/settings.yaml": _json({**named, "data": {word(): word(8), "a": word(8)}})}
        case 2:
            names = {"apiVersion": word(2), "kind": word(2), "metadata": {"name": word(2), "namespace": word(1)}}
            return {"prod/settings.yaml": _json({**names, "spec": {word(): [word(), {word(): None}]}})}
        case 3:
            template = {"spec": {"containers": word(), "volumes": [word(), {"configMap": word()}]}}
            return {
                "prod/web.yaml": _json({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}})
            }
        case 4:
            return {"prod/settings.yaml": word(12).encode()}
        case 5:
            return {
                "prod/settings.yaml": rng.choice([BOMB, "a: " + "[" * 20_000, "{" * 20_000, "? " * 20_000]).encode()
            }
        case 6:
            resources = ["web.yaml", "settings.yaml", word(), "../../../../etc/passwd"]
            return {"prod/kustomization.yaml": _json({"resources": resources})}
        case 7:
            field = rng.choice(
                ["namePrefix", "patches", "images", "configMapGenerator", "labels", "components", "helmCharts"]
            )
            item = {"name": word(), "newTag": word(), "files": [word()], "patch": word(), "pairs": {word(): word()}}
            value = [item] if rng.random() < 0.7 else word()
            return {"prod/kustomization.yaml": _json({"resources": ["web.yaml", "settings.yaml"], field: value})}
        case 8:
            target = rng.choice(["/etc/passwd", "../../../etc/passwd", "settings.yaml", ".", word(1), "web.yaml"])
            return {"prod/settings.yaml": target}
        case 9:
            folder = re.sub("[\x00/]", "", word(2)) or "x"
            return {f"{folder}/kustomization.yaml": b"resources: [a.yaml]\n", f"{folder}/a.yaml": SETTINGS.encode()}
        case _:
            entries = {f"k{number}": word(2) for number in range(3000)}
            return {"prod/settings.yaml": _json({**declared, "data": entries})}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def reported(rng: random.Random, kind: int) -> PreviewReport | str:
    """Return the report of a pull request with hostile messages and authors, or why it has none."""
    result = {**BASE, **changed(rng, kind)}
    paths = frozenset(path for path in result if result[path] != BASE.get(path))
    try:
        made = preview(Sides(MemoryTree(BASE), MemoryTree(result), paths), lambda url: True)
    except InvalidInput as error:
        return str(error)
    author = hostile(rng, 3)
    return report_of(made, "a" * 40, "b" * 40, lambda places: {place: Commit("c" * 40, author) for place in places})


class Judge(HTMLParser):
    """Collect what a document of HTML has that only a hostile author can have put there."""

    def __init__(self, tags: set[str]) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self._tags = tags
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag == "code"
        if tag not in self._tags or any(name != "class" for name, _ in attrs):
            self.elements.append(f"<{tag} {attrs}>")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_data(self, data: str) -> None:
        # a host makes links of names and numbers wherever they are not in code
        if not self._code and re.search(r"@|://|[#!$]\d|^/", data):
            self.links.append(data[:80])


def faults_of(outcome: PreviewReport | str) -> Iterator[str]:
    """Yield what is wrong with what gitsync writes about a pull request."""
    report = outcome if isinstance(outcome, PreviewReport) else None
    problem = "" if isinstance(outcome, PreviewReport) else outcome
    comment = to_markdown(report) if report else problem_markdown(problem, "a" * 40, "b" * 40)
    judge = Judge(MARKDOWN_TAGS)
    judge.feed(MarkdownIt("commonmark", {"html": True}).enable(["table"]).render(comment))
    yield from (*judge.elements, *judge.links)
    if len(comment) > COMMENT_LIMIT or not comment.startswith(f"{MARKER}\n"):
        yield f"a comment of {len(comment)} characters that begins with {comment[:40]!r}"
    if INVISIBLE.search(comment):
        yield f"the comment has {INVISIBLE.findall(comment)!r}"
    page = "https://git.example.com/a/b/pulls/1"
    proposal = Proposal("https://git.example.com/a/b", "#1", "", "", "main", "change", "b" * 40, page)
    view = ProposalView(proposal, (), "a" * 40, report, problem, datetime.now(UTC))
    status = one_line(preview_status(view, None).description, 140)
    if INVISIBLE.search(status):
        yield f"the status is {status!r}"
    if report:
        yield from _faults_elsewhere(report)


def _faults_elsewhere(report: PreviewReport) -> Iterator[str]:
    page = Judge(PAGE_TAGS | {"ins", "del", "span", "code"})
    # the page has one meta element of its own
    text = to_html(report)
    page.feed(re.sub(r"<html[^>]*>|<meta [^>]*>", "", text))
    yield from page.elements
    for line, _ in to_lines(report):
        if INVISIBLE.search(line) or "\n" in line:
            yield f"the terminal gets {line[:80]!r}"
    for line in annotate(report, Runner.ACTIONS):
        if not line.startswith(("::error", "::warning")) or INVISIBLE.search(line) or "\n" in line:
            yield f"the runner gets {line[:80]!r}"


@pytest.mark.parametrize("start", range(0, COUNT, CHUNK))
def test_hostile_pull_requests_inject_nothing(start: int) -> None:
    for number in range(start, min(start + CHUNK, COUNT)):
        rng = random.Random(number)
        assert list(faults_of(reported(rng, number % 11))) == [], f"pull request {number}"
