"""
Format the templates of the dashboard: one element a line, and the same page.

djlint was tried: it adds whitespace between inline elements, which a browser shows, and leaves lines of 1,000
characters where statements and tags alternate. Here a line ends only where that is not shown: beside a block-level
element, at whitespace that is between two tags already, and after a statement, whose newline Jinja drops
(``trim_blocks``). The loader of the pages drops indentation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "web/templates"
WIDTH = 120
_INDENT = "  "
BLOCK = re.compile(
    r"html|head|body|title|meta|link|script|header|main|footer|nav|section|article|aside|div|p|ul|ol|li|dl|dt|dd|table"
    r"|caption|thead|tbody|tr|th|td|form|fieldset|legend|details|summary|h[1-4]|hr|dialog|option|g|path|rect|line|marker"
    r"|defs|polygon"
)
"""Elements beside which a browser shows no whitespace."""
_VOID = frozenset({"meta", "link", "hr", "br", "input", "img", "path", "rect", "line", "polygon"})
_VERBATIM = re.compile(r"<(pre|textarea|script)\b")
"""Elements whose content is shown with its line breaks."""
_STATEMENT = r"\{%.*?%\}|\{#.*?#\}"
_QUOTED = rf"\"(?:{_STATEMENT}|\{{\{{.*?\}}\}}|[^\"])*\""
_PART = rf"\s+|(?:{_STATEMENT}|\{{\{{.*?\}}\}}|{_QUOTED}|[^\s\"])+"
"""Whitespace of a tag, or what is between two of them: an attribute, or several that statements choose from."""
_TOKEN = re.compile(
    rf"(?P<statement>{_STATEMENT})|(?P<expression>\{{\{{.*?\}}\}})"
    rf"|(?P<tag><[/!a-zA-Z](?:{_STATEMENT}|\{{\{{.*?\}}\}}|{_QUOTED}|[^>\"])*>)"
    r"|(?P<space>\s+)|(?P<text>(?:(?!\{[%{#])[^<\s])+|<)",
    re.DOTALL,
)
_OPENS = frozenset({"if", "for", "macro", "block", "call", "filter"})
_BRANCHES = frozenset({"else", "elif"})


@dataclass(frozen=True, slots=True)
class Token:
    """A statement, expression, tag, text without whitespace, or space of a template."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """The name of a statement or of an element, without the slash of its end."""
        found = re.match(r"\{%[-+]?\s*(\w+)|</?(\w+)", self.text)
        return (found[1] or found[2]).lower() if found else ""

    @property
    def is_block(self) -> bool:
        """Whether this is a tag of a block-level element, or a whole element that is shown as it is written."""
        is_shown_apart = self.kind == "verbatim" and not self.text.startswith("<textarea")
        return is_shown_apart or (
            self.kind == "tag" and (BLOCK.fullmatch(self.word) is not None or self.text[1] == "!")
        )

    @property
    def depth(self) -> int:
        """How much deeper what follows is."""
        if self.kind == "statement":
            opens = self.word in _OPENS or (
                self.word == "set" and "=" not in self.text
            )  # a block: {% set x %}…{% endset %}
            return 1 if opens else -1 if self.word.startswith("end") else 0
        if not self.is_block or self.kind == "verbatim" or self.text[1] == "!" or self.word in _VOID:
            return 0
        return 0 if self.text.endswith("/>") else -1 if self.text.startswith("</") else 1


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line with the depth that it has, and how much deeper the next ones are."""

    text: str
    depth: int
    change: int = 0


def formatted(source: str) -> str:
    """Return a template in the one format; formatting it again changes nothing."""
    lines = _joined(_lines(_tokens(_canonical(source))))
    return "".join(f"{line}\n" for found in lines for line in _wrapped(found))


def _canonical(source: str) -> str:
    """Return a template without what neither Jinja nor the loader keeps: indentation, and newlines after statements."""
    flat = re.sub(r"^[ \t]+", "", source, flags=re.MULTILINE)
    return re.sub(r"([%#]\})\n", r"\1", flat)


