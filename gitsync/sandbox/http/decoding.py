"""What requests ask for: options, and bodies as JSON or YAML by the API server's rules, nesting and size bounded."""

from __future__ import annotations

import re
from json import dumps
from typing import Any

import yaml

from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.errors import StatusCause, bad_request
from gitsync.sandbox.http.protobuf import Undecodable, decode
from gitsync.sandbox.http.responses import PROTOBUF
from gitsync.sandbox.http.transport.messages import HttpRequest
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.registry.delete import DeleteOptions, read_options
from gitsync.sandbox.schema.json_text import MalformedText, parse_json
from gitsync.sandbox.users import ApiUser

# apimachinery/pkg/apis/meta/v1/validation: FieldManagerMaxLength.
MAX_MANAGER = 128
# Below Python's and libyaml's recursion limits; real objects have about 20 levels.
MAX_DEPTH = 200
MAX_NODES = 1_000_000
"""How far YAML aliases may expand."""


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Return the value of JSON or YAML text and the lines' duplicate keys; raise MalformedText."""
    text = body.lstrip()
    # JSON is YAML, and much faster to read as JSON.
    if text[:1] == b"{":
        try:
            return parse_json(body)
        except MalformedText:
            pass  # flow YAML, or an error that YAML words
    try:
        _bound(body)
        loader = _Loader(body)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise MalformedText(f"error converting YAML to JSON: yaml: {_yaml_text(error)}") from None
    except (RecursionError, UnicodeDecodeError):
        raise MalformedText("error converting YAML to JSON: yaml: document is nested too deeply") from None
    # After parsing: aliases are shared objects until the value is written as JSON.
    _count(value)
    return value, loader.duplicates


def require_object(body: bytes, kind: str) -> tuple[Manifest, list[str]]:
    """Return the JSON object of a create or an update; refuse anything else with the API server's words."""
    trimmed = body.strip()
    if trimmed == b"null":
        return {}, []
    try:
        value, duplicates = parse_json(body) if trimmed[:1] in b"{[" else parse_yaml(body)
    except MalformedText as error:
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
    type_name = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    if value is None:
        return "unexpected end of JSON input"
    struct = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    return f"json: cannot unmarshal {type_name} into Go value of type {struct}"


def _shown(body: bytes) -> str:
    """Return a short body as it is when it is an object's beginning, else in hexadecimal."""
    if not body:
        return "<empty>"
    if body[:1] == b"{":
        text = body.decode("utf-8", "replace")
        return text if len(text) <= 1024 else f"{text[:1024]} ..."
    # Go prints bytes that are not JSON with %x.
    return body[:512].hex() + (" ..." if len(body) > 512 else "")


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


# Timestamps stay text, and a bare = has no meaning (sigs.k8s.io/yaml).
_DROPPED = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_BOOLS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}


def _bool(loader: Any, node: Any) -> bool:
    return _BOOLS[loader.construct_scalar(node).lower()]


def _int(loader: Any, node: Any) -> Any:
    # 1:30 is sexagesimal in YAML 1.1; the API server's parser does not support it.
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


# PyYAML leaves out the single letters that YAML 1.1 has.
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
    """Raise MalformedText for nesting that would overflow the C composer's stack."""
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise MalformedText("exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _count(value: Any) -> None:
    """Raise MalformedText when aliases expand to more nodes than a document may have."""
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
                raise MalformedText("error converting YAML to JSON: yaml: document contains excessive aliasing")
        else:
            sizes[id(node)] = 1
            stack.append((node, True))
            stack.extend((member, False) for member in members)


def _yaml_text(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)


_BODY_TYPES = ("application/json", "application/yaml", PROTOBUF)


def object_body(request: HttpRequest, kind: str) -> tuple[Manifest, list[str]]:
    """Return the object of a create or an update, and its duplicate keys; 415 for a type that is not read."""
    media = media_type(request)
    if media == PROTOBUF:
        try:
            return decode(request.body), []
        except (Undecodable, UnicodeDecodeError) as error:
            raise errors.unsupported_media(media, _BODY_TYPES[:2], str(error)) from None
    # No type at all is read as JSON.
    if media and media not in _BODY_TYPES:
        raise errors.unsupported_media(media, _BODY_TYPES)
    return require_object(request.body, kind)


def applied_body(request: HttpRequest, ctx: RequestContext) -> Manifest:
    """Return the object of an apply; duplicate keys cause a warning or an error by the field validation."""
    try:
        body, ctx.duplicates = parse_yaml(request.body)
    except MalformedText as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise errors.bad_request(
            "error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}"
        )
    if ctx.duplicates:
        if ctx.validation == "Strict":
            listed = "\n  ".join(ctx.duplicates)
            raise errors.bad_request(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  " + listed
            )
        # YAML of an apply warns with the parser's text instead of that of the decoder.
        if ctx.validation == "Warn":
            ctx.warnings.extend(ctx.duplicates)
        # Reported already; the write would report them again.
        ctx.duplicates = []
    return body


def delete_options(request: HttpRequest) -> tuple[DeleteOptions, bool]:
    """Return the options of a delete, from the body or else the query, and whether it is a dry run."""
    body: Manifest = {}
    if request.body.strip():
        body, _ = object_body(request, "DeleteOptions")
    return read_options(body, request.query)


def write_context(request: HttpRequest, user: ApiUser, options: str, *, apply: bool = False) -> RequestContext:
    """Return the context of a write; refuse options as the kind ``options`` would."""
    query = request.query
    causes: list[StatusCause] = []
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        text = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        causes.append(StatusCause("FieldValueNotSupported", text, "dryRun"))
    manager = query.get("fieldManager", "")
    # Whatever its value: even force=false is refused.
    if options == "PatchOptions" and "force" in query and not apply:
        causes.append(
            StatusCause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force")
        )
    if apply and not manager:
        causes.append(StatusCause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
    if len(manager.encode()) > MAX_MANAGER:
        text = f"Too long: may not be more than {MAX_MANAGER} bytes"
        causes.append(StatusCause("FieldValueTooLong", text, "fieldManager"))
    if not manager.isprintable():
        text = f"Invalid value: {dumps(manager)}: should only contain printable characters"
        causes.append(StatusCause("FieldValueInvalid", text, "fieldManager"))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        causes.append(StatusCause("FieldValueNotSupported", text, "fieldValidation"))
    if causes:
        raise errors.invalid_options(options, causes)
    if not manager:
        # managerOrUserAgent: kubectl/v1.36 becomes kubectl.
        manager = request.headers.get("user-agent", "").partition("/")[0][:MAX_MANAGER] or "unknown"
    return RequestContext(user, manager, bool(dry_run), validation, request.flag("force"))


def media_type(request: HttpRequest) -> str:
    """Return the media type of a body without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
