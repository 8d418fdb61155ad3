"""Defaults and validation of ``resource.k8s.io`` (pkg/apis/resource/v1 and validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import (
    driver_name,
    duplicate,
    immutable,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
    too_many,
)
from gitsync.sandbox.validation.cel import CompileError, compile_expression
from gitsync.sandbox.validation.names import dns_label, dns_subdomain, label_value, qualified_name

# pkg/apis/resource: DeviceRequestsMaxSize, DeviceSelectorsMaxSize, DeviceConfigMaxSize and others are all 32.
_MOST = 32
# FirstAvailableDeviceRequestMaxSize.
_MOST_ALTERNATIVES = 8
_MODES = ("All", "ExactCount")
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
Item = Mapping[str, Any]


def default_claim(obj: Manifest) -> None:
    """Fill in what each request of a ResourceClaim allocates."""
    _default_requests(obj["spec"])


def default_template(obj: Manifest) -> None:
    """Fill in what each request of a ResourceClaimTemplate allocates."""
    _default_requests(obj["spec"]["spec"])


def _default_requests(spec: Manifest) -> None:
    for request in spec["devices"].get("requests") or ():
        exact = [request["exactly"]] if "exactly" in request else []
        for wanted in (*exact, *request.get("firstAvailable", ())):
            if wanted.setdefault("allocationMode", "ExactCount") == "ExactCount":
                wanted.setdefault("count", 1)


def validate_claim(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ResourceClaim; its spec may not change."""
    return immutable("spec", new["spec"], old["spec"]) if old is not None else _devices(new["spec"], "spec.devices")


