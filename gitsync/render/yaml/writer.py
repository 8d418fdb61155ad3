"""
Write values as ``kubectl kustomize`` prints them: go-yaml v2 rules, sorted keys, lists at their key's column.

The words of YAML 1.1 (``yes``, ``off``, ``y``) and base-60 numbers are quoted, so that any reader sees texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key, lru_cache
from typing import Any, Final

from gitsync.render.yaml.scalars import OLD_FLAGS, is_text

_FIRST: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/")
_SAFE: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.:-"
"""Characters that mean nothing to YAML behind one of the first, but for a colon at the end."""

# Patterns are compiled when a text first needs them: most texts need none, and compiling is slow.
_BASE_60: Final = r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
_PRINTABLE: Final = r"\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd"
"""What go-yaml takes for printable: no control character, tab, byte-order mark or anything past U+FFFF."""
_BREAK: Final = "\n\u2028\u2029"
_BREAKS: Final = rf"[{_BREAK}](?=[^{_BREAK}])"
_SPECIAL: Final = rf"[^\n{_PRINTABLE}]| [{_BREAK}]|[\u2028\u2029] "
"""What only double quotes can hold: an unprintable character, or a space that folding would drop."""
_ESCAPED: Final = rf'[^{_PRINTABLE}]|["\\\u2028\u2029]'
_BYTE_ORDER_MARK: Final = "\ufeff"
_ANY: Final = "(?s)."
"""What go-yaml escapes in a text that begins with a byte-order mark."""
_NAMED_ESCAPES: Final = {
    "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r",
    "\x1b": "\\e", '"': '\\"', "\\": "\\\\", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P", "\xa0": "\\_",
}  # fmt: skip
_NOT_PLAIN: Final = rf"\A(?:[#,\[\]{{}}&*!|>'\"%@` ]|---|\.\.\.|[?:-](?: |\Z))|: | #|[ :]\Z|[{_BREAK}]"
"""Texts that need quotes: they begin with an indicator, or hold ``: `` or `` #``, or end in a space."""
_FOLDS: Final = {
    "": r"(?<! ) (?! )",
    "'": r"(?<! )(?<!\A') (?! |'\Z)",
    '"': r'(?<! )(?<!\A") (?!"\Z)',
}
"""The spaces at which a line can be broken, by its quote."""
_WIDTH: Final = 80
_LONGEST_SIMPLE_KEY: Final = 128


def write_all(values: Iterable[Any]) -> str:
    """Return documents separated by ``---``, each as ``write`` gives it."""
    return "---\n".join(map(write, values))


def write(value: Any) -> str:
    """Return one document, ending in a newline."""
    out: list[str] = []
    if isinstance(value, dict | list) and value:
        _write_collection(out, value, "", "")
    else:
        _write_inline(out, value, "", "")
    return "".join(out)


def _write_collection(out: list[str], value: Any, pad: str, first: str) -> None:
    """Append a mapping or list that is not empty; ``first`` begins its first line, ``pad`` the others."""
    if isinstance(value, list):
        for item in value:
            _write_inline(out, item, pad, first + "- ")
            first = pad
        return
    for key in _sorted(tuple(value)):
        member = value[key]
        head = _head(key)
        if not head:
            out.append(f"{first}? {_text(key, pad, len(first) + 2)}\n")
            _write_inline(out, member, pad, pad + ": ")
        elif isinstance(member, str):
            out.append(f"{first}{head} {_text(member, pad, len(first) + len(head) + 1)}\n")
        elif member and isinstance(member, dict | list):
            out.append(f"{first}{head}\n")
            inner = pad if isinstance(member, list) else pad + "  "
            _write_collection(out, member, inner, inner)
        else:
            _write_inline(out, member, pad, f"{first}{head} ")
        first = pad


def _write_inline(out: list[str], value: Any, pad: str, first: str) -> None:
    """Append what follows an indicator or a key on the same line."""
    if isinstance(value, str):
        out.append(f"{first}{_text(value, pad, len(first))}\n")
    elif isinstance(value, dict | list) and value:
        _write_collection(out, value, pad + "  ", first)
    else:
        out.append(f"{first}{_scalar(value)}\n")


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        return str(value)
    if isinstance(value, int | float):
        return _float(float(value))
    return "{}" if isinstance(value, dict) else "[]"


