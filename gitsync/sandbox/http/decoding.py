"""Bodies of requests: JSON, YAML by the API server's rules, duplicate keys found, nesting and size bounded."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import yaml

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import bad_request

_KEY_ENDS = re.compile(rb'"[ \t\r\n]*:')
MAX_DEPTH = 200
MAX_NODES = 1_000_000
"""How far YAML aliases may expand."""


class Malformed(Exception):
    """Text that is neither JSON nor YAML; the message is the parser's, as Go words it."""


def parse_json(body: bytes) -> tuple[Any, list[str]]:
    """Return the value and the paths of duplicate keys (the last one won); raise Malformed."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Malformed(_go_json_error(body)) from None
    if not isinstance(value, (dict, list)) or _has_all_members(body, orjson.dumps(value)):
        return value, []
    return value, _json_duplicates(body)


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Return the value of JSON or YAML text and the lines' duplicate keys; raise Malformed."""
    text = body.lstrip()
    if text[:1] == b"{":
        try:
            return parse_json(body)
        except Malformed:
            pass  # flow YAML, or an error that YAML words
    try:
        _bound(body)
        loader = _Loader(body)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise Malformed(f"error converting YAML to JSON: yaml: {_yaml_text(error)}") from None
    except (RecursionError, UnicodeDecodeError):
        raise Malformed("error converting YAML to JSON: yaml: document is nested too deeply") from None
    _count(value)
    return value, loader.duplicates


def require_object(body: bytes, kind: str) -> tuple[Manifest, list[str]]:
    """Return the JSON object of a create or an update; refuse anything else with the API server's words."""
    trimmed = body.strip()
    if trimmed == b"null":
        return {}, []
    try:
        value, duplicates = parse_json(body) if trimmed[:1] in b"{[" else parse_yaml(body)
    except Malformed as error:
        raise _unrecognised(kind, f"json parse error: {error}", body) from None
    if value is None and trimmed:
        return {}, []
    if not isinstance(value, dict):
        raise _unrecognised(kind, f"json parse error: {_not_an_object(value)}", body)
    return value, duplicates


def _unrecognised(kind: str, why: str, body: bytes) -> Exception:
    shown = _shown(body)
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why} ({shown})"
    )


def _not_an_object(value: Any) -> str:
    found = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    if value is None:
        return "unexpected end of JSON input"
    struct = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    return f"json: cannot unmarshal {found} into Go value of type {struct}"


def _shown(body: bytes) -> str:
    """Return a short body as it is when it is an object's beginning, else in hexadecimal."""
    if not body:
        return "<empty>"
    if body[:1] == b"{":
        text = body.decode("utf-8", "replace")
        return text if len(text) <= 1024 else f"{text[:1024]} ..."
    return body[:512].hex() + (" ..." if len(body) > 512 else "")


def _go_json_error(body: bytes) -> str:
    """Return what Go's encoding/json says of text that Python's reader refuses."""
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        if not rest or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        if error.msg == "Extra data":
            return f"invalid character '{rest[0]}' after top-level value"
        if error.msg.startswith("Expecting property name"):
            return f"invalid character '{rest[0]}' looking for beginning of object key string"
        if "delimiter" in error.msg and "':'" in error.msg:
            return f"invalid character '{rest[0]}' after object key"
        if "delimiter" in error.msg:
            return f"invalid character '{rest[0]}' after object key:value pair"
        return f"invalid character '{rest[0]}' looking for beginning of value"
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON"


def _has_all_members(body: bytes, written: bytes) -> bool:
    """
    Whether JSON without white space has each member of the text that it was read from: False where that is unclear.

    Without escapes a quote before a colon ends a key, or begins a text such as ``":x"``, which counts in both.
    """
    if len(written) == len(body.strip()):
        return True
    return b"\\" not in body and len(_KEY_ENDS.findall(body)) == written.count(b'":')


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the text, with duplicates."""


def _json_duplicates(body: bytes) -> list[str]:
    found: list[str] = []
    try:
        tree = json.loads(body, object_pairs_hook=_Pairs)
    except RecursionError:
        raise Malformed("exceeded max depth") from None
    pending: list[tuple[str, Any]] = [("", tree)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, member in value:
                inner = f"{path}.{key}" if path else key
                if key in seen and inner not in found:
                    found.append(inner)
                seen.add(key)
                pending.append((inner, member))
        elif isinstance(value, list):
            pending.extend((f"{path}[{index}]", item) for index, item in enumerate(value))
    return found


class _Loader(yaml.CSafeLoader):
    """
    YAML 1.1 as the API server reads it.

    ``y`` and ``n`` are booleans, dates stay text, ``1:30`` is text, keys become text, the last duplicate wins.
    """

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def construct_members(self, node: yaml.MappingNode) -> dict[str, Any]:
        """Return a mapping with text keys, noting the duplicates."""
        self.flatten_mapping(node)
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key_text(self.construct_object(key_node, deep=True))
            if key in members:
                self.duplicates.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            members[key] = self.construct_object(value_node, deep=True)
        return members


_DROPPED = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_BOOLS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}


def _bool(loader: Any, node: Any) -> bool:
    return _BOOLS[loader.construct_scalar(node).lower()]


def _int(loader: Any, node: Any) -> Any:
    return node.value if ":" in node.value else yaml.CSafeLoader.construct_yaml_int(loader, node)


def _float(loader: Any, node: Any) -> Any:
    value = yaml.CSafeLoader.construct_yaml_float(loader, node)
    if value != value or value in (float("inf"), float("-inf")):
        raise yaml.constructor.ConstructorError(None, None, f"unsupported value: {node.value}", node.start_mark)
    return int(value) if value.is_integer() and abs(value) < 1e21 else value  # as Go writes it


def _members(loader: Any, node: Any) -> Any:
    return loader.construct_members(node)


def _scalar(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:y|Y|n|N)$"), ["y", "Y", "n", "N"])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
_Loader.add_constructor("tag:yaml.org,2002:bool", _bool)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:map", _members)
_Loader.add_constructor("tag:yaml.org,2002:binary", _scalar)


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _bound(body: bytes) -> None:
    """Raise Malformed for nesting that would overflow the C composer's stack."""
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise Malformed("exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _count(value: Any) -> None:
    """Raise Malformed when aliases expand to more nodes than a document may have."""
    sizes: dict[int, int] = {}
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        node, done = stack.pop()
        if not isinstance(node, (dict, list)) or (id(node) in sizes and not done):
            continue
        members = list(node.values()) if isinstance(node, dict) else node
        if done:
            sizes[id(node)] = 1 + sum(sizes.get(id(member), 1) for member in members)
            if sizes[id(node)] > MAX_NODES:
                raise Malformed("error converting YAML to JSON: yaml: document contains excessive aliasing")
        else:
            sizes[id(node)] = 1
            stack.append((node, True))
            stack.extend((member, False) for member in members)


def _yaml_text(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
