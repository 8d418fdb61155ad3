"""
The report as a document: Markdown for a comment at a Git host or the summary of a CI job, or a page of HTML.

Names, values and messages come from the change, whose author may be anyone. They are written only inside code, where
GitHub, GitLab, Forgejo and Gitea interpret neither markup nor HTML nor mentions, with a fence that the text does not
contain and with invisible characters escaped. The page of HTML escapes them, and needs no other file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from gitsync.errors import counted, one_line
from gitsync.preview.report import PreviewReport, ReportedChange, ReportedField, ReportedStep
from gitsync.render.yaml.writer import write

MARKER = "<!-- gitsync preview -->"
"""The first line, by which a comment is found again to be updated."""
COMMENT_LIMIT = 60_000
"""Characters of a comment: GitHub accepts 65,536, GitLab and Gitea more."""

_LINE = 300
_CONTENT_LINES = 60
_NAMED_ROOTS = 12
_REFUSALS = 50
"""Refusals of a rehearsal that a comment lists."""
_BACKTICKS = re.compile(r"`+")
_VERBS = {"create": "Create", "update": "Update", "prune": "Delete"}
_HTML_LINE = 400
_TAGS = {"+": "ins", "-": "del"}
_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h2 { margin-top: 2rem } pre { overflow-x: auto; background: #f6f6f4; padding: .75rem; border-radius: 6px }
ins { background: #dff3e0; text-decoration: none } del { background: #fbe3e1; text-decoration: none }
.Dangerous { color: #a3140f } .Moderate { color: #7a4d00 } .Safe { color: #1c6b2a } .quiet { color: #5c5c5c }
"""


def to_markdown(report: PreviewReport, limit: int = COMMENT_LIMIT) -> str:
    """Return the report in at most ``limit`` characters; what is cut is counted."""
    text = f"{MARKER}\n{_headline(report)}\n"
    blocks = [_change(change) for change in report.changes]
    for index, block in enumerate(blocks):
        # The notice has to fit, too, wherever the report is cut.
        rest = _cut(report, len(blocks) - index)
        if len(text) + len(block) + len(rest) > limit:
            return text + rest
        text += block
    text += _unchanged(report)
    for block in (*_rehearsed(report), *(_change(change, "In the cluster: ") for change in report.live)):
        if len(text) + len(block) <= limit:
            text += block
    return text


def problem_markdown(problem: str, base: str, head: str) -> str:
    """Return the comment on a change without a report, such as one that conflicts."""
    return f"{MARKER}\n### gitsync: no preview\n\n{_code(base[:12])} → {_code(head[:12])}: {_code(problem)}\n"


def _headline(report: PreviewReport) -> str:
    between = f"{_code(report.base[:12])} → {_code(report.head[:12])}"
    if not report.changes:
        return f"### gitsync: nothing that is deployed changes\n\n{between}, {_folders(len(report.covered))} checked."
    invalid = "" if report.is_valid else ", cannot be applied"
    steps = [step for change in report.changes for step in change.steps]
    roots = sum(len(change.roots) for change in report.changes)
    return (
        f"### gitsync: {report.risk}{invalid}\n\n"
        f"{between} changes {counted(len(steps), 'object')} in {_folders(roots)} of {len(report.covered)}."
    )


def _change(change: ReportedChange, prefix: str = "") -> str:
    title = named_roots([_code(root) for root in change.roots])
    unable = "cannot be compared" if prefix else "cannot be built"
    return "\n".join((f"\n#### {prefix}{title}: {change.risk}\n", *_facts(change, unable), *_steps(change), ""))


def named_roots(roots: Sequence[str]) -> str:
    """Return the names of folders in which the same changes, the first twelve of them."""
    more = len(roots) - _NAMED_ROOTS
    return ", ".join(roots[:_NAMED_ROOTS]) + (f" and {more} more, in the same way" if more > 0 else "")


