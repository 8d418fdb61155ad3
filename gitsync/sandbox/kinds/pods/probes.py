"""Validation of the probes and hooks of a container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import between, forbidden, invalid, minimum, not_supported, required
from gitsync.sandbox.validation.names import port_name

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PERIODS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def validate_probes(container: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the three probes of a container."""
    causes = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        causes += _probe(probe, f"{field}.{name}")
        # A failing readiness probe stops no container, so it has no grace period.
        if name == "readinessProbe":
            if "terminationGracePeriodSeconds" in probe:
                path = f"{field}.{name}.terminationGracePeriodSeconds"
                text = "must not be set for readinessProbes"
                causes.append(invalid(path, probe["terminationGracePeriodSeconds"], text))
        # One success ends a startup; liveness has no state to return from.
        elif probe.get("successThreshold", 1) != 1:
            causes.append(invalid(f"{field}.{name}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _probe(probe: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = _handler(probe, field)
    for period in _PERIODS:
        causes += minimum(f"{field}.{period}", probe.get(period))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        causes.append(invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    return causes


def validate_lifecycle(lifecycle: Mapping[str, Any] | None, field: str) -> list[StatusCause]:
    """Check the hooks of a container."""
    causes = []
    for name in ("postStart", "preStop"):
        if lifecycle and name in lifecycle:
            causes += _handler(lifecycle[name], f"{field}.{name}")
    return causes


def _handler(handler: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    handlers = [name for name in _HANDLERS if name in handler]
    for index, name in enumerate(handlers):
        path = f"{field}.{name}"
        # The first handler is checked, the others are only forbidden: the order of the list is Go's.
        if index:
            causes.append(forbidden(path, "may not specify more than 1 handler type"))
        else:
            causes += _CHECKS[name](handler[name], path)
    if not handlers:
        causes.append(required(field, "must specify a handler type"))
    return causes


def _exec(action: Mapping[str, Any], field: str) -> list[StatusCause]:
    return [] if action.get("command") else [required(f"{field}.command")]


def _http(action: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = [] if action.get("path") else [required(f"{field}.path")]
    causes += validate_port_or_name(action.get("port", 0), f"{field}.port")
    scheme = action.get("scheme", "")
    if scheme not in _SCHEMES:
        causes.append(not_supported(f"{field}.scheme", scheme, _SCHEMES))
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        if not _HEADER.fullmatch(name):
            causes.append(invalid(f"{field}.httpHeaders", name, _HEADER_TEXT))
    return causes


def _tcp(action: Mapping[str, Any], field: str) -> list[StatusCause]:
    return validate_port_or_name(action.get("port", 0), f"{field}.port")


def _grpc(action: Mapping[str, Any], field: str) -> list[StatusCause]:
    return between(f"{field}.port", action.get("port", 0), 1, 65535)


def _sleep(action: Mapping[str, Any], field: str) -> list[StatusCause]:
    seconds = action.get("seconds", 0)
    # The upper bound needs the grace period of the pod; the server says it in the message and checks it with one only.
    if seconds >= 0:
        return []
    return [invalid(field, seconds, "must be non-negative and less than terminationGracePeriodSeconds")]


def validate_port_or_name(port: Any, field: str) -> list[StatusCause]:
    """Check a port given by number or by name."""
    if isinstance(port, int):
        return between(field, port, 1, 65535)
    return [invalid(field, port, text) for text in port_name(port)]


_CHECKS = {"exec": _exec, "httpGet": _http, "tcpSocket": _tcp, "grpc": _grpc, "sleep": _sleep}
