"""The CEL rules of a schema (``x-kubernetes-validations``), evaluated on a value and its old value."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.sandbox.crd.structural import SchemaNode, child_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import OMITTED, duplicate, forbidden, invalid, required
from gitsync.sandbox.validation.cel import CompileError, EvaluationError, Program, compile_expression

_TRANSITION = re.compile(r"\boldSelf\b")
_STEP = re.compile(r"\['((?:[^'\\]|\\.)*)'\]")
_ONLY_NOW = ("self",)
_BOTH = ("self", "oldSelf")
_MAYBE = ("self", "oldSelf_given", "oldSelf_value")
_KEYWORDS = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
    | {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_ABSENT = object()

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Subject:
    """A value that rules check; ``now`` and ``old`` are its new and its old value as the rules see them."""

    node: SchemaNode
    value: Any
    path: str
    now: Any
    old: Any


def validate_rules(node: SchemaNode, value: Any, old: Any, path: str) -> list[StatusCause]:
    """
    Return the causes of rules that do not hold, from the outside in.

    ``old`` is None on a create. A rule about a change runs only where the old value is known.
    """
    causes: list[StatusCause] = []
    _walk(node, value, _ABSENT if old is None else old, path, causes)
    return causes


def _walk(node: SchemaNode, value: Any, old: Any, path: str, causes: list[StatusCause]) -> None:
    if not node.has_rules or value is None:
        return
    if node.rules:
        old_value = _ABSENT if old is _ABSENT else to_cel(node, old)
        subject = _Subject(node, value, path, to_cel(node, value), old_value)
        for rule in node.rules:
            cause = _check(rule, subject)
            if cause is not None:
                causes.append(cause)
    if isinstance(value, dict):
        for name, item in value.items():
            child = child_of(node, name)
            if child is not None:
                old_value = old[name] if isinstance(old, dict) and name in old else _ABSENT
                where = f"{path}.{name}" if path else name
                _walk(child, item, old_value, where if name in node.properties else f"{path}[{name}]", causes)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _walk(node.items, item, _same_item(node, item, old), f"{path}[{index}]", causes)


def _same_item(node: SchemaNode, item: Any, old: Any) -> Any:
    """Return the old item of a keyed list; items of other lists are not followed."""
    # Items of other lists have no identity, so an old value cannot be assigned to them.
    if node.raw.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return _ABSENT
    keys = node.raw.get("x-kubernetes-list-map-keys") or ()
    wanted = [item.get(key) for key in keys]
    return next((old_item for old_item in old if [old_item.get(key) for key in keys] == wanted), _ABSENT)


def compiled(rule: Rule) -> Program:
    """Return the program of a rule; raise CompileError."""
    return _compile(rule["rule"].strip(), bool(rule.get("optionalOldSelf")))


def _compile(expression: str, optional: bool) -> Program:
    # Without oldSelf the variable is not declared, so that a rule on a create has no missing value.
    if not _TRANSITION.search(expression):
        return compile_expression(expression, _ONLY_NOW)
    if not optional:
        return compile_expression(expression, _BOTH)
    old = "oldSelf_given ? optional.of(oldSelf_value) : optional.none()"
    return compile_expression(f"cel.bind(oldSelf, {old}, {expression})", _MAYBE)


def _check(rule: Rule, subject: _Subject) -> StatusCause | None:
    optional = bool(rule.get("optionalOldSelf"))
    if subject.old is _ABSENT and not optional and _TRANSITION.search(rule["rule"]):
        return None
    data = _data(subject.now, subject.old)
    try:
        if compiled(rule).evaluate(data) is True:
            return None
    except (CompileError, EvaluationError) as error:
        return invalid(subject.path, subject.node.type, f"{error} evaluating rule: {_described(rule)}")
    return _refused(rule, subject.node, _detail(rule, data, optional), subject.value, subject.path)


def _data(now: Any, old_value: Any) -> dict[str, Any]:
    is_known = old_value is not _ABSENT
    old = old_value if is_known else None
    return {"self": now, "oldSelf": old, "oldSelf_given": is_known, "oldSelf_value": old}


def _described(rule: Rule) -> str:
    return str(rule.get("message") or rule["rule"]).strip()


def _detail(rule: Rule, data: Mapping[str, Any], optional: bool) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            text = _compile(expression.strip(), optional).evaluate(data)
        except (CompileError, EvaluationError):
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    return str(rule["message"]).strip() if rule.get("message") else f"failed rule: {rule['rule'].strip()}"


def _refused(rule: Rule, node: SchemaNode, detail: str, value: Any, path: str) -> StatusCause:
    field = _below(path, rule.get("fieldPath") or "")
    shown = OMITTED if isinstance(value, (dict, list)) else value
    match rule.get("reason"):
        case "FieldValueForbidden":
            return forbidden(field, detail)
        case "FieldValueRequired":
            return required(field, detail)
        case "FieldValueDuplicate":
            return duplicate(field, "" if shown is OMITTED else shown)
        case _:
            return invalid(field, shown, detail)


def _below(path: str, relative: str) -> str:
    """Return the path of a member given as ``.a.b`` or ``.a['b']``."""
    relative = _STEP.sub(lambda step: f"[{step[1]}]", relative.strip())
    return f"{path}{relative}" if path else relative.removeprefix(".")


def to_cel(node: SchemaNode, value: Any) -> Any:
    """Return a value as rules see it: bytes decoded, member names that CEL cannot spell escaped."""
    if isinstance(value, dict):
        out = {}
        for name, item in value.items():
            child = child_of(node, name)
            key = escaped(name) if name in node.properties else name
            out[key] = to_cel(child, item) if child is not None else item
        return out
    if isinstance(value, list) and node.items is not None:
        return [to_cel(node.items, item) for item in value]
    if isinstance(value, str) and node.raw.get("format") == "byte":
        # CEL has a type of its own for bytes.
        return base64.b64decode(value)
    return value


def escaped(name: str) -> str:
    """Return a member's name as rules spell it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    # The order matters: replacing underscores last would escape the other escapes.
    for plain, spelled in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(plain, spelled)
    return name


_TEXT = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_PATH = re.compile(r"(?<![\w.])(?:self|oldSelf)((?:\.[A-Za-z_]\w*)+)(?!\w)(\s*\()?")


def undefined_field(node: SchemaNode, rule: str) -> str:
    """Return what CEL says of the first member that is not declared, empty when all are."""
    # Texts are blanked, not removed: positions in the message have to stay right.
    blanked = _TEXT.sub(lambda match: " " * len(match[0]), rule)
    for match in _PATH.finditer(blanked):
        names = match[1].split(".")[1:]
        if match[2]:  # the last is a function
            names.pop()
        at: SchemaNode | None = node
        position = match.start(1)
        for name in names:
            # Below an open map or an untyped value CEL cannot know the members.
            if at is None or at.type != "object" or at.preserves or at.additional is not None or at.open_map:
                break
            known: dict[str, SchemaNode | None] = {escaped(member): child for member, child in at.properties.items()}
            if at.embedded:
                known.update(dict.fromkeys(("apiVersion", "kind", "metadata")))
            if name not in known:
                return _worded(rule, position, name)
            at = known[name]
            position += len(name) + 1
    return ""


def _worded(rule: str, position: int, name: str) -> str:
    preceding = rule[:position]
    line = preceding.count("\n") + 1
    column = position - (preceding.rfind("\n") + 1)
    shown = rule.splitlines()[line - 1]
    return (
        f"compilation failed: ERROR: <input>:{line}:{column + 1}: undefined field '{name}'\n"
        f" | {shown}\n | {'.' * column}^"
    )
