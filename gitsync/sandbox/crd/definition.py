"""Validation of CustomResourceDefinitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.crd.columns import PathError, parse_path
from gitsync.sandbox.crd.schemas import validate_schema
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import (
    duplicate,
    forbidden,
    immutable,
    invalid,
    malformed,
    one_of,
    required,
    service_path,
    too_many,
)
from gitsync.sandbox.validation.names import dns_1035_label, dns_subdomain

# apiextensions/validation: MaxSelectableFields.
_MOST = 8
_PART = re.compile(r"\.(?P<member>[a-zA-Z_]\w*)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_SELECTABLE = ("boolean", "integer", "string")
_TYPE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def validate_selectable(fields: Sequence[Mapping[str, Any]], schema: Any, field: str) -> list[StatusCause]:
    """Check that each path leads to a scalar of the schema, and that there are not too many."""
    if fields and not schema:
        return [invalid(field, "", "may only be set when validations.schema is included")]
    causes: list[StatusCause] = []
    selected_paths: set[tuple[str, ...]] = set()
    for index, selectable in enumerate(fields):
        path = f"{field}[{index}].jsonPath"
        text = selectable.get("jsonPath", "")
        parts = _parts(text)
        if not text:
            causes.append(required(path))
        elif parts is None or (target_schema := _at(schema, parts)) is None:
            causes.append(invalid(path, text, "is an invalid path: does not refer to a valid field"))
        else:
            causes += _selectable(parts, target_schema, text, path)
            causes += [duplicate(path, text)] if parts in selected_paths else []
            selected_paths.add(parts)
    return causes + ([too_many(field, len(selected_paths), _MOST)] if len(selected_paths) > _MOST else [])


def _selectable(parts: tuple[str, ...], schema: Mapping[str, Any], text: str, path: str) -> list[StatusCause]:
    causes = [invalid(path, text, "must not point to fields in metadata")] if parts[0] == "metadata" else []
    return causes if schema.get("type") in _SELECTABLE else [*causes, invalid(path, text, _TYPE)]


def _parts(text: str) -> tuple[str, ...] | None:
    """Return the names on a path such as ``.spec.color``, None for one of another syntax."""
    names = list[str]()
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            return None
        names.append(part["member"] or part["quoted"])
        position = part.end()
    return tuple(names)


def _at(schema: Any, parts: tuple[str, ...]) -> Any:
    """Return the schema of a field, None where it is not declared; metadata has one of its own."""
    for number, name in enumerate(parts):
        if number == 0 and name == "metadata":
            return {"type": "string"}
        further = (schema.get("properties") or {}).get(name)
        schema = further if further is not None else schema.get("additionalProperties")
        if not isinstance(schema, dict):
            return None
    return schema


_SCOPES = ("Cluster", "Namespaced")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_STRATEGIES = ("None", "Webhook")
_STORAGE = "must have exactly one version marked as storage version"


def validate_definition(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a definition: its names, versions and schemas, and what may not change."""
    spec = new["spec"]
    # The name cannot change, so an update does not check it again.
    causes = [] if old is not None else _name(new)
    causes += _group(spec.get("group", ""))
    causes += _scope(spec.get("scope", ""))
    causes += _versions(spec)
    causes += _names(spec.get("names") or {})
    causes += _schemas(spec)
    causes += _conversion(spec["conversion"], "spec.conversion") if "conversion" in spec else []
    if not any(version.get("storage") for version in spec.get("versions") or ()):
        # The real server fills the status from the spec before it validates, so this follows from the missing storage
        # version.
        causes.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    if old is not None:
        causes += _update(new, old)
    return causes


def _name(crd: Manifest) -> list[StatusCause]:
    name = metadata_of(crd).get("name", "")
    wanted = f"{crd['spec'].get('names', {}).get('plural', '')}.{crd['spec'].get('group', '')}"
    if name == wanted:
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group(group: str) -> list[StatusCause]:
    if not group:
        return [required("spec.group")]
    problems = dns_subdomain(group)
    if problems:
        return [invalid("spec.group", group, text) for text in problems]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _scope(scope: str) -> list[StatusCause]:
    return one_of("spec.scope", scope, _SCOPES) if scope else [required("spec.scope")]