def _tokens(source: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        element = _VERBATIM.match(source, position)
        if element:
            end = source.index(f"</{element[1]}>", position) + len(element[1]) + 3
            tokens.append(Token("verbatim", source[position:end]))
        else:
            found = _TOKEN.match(source, position)
            assert found is not None, source[position : position + 80]
            end = found.end()
            kind = str(found.lastgroup)
            tokens.append(Token(kind, _on_one_line(kind, found[0])))
        position = end
    return tokens


def _on_one_line(kind: str, text: str) -> str:
    """Return a token without the line breaks that were made between its words or attributes."""
    if kind == "space":
        return " "
    if kind != "tag":
        return text
    return "".join(" " if part.isspace() else part for part in re.findall(_PART, text, re.DOTALL))


def _lines(tokens: list[Token]) -> Iterator[OutputLine]:
    """Yield a line for each block-level tag, each statement around them, and each text between them."""
    depth = 0
    after_comment = False
    group: list[Token] = []
    for token in [*tokens, Token("end", "")]:
        if token.kind != "end" and not token.is_block:
            group.append(token)
            continue
        for run in _runs(group):
            is_comment = run[0].text.startswith("{#")
            if depth == 0 and (is_comment or (run[0].word == "macro" and not after_comment)):
                yield OutputLine("", 0)
            after_comment = is_comment
            change = sum(item.depth for item in run)
            closes = run[0].depth < 0 or (len(run) == 1 and run[0].word in _BRANCHES)
            text = "".join(item.text for item in run)
            yield OutputLine(text, depth - closes, change)
            depth += change
        group = []
        if token.kind != "end":
            yield OutputLine(token.text, depth - (token.depth < 0), token.depth)
            depth += token.depth


def _runs(group: list[Token]) -> Iterator[list[Token]]:
    """Yield the parts of what is between two block-level tags: statements that reach beyond it, and texts."""
    group = _stripped(group)
    partners = _partners(group)
    run: list[Token] = []
    for index, token in enumerate(group):
        is_text = token.kind != "statement" or index in partners
        if is_text:
            run.append(token)
            continue
        if _stripped(run) and token.word.startswith("end") and run[-1].kind != "space":
            yield [*_stripped(run), token]  # whitespace before the end of a macro would be shown where it is called
        else:
            if _stripped(run):
                yield _stripped(run)
            yield [token]
        run = []
    if _stripped(run):
        yield _stripped(run)


def _partners(group: list[Token]) -> frozenset[int]:
    """Return the positions of the statements that begin and end within a group with something else between them."""
    stack: list[int] = []
    found: set[int] = set()
    inner: dict[int, list[int]] = {}
    for index, token in enumerate(group):
        if token.kind != "statement":
            continue
        if token.depth > 0:
            stack.append(index)
        elif token.depth < 0 and stack:
            start = stack.pop()
            if token.word != "endmacro":  # a macro has lines of its own, however short
                found |= {start, index, *inner.pop(start, ())}
        elif stack:
            inner.setdefault(stack[-1], []).append(index)
    return frozenset(found)


def _stripped(group: list[Token]) -> list[Token]:
    """Return tokens without the spaces around them, which a block-level element beside them hides."""
    start, end = 0, len(group)
    while start < end and group[start].kind == "space":
        start += 1
    while end > start and group[end - 1].kind == "space":
        end -= 1
    return group[start:end]


def _joined(lines: Iterable[OutputLine]) -> list[OutputLine]:
    """Return the lines with what fits one line as one: an element with its text, and an element without content."""
    done: list[OutputLine] = []
    for line in lines:
        done.append(line)
        while line.change < 0 and (start := _start_of(done)) is not None:
            parts = done[start:]
            text = "".join(part.text for part in parts)
            if len(text) + len(_INDENT) * parts[0].depth > WIDTH or "\n" in text:
                break
            del done[start:]
            line = OutputLine(text, parts[0].depth, sum(part.change for part in parts))
            done.append(line)
    return done


def _start_of(done: list[OutputLine]) -> int | None:
    """Return where the element that the last line ends begins, None where more than one line is between them."""
    begins_with_end = re.match(r"</|\{%-? *end", done[-1].text) is not None
    start = len(done) - 2
    if begins_with_end and start > 0 and done[start].change == 0:
        start -= 1
    depth = done[-1].depth - (not begins_with_end)
    return start if start >= 0 and done[start].change == 1 and done[start].depth == depth else None


def _wrapped(line: OutputLine) -> Iterator[str]:
    """Yield a line as lines of at most ``WIDTH`` characters, as far as it can be broken."""
    indent = _INDENT * max(line.depth, 0)
    if "\n" in line.text and line.text.startswith("{%") and line.text.find("%}") == len(line.text) - 2:
        first, *inner, last = line.text.split("\n")
        yield indent + first
        yield from (indent + _INDENT + text for text in inner)
        yield indent + last
        return
    if len(indent) + len(line.text) <= WIDTH or _VERBATIM.match(line.text):
        yield indent + line.text
        return
    text = ""
    for piece in _pieces(line.text):
        if text and len(indent) + len((text + piece).rstrip()) > WIDTH:
            yield indent + text.rstrip()
            indent = _INDENT * (max(line.depth, 0) + 2)
            text = piece.lstrip()
        else:
            text += piece
    if text.strip():
        yield indent + text.rstrip()


def _pieces(text: str) -> Iterator[str]:
    """
    Yield the parts between which a line may end: after a statement, and at whitespace after a tag and before one.

    A sentence and a tag stay on one line, however long: they are searched for, in templates and in pages.
    """
    piece = ""
    tokens = _tokens(text)
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else Token("end", "")
        is_break = token.kind == "space" and piece.endswith(">") and following.kind in ("tag", "statement")
        if is_break:
            yield piece
            piece = " "
            continue
        piece += token.text
        if token.kind == "statement" and following.kind != "space":
            yield piece
            piece = ""
    yield piece


def main(arguments: list[str]) -> int:
    """Format the templates; with ``--check`` print those that are not formatted, and return 1 for any."""
    found = {file: formatted(file.read_text()) for file in sorted(FOLDER.glob("*.html"))}
    changed = [file for file, text in found.items() if file.read_text() != text]
    for file in changed:
        if "--check" in arguments:
            print(f"{file.name} is not formatted: make fmt")
        else:
            file.write_text(found[file])
    return int(bool(changed) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