def _facts(change: ReportedChange, unable: str) -> Iterator[str]:
    """Yield what a reviewer has to know before the fields."""
    if change.applications:
        yield f"- deployed by {', '.join(_code(name) for name in change.applications[:_NAMED_ROOTS])}"
    if change.problem:
        yield f"- **{unable}**: {_code(change.problem)}"
    if change.base_problem:
        yield f"- cannot be compared, it was not valid before: {_code(change.base_problem)}"
    yield from (f"- **rejected by policy**: {_code(line)}" for line in change.violations)
    for step in change.steps:
        if step.risk != "Safe":
            yield f"- {step.risk}: {_code(step.object)}, {_code(step.reason)}"
    for effect in change.effects:
        yield f"- {'**cannot be undone**: ' if effect.is_loss else ''}{_code(effect.text)}"


def _steps(change: ReportedChange) -> Iterator[str]:
    if not change.steps:
        return
    lines = [line for step in change.steps for line in diff_lines(step)]
    # The only HTML of the report: it contains nothing that the change has written.
    yield f"\n<details><summary>{counted(len(change.steps), 'object')}</summary>\n"
    yield fenced(lines)
    yield "\n</details>"


def diff_lines(step: ReportedStep) -> list[str]:
    """Return a step as the lines of a diff: the object, then what is removed and added, and where it is set."""
    return list(_diff(step))


def _diff(step: ReportedStep) -> Iterator[str]:
    where = f"   # {step.where}" if step.where else ""
    replaces = f" (replaces {step.replaces})" if step.replaces else ""
    yield f"# {_VERBS.get(step.action, step.action)} {step.object}{replaces}{where}"
    for field in step.fields:
        yield from _field(field)
    if step.content is not None:
        mark = "-" if step.action == "prune" else "+"
        content = write(step.content).splitlines()
        yield from (f"{mark} {line}" for line in content[:_CONTENT_LINES])
        if len(content) > _CONTENT_LINES:
            yield f"{mark} … {len(content) - _CONTENT_LINES} more lines"


def _field(field: ReportedField) -> Iterator[str]:
    by = f", {field.commit[:7]} {field.author}" if field.commit else ""
    origin = f"   # {field.where}{by}" if field.where else ""
    if field.lines:
        yield f"  {field.path}:{origin}"
        yield from (f"{line.mark}     {line.text}" for line in field.lines)
    elif field.inside:
        yield f"  {field.path}:{origin}"
        for change in field.inside:
            yield from _sides(f"    {change.path}", change.before, change.after)
    else:
        yield from _sides(f" {field.path}", field.before, field.after, origin)


def _sides(path: str, old: Any, new: Any, origin: str = "") -> Iterator[str]:
    if old is not None:
        yield f"-{path}: {_value(old)}"
    if new is not None:
        yield f"+{path}: {_value(new)}{origin}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _unchanged(report: PreviewReport) -> str:
    if not report.changes or not report.unchanged:
        return ""
    return f"\nNothing changes in {_folders(len(report.unchanged))}.\n"


def _rehearsed(report: PreviewReport) -> Iterator[str]:
    rehearsal = report.rehearsal
    if rehearsal is None:
        return
    lines = [
        f"- {refusal.step} {_code(refusal.object)} in {_code(refusal.folder)}: {_code(refusal.problem)}"
        + (f", {_code(refusal.where)}" if refusal.where else "")
        for refusal in rehearsal.refusals[:_REFUSALS]
    ]
    if len(rehearsal.refusals) > _REFUSALS:
        lines.append(f"- and {len(rehearsal.refusals) - _REFUSALS} more")
    title = "refused" if lines else "nothing is refused, and a revert brings everything back"
    if rehearsal.not_judged:
        lines.append(f"- not judged: {', '.join(map(_code, rehearsal.not_judged))}")
    yield "\n".join((f"\n#### Rehearsal: {title}\n", *lines, ""))


def _cut(report: PreviewReport, count: int) -> str:
    command = _code(f"gitsync preview {report.base[:12]}..{report.head[:12]}")
    return f"\n**{counted(count, 'change')} more, cut here to fit a comment.** All of them: {command}\n"


def _code(text: str) -> str:
    """Return a text as inline code, which contains no run of backticks as long as its delimiter."""
    line = one_line(text, _LINE)
    delimiter = "`" * (_longest_run(line) + 1)
    # CommonMark strips one space on each side where the code begins or ends with a backtick
    padding = " " if line.startswith("`") or line.endswith("`") or not line.strip() else ""
    return f"{delimiter}{padding}{line}{padding}{delimiter}"