def _float(value: float) -> str:
    """Return the shortest digits that read back, with an exponent below 1e-4 and from 1e+06 on."""
    # strconv.FormatFloat with 'g' changes to an exponent at these limits.
    if not value or 1e-4 <= abs(value) < 1e6:
        return repr(value)
    from decimal import Decimal  # late: few manifests have such numbers

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = (str(digit) for digit in digits)
    return ("-" if sign else "") + first + (f".{''.join(rest)}" if rest else "") + f"e{len(rest) + exponent:+03}"


def _text(text: str, pad: str, column: int) -> str:
    """Return a text that begins at a column, as a block scalar or as a line folded at column 80."""
    if len(text) < _WIDTH:
        line = _simple(text)
        if line and column + len(line) <= _WIDTH:  # nearly all
            return line
    indent = pad + "  "
    # go-yaml chooses a literal block for every text of several lines that one can hold.
    if "\n" in text and text[-1] != " " and not re.search(_SPECIAL, text):
        return _literal(text, indent)
    line = _line(text)
    if line[0] == "'" and re.search(_BREAKS, line):
        return f"'{_indented(line[1:-1], indent)}'"
    return line if column + len(line) <= _WIDTH else _folded(line, indent, column)


def _literal(text: str, indent: str) -> str:
    # Otherwise a reader would take the first line's spaces for the indentation.
    hint = str(len("  ")) if text[0] in _BREAK + " " else ""
    chomp = "-" if text[-1] not in _BREAK else "+" if len(text) == 1 or text[-2] in _BREAK else ""
    return f"|{hint}{chomp}" + _indented("\n" + text, indent).removesuffix("\n")


def _indented(text: str, indent: str) -> str:
    """Return a text with each line that is not empty indented, but the first."""
    return re.sub(_BREAKS, lambda breaks: breaks[0] + indent, text)


@lru_cache(maxsize=8192)
def _simple(text: str) -> str:
    """Return a text on one line; empty for one that breaks lines."""
    return "" if any(char in text for char in _BREAK) else _line(text)


def _line(text: str) -> str:
    """Return a text on one line, in the form that go-yaml chooses: plain, single or double quotes."""
    if text[:1] in _FIRST and not text.strip(_SAFE) and text[-1] != ":":
        is_plain = is_text(text) and text not in OLD_FLAGS and not (":" in text and re.fullmatch(_BASE_60, text))
        return text if is_plain else f'"{text}"'
    if "\n" in text or not is_text(text) or re.fullmatch(_BASE_60, text) or re.search(_SPECIAL, text):
        return '"' + re.sub(_ANY if text[:1] == _BYTE_ORDER_MARK else _ESCAPED, _escape, text) + '"'
    if re.search(_NOT_PLAIN, text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _folded(line: str, indent: str, column: int) -> str:
    """Return a line broken at each space past column 80 where a reader joins it again."""
    quote = line[0] if line[0] in "'\"" else ""
    out: list[str] = []
    start = 0
    for space in re.finditer(_FOLDS[quote], line):
        if column + space.start() - start > _WIDTH:
            escape = "\\" if line[space.end()] == " " else ""  # only in double quotes
            out += line[start : space.start()], "\n", indent, escape
            start = space.end()
            column = len(indent) + len(escape)
    return "".join(out) + line[start:]


@lru_cache(maxsize=8192)
def _head(key: str) -> str:
    """Return a key with its colon; empty for one that is too long for that, or breaks lines."""
    is_simple = _simple(key) and len(key.encode("utf-8", "surrogatepass")) <= _LONGEST_SIMPLE_KEY
    return f"{_simple(key)}:" if is_simple else ""


@lru_cache(maxsize=8192)
def _sorted(keys: tuple[str, ...]) -> list[str]:
    return sorted(keys, key=cmp_to_key(_compare))


def _compare(first: str, second: str) -> int:
    """Order keys as go-yaml does: numbers inside them by value, letters after everything else."""
    for position, (a, b) in enumerate(zip(first, second, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            is_less = a < b if a.isalpha() and b.isalpha() else b.isalpha()
            return -1 if is_less else 1
        # A zero within a number does not begin another one: keyList.Less of go-yaml.
        seed = int("0" in (a, b) and first[:position].rstrip("0")[-1:].isdecimal())
        ranks = ((*_number_at(key, position, seed), key[position]) for key in (first, second))
        return -1 if next(ranks) < next(ranks) else 1
    return len(first) - len(second)


def _number_at(key: str, position: int, seed: int) -> tuple[int, int]:
    """Return the value and the length of the digits at a position, after a seed for the digits before it."""
    value = seed
    end = position
    while end < len(key) and key[end].isdecimal():
        value = value * 10 + ord(key[end]) - ord("0")
        end += 1
    return value, end - position
