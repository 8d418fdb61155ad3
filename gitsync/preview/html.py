"""The report as one page of HTML that needs no other file, such as for an artifact of a CI job."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gitsync.errors import one_line
from gitsync.preview.markdown import diff_lines, named_roots, printable
from gitsync.preview.report import PreviewReport, ReportedChange, ReportedStep

_LINE = 400
_TAGS = {"+": "ins", "-": "del"}
_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h2 { margin-top: 2rem } pre { overflow-x: auto; background: #f6f6f4; padding: .75rem; border-radius: 6px }
ins { background: #dff3e0; text-decoration: none } del { background: #fbe3e1; text-decoration: none }
.Dangerous { color: #a3140f } .Moderate { color: #7a4d00 } .Safe { color: #1c6b2a } .quiet { color: #5c5c5c }
"""


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
            f"<p><code>{_text(report.base[:12])}</code> → <code>{_text(report.head[:12])}</code>, "
            f"{len(report.covered)} deployed folders checked, {len(report.unchanged)} unchanged.</p>",
            *(line for change in report.changes for line in _change(change, "")),
            *(line for change in report.live for line in _change(change, "In the cluster: ")),
            "</body></html>\n",
        )
    )


def _change(change: ReportedChange, prefix: str) -> Iterator[str]:
    names = change.applications if prefix else change.roots
    yield f"<h2>{prefix}{_text(named_roots(names))} {_class(change.risk)}</h2>"
    yield "<ul>"
    if change.applications and not prefix:
        yield f"<li>deployed by {_text(', '.join(change.applications))}</li>"
    if change.problem:
        yield f"<li><b>{'cannot be compared' if prefix else 'cannot be built'}:</b> {_text(change.problem)}</li>"
    if change.base_problem:
        yield f"<li>cannot be compared, it was not valid before: {_text(change.base_problem)}</li>"
    for line in change.violations:
        yield f"<li><b>rejected by policy:</b> {_text(line)}</li>"
    for effect in change.effects:
        yield f"<li>{'<b>cannot be undone:</b> ' if effect.is_loss else ''}{_text(effect.text)}</li>"
    yield "</ul>"
    for step in change.steps:
        yield from _step(step)


def _step(step: ReportedStep) -> Iterator[str]:
    yield f"<h3>{_text(step.action)} {_text(step.object)} {_class(step.risk)}</h3>"
    yield f'<p class="quiet">{_text(step.reason)}</p>'
    # without the first line, which names the object again
    yield f"<pre>{''.join(_line(line) for line in diff_lines(step)[1:])}</pre>"


def _line(line: str) -> str:
    text = escape(printable(line, _LINE))
    tag = _TAGS.get(line[:1])
    return f"<{tag}>{text}</{tag}>\n" if tag else f"{text}\n"


def _class(risk: str) -> str:
    return f'<span class="{_text(risk)}">{_text(risk)}</span>'


def _text(text: str) -> str:
    return escape(one_line(text, _LINE))