def fenced(lines: Iterable[str], language: str = "diff") -> str:
    """Return lines as a block of code whose fence they do not contain."""
    text = "\n".join(printable(line, _LINE) for line in lines)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def printable(line: str, limit: int) -> str:
    """Return one printable line with its mark and its indentation, which ``one_line`` strips."""
    # the mark too: the first character of a line can be that of a folder's name
    mark = line[:1] if line[:1] == " " else one_line(line[:1])
    indentation = len(line[1:]) - len(line[1:].lstrip(" "))
    return mark + " " * indentation + one_line(line[1:], limit)


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _folders(number: int) -> str:
    return counted(number, "deployed folder")


def to_html(report: PreviewReport) -> str:
    """Return the page; everything that the change has written is escaped."""
    title = f"gitsync preview: {report.risk}" if report.changes else "gitsync preview: nothing that is deployed changes"
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            # nothing is loaded and nothing runs, whatever the change contains
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f"<p><code>{_html_text(report.base[:12])}</code> → <code>{_html_text(report.head[:12])}</code>, "
            f"{len(report.covered)} deployed folders checked, {len(report.unchanged)} unchanged.</p>",
            *(line for change in report.changes for line in _html_change(change, "")),
            *_html_rehearsal(report),
            *(line for change in report.live for line in _html_change(change, "In the cluster: ")),
            "</body></html>\n",
        )
    )


def _html_change(change: ReportedChange, prefix: str) -> Iterator[str]:
    names = change.applications if prefix else change.roots
    yield f"<h2>{prefix}{_html_text(named_roots(names))} {_risk_class(change.risk)}</h2>"
    yield "<ul>"
    if change.applications and not prefix:
        yield f"<li>deployed by {_html_text(', '.join(change.applications))}</li>"
    if change.problem:
        yield f"<li><b>{'cannot be compared' if prefix else 'cannot be built'}:</b> {_html_text(change.problem)}</li>"
    if change.base_problem:
        yield f"<li>cannot be compared, it was not valid before: {_html_text(change.base_problem)}</li>"
    for line in change.violations:
        yield f"<li><b>rejected by policy:</b> {_html_text(line)}</li>"
    for effect in change.effects:
        yield f"<li>{'<b>cannot be undone:</b> ' if effect.is_loss else ''}{_html_text(effect.text)}</li>"
    yield "</ul>"
    for step in change.steps:
        yield from _html_step(step)


def _html_rehearsal(report: PreviewReport) -> Iterator[str]:
    rehearsal = report.rehearsal
    if rehearsal is None:
        return
    title = "refused" if rehearsal.refusals else "nothing is refused, and a revert brings everything back"
    yield f"<h2>Rehearsal: {title}</h2><ul>"
    for refusal in rehearsal.refusals:
        place = f"{refusal.folder}: {refusal.step} {refusal.object}"
        yield f"<li><b>{_html_text(place)}</b>: {_html_text(refusal.problem)} {_html_text(refusal.where)}</li>"
    if rehearsal.not_judged:
        yield f"<li>not judged: {_html_text(', '.join(rehearsal.not_judged))}</li>"
    yield "</ul>"


def _html_step(step: ReportedStep) -> Iterator[str]:
    yield f"<h3>{_html_text(step.action)} {_html_text(step.object)} {_risk_class(step.risk)}</h3>"
    yield f'<p class="quiet">{_html_text(step.reason)}</p>'
    # without the first line, which names the object again
    yield f"<pre>{''.join(_html_line(line) for line in diff_lines(step)[1:])}</pre>"


def _html_line(line: str) -> str:
    text = escape(printable(line, _HTML_LINE))
    tag = _TAGS.get(line[:1])
    return f"<{tag}>{text}</{tag}>\n" if tag else f"{text}\n"


def _risk_class(risk: str) -> str:
    return f'<span class="{_html_text(risk)}">{_html_text(risk)}</span>'


def _html_text(text: str) -> str:
    return escape(one_line(text, _HTML_LINE))
