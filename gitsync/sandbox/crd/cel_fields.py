"""Find fields that a CEL rule uses and its schema does not declare, as the API server's typed CEL does."""

from __future__ import annotations

import re

from gitsync.sandbox.crd.cel_rules import escaped
from gitsync.sandbox.crd.structural import Node

_TEXT = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_PATH = re.compile(r"(?<![\w.])(?:self|oldSelf)((?:\.[A-Za-z_]\w*)+)(?!\w)(\s*\()?")


def undefined_field(node: Node, rule: str) -> str:
    """Return what CEL says of the first member that is not declared, empty when all are."""
    blanked = _TEXT.sub(lambda found: " " * len(found[0]), rule)
    for found in _PATH.finditer(blanked):
        names = found[1].split(".")[1:]
        if found[2]:  # the last is a function
            names.pop()
        at: Node | None = node
        position = found.start(1)
        for name in names:
            if at is None or at.type != "object" or at.preserves or at.additional is not None or at.open_map:
                break
            known: dict[str, Node | None] = {escaped(member): child for member, child in at.properties.items()}
            if at.embedded:
                known.update(dict.fromkeys(("apiVersion", "kind", "metadata")))
            if name not in known:
                return _worded(rule, position, name)
            at = known[name]
            position += len(name) + 1
    return ""


def _worded(rule: str, position: int, name: str) -> str:
    before = rule[:position]
    line = before.count("\n") + 1
    column = position - (before.rfind("\n") + 1)
    shown = rule.splitlines()[line - 1]
    return (
        f"compilation failed: ERROR: <input>:{line}:{column + 1}: undefined field '{name}'\n"
        f" | {shown}\n | {'.' * column}^"
    )