def validate_template(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ResourceClaimTemplate; its spec may not change."""
    if old is not None:
        return immutable("spec", new["spec"], old["spec"])
    return _devices(new["spec"]["spec"], "spec.spec.devices")


def validate_class(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a DeviceClass."""
    spec = new["spec"]
    causes = _selectors(spec.get("selectors", ()), "spec.selectors")
    causes += _configurations(spec.get("config", ()), "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        causes.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return causes


def _devices(spec: Item, field: str) -> list[StatusCause]:
    devices = spec["devices"]
    requests = devices.get("requests") or ()
    names = {request.get("name", "") for request in requests}
    for request in requests:
        # A constraint may be about one alternative of a request.
        names |= {
            f"{request.get('name', '')}/{alternative.get('name', '')}"
            for alternative in request.get("firstAvailable", ())
        }
    causes = _named(requests, f"{field}.requests", _MOST)
    for index, request in enumerate(requests[:_MOST] if len(requests) <= _MOST else ()):
        causes += _request(request, f"{field}.requests[{index}]")
    for index, constraint in enumerate(devices.get("constraints", ())):
        causes += _constraint(constraint, names, f"{field}.constraints[{index}]")
    causes += _configurations(devices.get("config", ()), f"{field}.config")
    for index, config in enumerate(devices.get("config", ())):
        causes += _references(config.get("requests", ()), names, f"{field}.config[{index}].requests")
    return causes


def _named(items: Sequence[Item], field: str, most: int) -> list[StatusCause]:
    """Check the number and the names of items; more than the most are not checked further."""
    if len(items) > most:
        return [too_many(field, len(items), most)]
    names = [item.get("name", "") for item in items]
    causes = [cause for at, name in enumerate(names) for cause in malformed(f"{field}[{at}].name", name, dns_label)]
    return causes + [duplicate(f"{field}[{at}]", name) for at, name in enumerate(names) if name in names[:at]]


def _request(request: Item, field: str) -> list[StatusCause]:
    """Check what a request asks for: one thing exactly, or the first available one of several."""
    exact = request.get("exactly")
    alternatives = request.get("firstAvailable", ())
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exact is None and not alternatives:
        return [required(field, text)]
    if exact is not None and alternatives:
        return [invalid(field, None, f"{text}, but multiple fields are set")]
    if exact is not None:
        return list(_wanted(exact, f"{field}.exactly"))
    causes = _named(alternatives, f"{field}.firstAvailable", _MOST_ALTERNATIVES)
    for index, item in enumerate(alternatives if len(alternatives) <= _MOST_ALTERNATIVES else ()):
        causes += _wanted(item, f"{field}.firstAvailable[{index}]")
    return causes


def _wanted(wanted: Item, field: str) -> Iterator[StatusCause]:
    name = wanted.get("deviceClassName", "")
    mode = wanted.get("allocationMode", "")
    count = wanted.get("count", 0)
    path = f"{field}.deviceClassName"
    yield from malformed(path, name, dns_subdomain) if name else [required(path)]
    yield from _selectors(wanted.get("selectors", ()), f"{field}.selectors")
    if mode not in _MODES:
        yield not_supported(f"{field}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield invalid(f"{field}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield invalid(f"{field}.count", count, "must be greater than zero")
    for index, toleration in enumerate(wanted.get("tolerations", ())):
        yield from _toleration(toleration, f"{field}.tolerations[{index}]")


def _toleration(toleration: Item, field: str) -> Iterator[StatusCause]:
    key, operator, value = (toleration.get(member, "") for member in ("key", "operator", "value"))
    yield from malformed(f"{field}.key", key, qualified_name) if key else ()
    if operator == "Exists" and value:
        yield invalid(f"{field}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from malformed(f"{field}.value", value, label_value)
    elif operator != "Exists":
        yield not_supported(f"{field}.operator", operator, ("Equal", "Exists"))
    yield from one_of(f"{field}.effect", toleration.get("effect"), _EFFECTS)


def _constraint(constraint: Item, names: set[str], field: str) -> list[StatusCause]:
    causes = _references(constraint.get("requests", ()), names, f"{field}.requests")
    members = [member for member in ("matchAttribute", "distinctAttribute") if member in constraint]
    return causes + (
        _attribute(constraint[members[0]], f"{field}.{members[0]}") if members else [required(field, _ATTRIBUTE)]
    )


def _attribute(name: str, field: str) -> list[StatusCause]:
    """Check the name of an attribute of devices, a domain and a C identifier (validateFullyQualifiedName)."""
    domain, slash, identifier = name.rpartition("/")
    if "/" in domain:  # the server accepts further parts
        return []
    causes = [] if identifier or not slash else [invalid(field, "", "the name must not be empty")]
    if identifier and not _IDENTIFIER.fullmatch(identifier):
        causes.append(invalid(field, identifier, _IDENTIFIER_TEXT))
    if not slash:
        return [
            *causes,
            invalid(field, name, "a fully qualified name must be a domain and a name separated by a slash"),
        ]
    return (driver_name(field, domain) if domain else [invalid(field, "", "the domain must not be empty")]) + causes


def _is_extended(name: str) -> bool:
    """Return whether a resource is of others than Kubernetes (pkg/apis/core/v1/helper: IsExtendedResourceName)."""
    # The prefix is that of quotas, which a resource would be mistaken for.
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def _references(requests: Sequence[str], names: set[str], field: str) -> list[StatusCause]:
    """Check names of requests of the claim, or of alternatives of one: ``request/alternative``."""
    if len(requests) > _MOST:
        return [too_many(field, len(requests), _MOST)]
    causes = []
    for index, name in enumerate(requests):
        parts = name.split("/") if name.count("/") < 2 else []
        causes += [cause for part in parts for cause in malformed(f"{field}[{index}]", part, dns_label)]
        causes += [invalid(f"{field}[{index}]", name, _REFERENCE)] if name not in names else []
    return causes + [duplicate(f"{field}[{at}]", name) for at, name in enumerate(requests) if name in requests[:at]]


def _configurations(configs: Sequence[Item], field: str) -> list[StatusCause]:
    if len(configs) > _MOST:
        return [too_many(field, len(configs), _MOST)]
    causes = []
    for index, config in enumerate(configs):
        path = f"{field}[{index}].opaque"
        opaque = config.get("opaque")
        causes += _opaque(opaque, path) if opaque is not None else [required(path)]
    return causes


def _opaque(opaque: Item, field: str) -> list[StatusCause]:
    causes = driver_name(f"{field}.driver", opaque.get("driver", ""))
    path = f"{field}.parameters"
    parameters = opaque.get("parameters")
    if parameters is None:
        return [*causes, required(path)]
    if not isinstance(parameters, dict):
        # Parameters may be large or secret.
        causes.append(invalid(path, "<value omitted>", "must be a valid JSON object"))
    return causes


def _selectors(selectors: Sequence[Item], field: str) -> list[StatusCause]:
    if len(selectors) > _MOST:
        return [too_many(field, len(selectors), _MOST)]
    causes = []
    for index, selector in enumerate(selectors):
        path = f"{field}[{index}].cel"
        cel = selector.get("cel")
        causes += _selector(cel.get("expression", ""), f"{path}.expression") if cel is not None else [required(path)]
    return causes


def _selector(expression: str, field: str) -> list[StatusCause]:
    try:
        result = compile_expression(expression, ("device",)).result
    except CompileError as error:
        return [invalid(field, expression, str(error))]
    if result in ("bool", "dyn"):
        return []
    return [invalid(field, expression, f"must evaluate to bool or the unknown type, not {result}")]
