"""The options of a write, from query and headers."""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps

from gitsync.sandbox import errors
from gitsync.sandbox.http.transport.messages import Request
from gitsync.sandbox.registry.request_context import Context
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.users import User

MAX_MANAGER = 128
MAX_WARNINGS = 4096
MAX_WARNING = 256


def write_context(request: Request, user: User, options: str, *, apply: bool = False) -> Context:
    """Return the context of a write; refuse options as the kind ``options`` would."""
    query = request.query
    causes: list[Cause] = []
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        text = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        causes.append(Cause("FieldValueNotSupported", text, "dryRun"))
    manager = query.get("fieldManager", "")
    if options == "PatchOptions" and "force" in query and not apply:
        causes.append(Cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"))
    if apply and not manager:
        causes.append(Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
    if len(manager.encode()) > MAX_MANAGER:
        text = f"Too long: may not be more than {MAX_MANAGER} bytes"
        causes.append(Cause("FieldValueTooLong", text, "fieldManager"))
    if not manager.isprintable():
        text = f"Invalid value: {dumps(manager)}: should only contain printable characters"
        causes.append(Cause("FieldValueInvalid", text, "fieldManager"))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        causes.append(Cause("FieldValueNotSupported", text, "fieldValidation"))
    if causes:
        raise errors.invalid_options(options, causes)
    if not manager:
        manager = request.headers.get("user-agent", "").partition("/")[0][:MAX_MANAGER] or "unknown"
    return Context(user, manager, bool(dry_run), validation, request.flag("force"))


def media_type(request: Request) -> str:
    """Return the media type of a body without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def warning_header(texts: Iterable[str]) -> str:
    """Return the Warning header of some texts, each once; long ones are cut when they are too much together."""
    distinct = list(dict.fromkeys(texts))
    if sum(map(len, distinct)) > MAX_WARNINGS:
        distinct = [text[:MAX_WARNING] for text in distinct][: MAX_WARNINGS // MAX_WARNING]
    return ", ".join(warning_text(text) for text in distinct)


def warning_text(text: str) -> str:
    """Return a text quoted for a Warning header, so that it cannot end the header."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    printable = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in quoted)
    return f'299 - "{printable}"'
