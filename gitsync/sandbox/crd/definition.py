"""Validation of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.crd.jsonpath import PathError, parse_path
from gitsync.sandbox.crd.schemas import validate_schema
from gitsync.sandbox.crd.selectable import validate_selectable
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import forbidden, immutable, invalid, one_of, required
from gitsync.sandbox.validation.names import dns_1035_label, dns_subdomain

_SCOPES = ("Cluster", "Namespaced")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_STRATEGIES = ("None", "Webhook")
_STORAGE = "must have exactly one version marked as storage version"


def validate_definition(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a definition: its names, versions and schemas, and what may not change."""
    spec = new["spec"]
    causes = [] if old is not None else _name(new)
    causes += _group(spec.get("group", ""))
    causes += _scope(spec.get("scope", ""))
    causes += _versions(spec)
    causes += _names(spec.get("names") or {})
    causes += _schemas(spec)
    causes += _conversion(spec.get("conversion") or {}, "spec.conversion")
    if not any(version.get("storage") for version in spec.get("versions") or ()):
        causes.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    if old is not None:
        causes += _update(new, old)
    return causes


def _name(crd: Manifest) -> list[Cause]:
    name = metadata_of(crd).get("name", "")
    wanted = f"{crd['spec'].get('names', {}).get('plural', '')}.{crd['spec'].get('group', '')}"
    if name == wanted:
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    problems = dns_subdomain(group)
    if problems:
        return [invalid("spec.group", group, text) for text in problems]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _scope(scope: str) -> list[Cause]:
    return one_of("spec.scope", scope, _SCOPES) if scope else [required("spec.scope")]


def _versions(spec: Mapping[str, Any]) -> list[Cause]:
    versions = spec.get("versions") or []
    causes: list[Cause] = []
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


def _names(names: Mapping[str, Any]) -> list[Cause]:
    causes = []
    for member in ("plural", "singular", "kind", "listKind"):
        field, name = f"spec.names.{member}", names.get(member, "")
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


def _conversion(conversion: Mapping[str, Any], field: str) -> list[Cause]:
    causes = one_of(f"{field}.strategy", conversion.get("strategy"), _STRATEGIES)
    if conversion.get("strategy") != "Webhook" and (conversion.get("webhook") or {}).get("clientConfig"):
        text = "should not be set when strategy is not set to Webhook"
        causes.append(forbidden(f"{field}.webhookClientConfig", text))
    return causes


def _schemas(spec: Mapping[str, Any]) -> list[Cause]:
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


def _warning(version: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the warning of a deprecated version (apiextensions/validation: validateDeprecationWarning)."""
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [invalid(field, text, "can only be set for deprecated versions")]
    causes = [invalid(field, text, "must be <= 256 characters long")] if len(text.encode()) > 256 else []
    return causes if text else [invalid(field, text, "must not be an empty string")]


def _columns(columns: Any, field: str) -> list[Cause]:
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


def _json_path(path: str, field: str) -> list[Cause]:
    if not path.startswith("."):
        return [invalid(field, path, "must be a simple json path starting with .")]
    try:
        parse_path(path)
    except PathError as error:
        return [invalid(field, path, str(error))]
    return []


def _scale(scale: Mapping[str, Any], field: str) -> list[Cause]:
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


def _update(new: Manifest, old: Manifest) -> list[Cause]:
    spec, before = new["spec"], old["spec"]
    causes = []
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        causes += immutable("spec.scope", spec.get("scope"), before.get("scope"))
        causes += immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    causes += immutable("spec.group", spec.get("group"), before.get("group"))
    causes += immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))
    names = [version.get("name") for version in spec.get("versions") or ()]
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if stored not in names:
            text = f"missing from spec.versions; {stored} was previously a storage version, and must remain in "
            text += f"spec.versions until a storage migration ensures no data remains persisted in {stored} and "
            text += f"removes {stored} from status.storedVersions"
            causes.append(invalid(f"status.storedVersions[{index}]", stored, text))
    return causes
