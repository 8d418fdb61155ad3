"""The options of a write, from query and headers."""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps

from gitsync.sandbox import errors
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.http.transport.messages import HttpRequest
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.users import ApiUser

# apimachinery/pkg/apis/meta/v1/validation: FieldManagerMaxLength.
MAX_MANAGER = 128
# apiserver/pkg/endpoints/filters/warning.go: truncateAtTotalRunes, and truncateItemRunes below.
MAX_WARNINGS = 4096
MAX_WARNING = 256


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