def _versions(spec: Mapping[str, Any]) -> list[StatusCause]:
    versions = spec.get("versions") or []
    causes: list[StatusCause] = []
    names: set[str] = set()
    for index, version in enumerate(versions):
        name = version.get("name", "")
        field = f"spec.versions[{index}].name"
        if name in names:
            causes.append(invalid("spec.versions", _versions_shown(versions), "must contain unique version names"))
        names.add(name)
        causes += [invalid(field, name, text) for text in dns_1035_label(name)]
    if not versions:
        causes.append(invalid("spec.versions", spec.get("versions"), _STORAGE))
    elif sum(bool(version.get("storage")) for version in versions) != 1:
        causes.append(invalid("spec.versions", _versions_shown(versions), _STORAGE))
    return causes


def _versions_shown(versions: Any) -> list[dict[str, Any]]:
    return [
        {
            "Name": version.get("name", ""),
            "Served": version.get("served", False),
            "Storage": version.get("storage", False),
            "Deprecated": version.get("deprecated", False),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ]


def _names(names: Mapping[str, Any]) -> list[StatusCause]:
    causes = []
    for member in ("plural", "singular", "kind", "listKind"):
        field = f"spec.names.{member}"
        name = names.get(member, "")
        if not name:
            causes.append(required(field))
            continue
        spelled = name.lower() if member in ("kind", "listKind") else name
        for text in dns_1035_label(spelled):
            shown = f"may have mixed case, but should otherwise match: {text}" if spelled != name else text
            causes.append(invalid(field, name, shown))
    for member in ("shortNames", "categories"):
        for index, name in enumerate(names.get(member) or ()):
            field = f"spec.names.{member}[{index}]"
            causes += [invalid(field, name, text) for text in dns_1035_label(name)]
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        text = "kind and listKind may not be the same"
        causes.append(invalid("spec.names.listKind", names["listKind"], text))
    return causes


def _conversion(conversion: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check how objects are converted (apiextensions/validation: ValidateCustomResourceConversion)."""
    strategy = conversion.get("strategy", "")
    webhook = conversion.get("webhook") or {}
    # The internal type has no member ``webhook``: causes name the members as they were in v1beta1.
    client_path = f"{field}.webhookClientConfig"
    versions_path = f"{field}.conversionReviewVersions"
    if not strategy:
        return [required(f"{field}.strategy")]
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        causes = one_of(f"{field}.strategy", strategy, _STRATEGIES)
        causes += [forbidden(client_path, text)] if webhook.get("clientConfig") else []
        return causes + ([forbidden(versions_path, text)] if webhook.get("conversionReviewVersions") else [])
    client = webhook.get("clientConfig")
    if client is None:
        causes = [required(client_path, "required when strategy is set to Webhook")]
    elif ("url" in client) == ("service" in client):
        causes = [required(client_path, "exactly one of url or service is required")]
    elif "url" in client:
        causes = _url(client["url"], f"{client_path}.url")
    else:
        causes = _service(client["service"], f"{client_path}.service")
    return causes + _review_versions(webhook.get("conversionReviewVersions") or [], versions_path)


def _url(url: str, field: str) -> list[StatusCause]:
    """Check the URL of a webhook (apiserver/pkg/util/webhook: ValidateWebhookURL)."""
    form = "; desired format: https://host[/path]"
    parts = urlsplit(url)
    user, at_sign, _ = parts.netloc.rpartition("@")
    causes = []
    if parts.scheme != "https":
        causes.append(invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        causes.append(invalid(field, "", f"host must be specified{form}"))
    if at_sign:
        causes.append(invalid(field, user, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid(field, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid(field, parts.query, "query parameters are not permitted in the URL"))
    return causes


def _service(service: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = [required(f"{field}.{member}") for member in ("name", "namespace") if not service.get(member)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{field}.port", port, text))
    return causes + service_path(f"{field}.path", service.get("path") or "/")


def _review_versions(versions: Sequence[str], field: str) -> list[StatusCause]:
    if not versions:
        return [required(field)]
    causes = []
    for index, version in enumerate(versions):
        path = f"{field}[{index}]"
        again = version in versions[:index]
        causes += [invalid(path, version, "duplicate version")] if again else malformed(path, version, dns_1035_label)
    if not {"v1", "v1beta1"} & set(versions):
        causes.append(invalid(field, versions, "must include at least one of v1, v1beta1"))
    return causes


def _schemas(spec: Mapping[str, Any]) -> list[StatusCause]:
    """Check the schemas, columns and subresources; a fault that all versions share is reported at the spec."""
    versions = spec.get("versions") or []
    shared = all(version.get("schema") == versions[0].get("schema") for version in versions)
    causes = []
    for index, version in enumerate(versions):
        if shared and index:
            break
        root = "spec.validation" if shared else f"spec.versions[{index}].schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            text = "schemas are required"
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema", text))
        else:
            causes += validate_schema(schema, f"{root}.openAPIV3Schema")
    for index, version in enumerate(versions):
        prefix = "spec" if len(versions) == 1 else f"spec.versions[{index}]"
        causes += _columns(version.get("additionalPrinterColumns") or (), f"{prefix}.additionalPrinterColumns")
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        causes += validate_selectable(version.get("selectableFields") or (), schema, f"{prefix}.selectableFields")
        causes += _warning(version, f"spec.versions[{index}].deprecationWarning")
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            causes += _scale(scale, f"{prefix}.subresources.scale")
    return causes


def _warning(version: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the warning of a deprecated version (apiextensions/validation: validateDeprecationWarning)."""
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [invalid(field, text, "can only be set for deprecated versions")]
    causes = [invalid(field, text, "must be <= 256 characters long")] if len(text.encode()) > 256 else []
    return causes if text else [invalid(field, text, "must not be an empty string")]


def _columns(columns: Any, field: str) -> list[StatusCause]:
    causes = []
    for index, column in enumerate(columns):
        path = f"{field}[{index}]"
        if not column.get("name"):
            causes.append(required(f"{path}.name"))
        kind = column.get("type", "")
        if not kind:
            causes.append(required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}"))
        elif kind not in _COLUMN_TYPES:
            causes.append(invalid(f"{path}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}"))
        form = column.get("format", "")
        if form and form not in _COLUMN_FORMATS:
            causes.append(invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        where = column.get("jsonPath", "")
        if not where:
            causes.append(required(f"{path}.JSONPath"))
        else:
            causes += _json_path(where, f"{path}.JSONPath")
    return causes


def _json_path(path: str, field: str) -> list[StatusCause]:
    if not path.startswith("."):
        return [invalid(field, path, "must be a simple json path starting with .")]
    try:
        parse_path(path)
    except PathError as error:
        return [invalid(field, path, str(error))]
    return []


def _scale(scale: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for member, prefix, needed in (
        ("specReplicasPath", ".spec.", True),
        ("statusReplicasPath", ".status.", True),
        ("labelSelectorPath", ".", False),
    ):
        path = scale.get(member) or ""
        if not path:
            if needed:
                causes.append(required(f"{field}.{member}"))
        elif not path.startswith(prefix):
            causes.append(invalid(f"{field}.{member}", path, f"should be a json path under {prefix[:-1] or '.'}"))
    return causes


def _update(new: Manifest, old: Manifest) -> list[StatusCause]:
    spec = new["spec"]
    stored_spec = old["spec"]
    causes = []
    conditions = (old.get("status") or {}).get("conditions") or ()
    # Before that nothing can be stored, so scope and kind are still free.
    if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        causes += immutable("spec.scope", spec.get("scope"), stored_spec.get("scope"))
        causes += immutable("spec.names.kind", spec["names"].get("kind"), stored_spec["names"].get("kind"))
    causes += immutable("spec.group", spec.get("group"), stored_spec.get("group"))
    causes += immutable("spec.names.plural", spec["names"].get("plural"), stored_spec["names"].get("plural"))
    names = [version.get("name") for version in spec.get("versions") or ()]
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if stored not in names:
            text = f"missing from spec.versions; {stored} was previously a storage version, and must remain in "
            text += f"spec.versions until a storage migration ensures no data remains persisted in {stored} and "
            text += f"removes {stored} from status.storedVersions"
            causes.append(invalid(f"status.storedVersions[{index}]", stored, text))
    return causes
