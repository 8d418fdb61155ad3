"""Refusals of the API server as a Status, with its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One cause in ``details.causes``: ``reason`` such as FieldValueInvalid, the field's path, the text."""

    reason: str
    message: str
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the cause as the dict of ``details.causes`` in a Status."""
        members = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in members.items() if value}


@dataclass(eq=False)
class ApiError(Exception):
    """
    Refuse a request with an HTTP code and a Status body.

    ``details`` holds name, group, kind (the resource), uid and causes as the API server spells them.
    """

    code: int
    reason: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def to_status(self) -> dict[str, Any]:
        """Return the Status body."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


class Empty(dict[str, Any]):
    """Details that are sent although empty: ``bool`` says they are there."""

    def __bool__(self) -> bool:
        return True


def qualified(plural: str, group: str) -> str:
    """Return the resource as messages name it: ``deployments.apps``, ``configmaps``."""
    return f"{plural}.{group}" if group else plural


def details(kind: str, group: str = "", name: str = "", **more: Any) -> dict[str, Any]:
    """Return ``details`` without its empty members; ``kind`` is a resource or a kind, as the refusal has it."""
    members = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in members.items() if value}


def bad_request(message: str) -> ApiError:
    """Return a 400."""
    return ApiError(400, "BadRequest", message)


def not_found(plural: str, group: str, name: str) -> ApiError:
    """Return the 404 for an object."""
    return ApiError(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', details(plural, group, name))


def no_such_resource() -> ApiError:
    """Return the 404 for a resource that a known group does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", Empty())


def method_not_allowed() -> ApiError:
    """Return a 405; it has empty details rather than none."""
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        Empty(),
    )


def already_exists(plural: str, group: str, name: str, *, terminating: bool = False) -> ApiError:
    """Return the 409 of a create over an object."""
    prefix = "object is being deleted: " if terminating else ""
    return ApiError(
        409,
        "AlreadyExists",
        f'{prefix}{qualified(plural, group)} "{name}" already exists',
        details(plural, group, name),
    )


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """Return the 409 of a write that does not fit what is stored."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        details(plural, group, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, group: str, name: str, causes: list[StatusCause]) -> ApiError:
    """Return the 422 with its causes; several are listed in brackets."""
    group = "" if (kind, group) == ("Event", "events.k8s.io") else group  # both kinds share one strategy
    # Equal causes appear once in the message, each in the details (utilerrors.NewAggregate).
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {listed}',
        details(kind, group, name, causes=[cause.to_dict() for cause in causes]),
    )


def invalid_options(kind: str, causes: list[StatusCause]) -> ApiError:
    """Return the 422 for options such as ``CreateOptions`` or ``DeleteOptions``."""
    return invalid(kind, "meta.k8s.io", "", causes)


def invalid_patch(value: str, why: str) -> ApiError:
    """Return the 422 for a patch whose result cannot be decoded: no kind, no name, cause ``patch``."""
    cause = StatusCause("FieldValueInvalid", f"Invalid value: {value}: {why}", "patch")
    return ApiError(422, "Invalid", f' "" is invalid: patch: {cause.message}', {"causes": [cause.to_dict()]})


def forbidden(plural: str, group: str, name: str, why: str, **more: Any) -> ApiError:
    """Return a 403 on a resource."""
    named = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return ApiError(403, "Forbidden", f"{named} is forbidden: {why}", details(plural, group, name, **more))


def internal(message: str) -> ApiError:
    """Return a 500 without a reason, as the API server gives for errors that are not API errors."""
    return ApiError(500, "", message)


def too_large_resource_version(wanted: int, current: int) -> ApiError:
    """Return the 504 for a resourceVersion that is not there yet."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        {"Retry-After": "1"},
    )


def expired(message: str) -> ApiError:
    """Return the 410 for a revision that is no longer kept."""
    return ApiError(410, "Expired", message)


def path_forbidden(user: str, verb: str, path: str) -> ApiError:
    """Return the 403 on a non-resource URL."""
    return ApiError(403, "Forbidden", f'forbidden: User "{user}" cannot {verb} path "{path}"', Empty())


def not_acceptable_page(offered: str) -> ApiError:
    """Return the 406 for an Accept header nothing can satisfy."""
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
    return ApiError(406, "NotAcceptable", message, Empty())


def too_large(limit: int) -> ApiError:
    """Return the 413 for a body over the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unauthorized() -> ApiError:
    """Return the 401 for credentials that are wrong."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def strict(kind: str, version: str, problems: list[str]) -> ApiError:
    """Return the 400 for unknown or duplicate members under ``fieldValidation=Strict``."""
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(problems)}'
    )


def immutable_uid(value: str) -> StatusCause:
    """Return the cause for a uid that is not the object's."""
    return StatusCause("FieldValueInvalid", f'Invalid value: "{value}": field is immutable', "metadata.uid")


def needs_resource_version(plural: str, group: str, name: str) -> ApiError:
    """Return the 422 for an update that must say which version it replaces."""
    cause = StatusCause(
        "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
    )
    return invalid(plural, group, name, [cause])


def renamed(error: ApiError, kind: str, group: str, name: str) -> ApiError:
    """Return a 422 again with the object that an allocator could not name."""
    causes = [
        StatusCause(c.get("reason", ""), c.get("message", ""), c.get("field", "")) for c in error.details["causes"]
    ]
    return invalid(kind, group, name, causes)


def unsupported_media(media: str, offered: tuple[str, ...], why: str = "") -> ApiError:
    """Return the 415 for a body in a type that is not read."""
    listed = ", ".join(offered)
    message = "the body of the request was in an unknown format - accepted media types include: " + listed
    return ApiError(415, "UnsupportedMediaType", f"{message} ({why})" if why else message)


def unsupported_patch() -> ApiError:
    """Return the 415 of a patch of a built-in kind in a media type that its path does not consume."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", Empty())
