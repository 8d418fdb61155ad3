"""
Write the CustomResourceDefinitions and the reference pages from the models of the specs.

Usage: ``python -m tools.make_reference``. Run it after a change to the models or to ``tools/*_crd.yaml``,
and never edit the results; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gitsync import __version__
from gitsync.agents.model.agent import AgentSpec
from gitsync.agents.model.system import SystemSpec
from gitsync.applicationsets.model import ApplicationSetSpec
from gitsync.gate.policy_files import PolicySpec, TenantSpec
from gitsync.objects.application import ApplicationSpec
from gitsync.objects.keys import VERSION_ANNOTATION
from gitsync.objects.parsing import Spec, duration

ROOT = Path(__file__).resolve().parent.parent
_CRDS = {
    "application": ApplicationSpec,
    "applicationset": ApplicationSetSpec,
    "agent": AgentSpec,
    "multiagentsystem": SystemSpec,
}
"""The models by the name of their definition; ``tools/NAME_crd.yaml`` has the rest of it."""
_NOTE = "generated from the models by tools/make_reference.py; do not edit"
_DROPPED = {"title", "additionalProperties", "$ref", "$defs", "anyOf", "const", "default"}
_ORDER = {name: index for index, name in enumerate(("description", "type", "nullable", "enum", "default", "required"))}


class _Plain(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@cache
def outputs() -> dict[Path, str]:
    """Return the text of each generated file."""
    definitions = {name: _definition(name, model) for name, model in _CRDS.items()}
    return {
        **{ROOT / "manifests" / "gitsync" / "crds" / f"{name}.yaml": text for name, text in definitions.items()},
        ROOT / "docs" / "reference" / "application.md": _page(
            "Application", ApplicationSpec, "[The Application](../application.md) explains what it does."
        ),
        ROOT / "docs" / "reference" / "applicationset.md": _page(
            "ApplicationSet", ApplicationSetSpec, "[ApplicationSet](../applicationset.md) explains what it does."
        ),
        ROOT / "docs" / "reference" / "agent.md": _page(
            "Agent", AgentSpec, "[Agents](../agents.md) explains what it does."
        ),
        ROOT / "docs" / "reference" / "multiagentsystem.md": _page(
            "MultiAgentSystem", SystemSpec, "[Agents](../agents.md) explains what it does."
        ),
        ROOT / "docs" / "reference" / "policy.md": _page(
            "Policy", PolicySpec, "[Risk and policies](../risk.md) explains what it does."
        ),
        ROOT / "docs" / "reference" / "tenant.md": _page(
            "Tenant", TenantSpec, "[Security](../security.md#tenants) explains what it does."
        ),
    }


def schema_of(model: type[Spec]) -> dict[str, Any]:
    """Return the structural schema of a spec, as a CustomResourceDefinition holds it."""
    document = model.model_json_schema()
    return _structural(document, document.get("$defs", {}))


def defined_schema(model: type[Spec]) -> dict[str, Any]:
    """Return the schema of a spec in its definition, which adds no field to an Application."""
    schema = schema_of(model)
    # the validation rules of Agents and their systems read fields that the definition sets
    return _without_defaults(schema) if model in (ApplicationSpec, ApplicationSetSpec) else schema


def _without_defaults(schema: Any) -> Any:
    """
    Return a schema that sets no field which a user did not write.

    A controller of an older version refuses fields that it does not know, so one that the definition of a newer version
    had set by itself would stop it from syncing anything.
    """
    if isinstance(schema, list):
        return [_without_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # a property may have that name: its value is a schema
    return {key: _without_defaults(item) for key, item in schema.items() if key != "default" or isinstance(item, dict)}


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references, unions with null, titles, and defaults that mean absent."""
    if "anyOf" in schema and "x-kubernetes-int-or-string" not in schema:  # the other one is null
        schema = schema["anyOf"][0] | schema
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]] | schema
    structural = {key: value for key, value in schema.items() if key not in _DROPPED}
    if isinstance(values := schema.get("additionalProperties"), dict):
        structural["additionalProperties"] = _structural(values, definitions)
    if "const" in schema:
        structural["enum"] = [schema["const"]]
    if "properties" in schema:
        structural["properties"] = {
            name: _structural(member, definitions) for name, member in schema["properties"].items()
        }
    if "items" in schema:
        structural["items"] = _structural(schema["items"], definitions)
    if "description" in schema:  # a docstring writes code in two backticks
        structural["description"] = schema["description"].replace("``", "`")
    if (default := schema.get("default")) not in (None, "", [], {}):
        structural["default"] = _written(default, structural)
    return dict(sorted(structural.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER))))


def _written(default: Any, schema: dict[str, Any]) -> Any:
    """Return a default as users write it: durations and decimals are strings."""
    if "nullable" in schema:
        return duration(default)
    return f"{default:g}" if isinstance(default, float) and schema.get("type") == "string" else default


def _definition(name: str, model: type[Spec]) -> str:
    frame = yaml.load((ROOT / "tools" / f"{name}_crd.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    frame["metadata"]["annotations"] = {VERSION_ANNOTATION: __version__}
    version = frame["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = defined_schema(model)
    return f"# {_NOTE}\n{yaml.dump(frame, Dumper=_Plain, sort_keys=False, width=120)}"


def _page(kind: str, model: type[Spec], introduction: str) -> str:
    rows = [
        f"| `{path}` | {_type(schema)} | {_default(schema, required)} | {schema['description']} |".replace("  ", " ")
        for path, schema, required in _fields(schema_of(model))
    ]
    table = "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])
    return (
        f"<!-- {_NOTE} -->\n# {kind}: the fields of `spec`\n\n{introduction} Durations are written `30s`, `3m` or"
        f" `1h30m`.\n\n{table}\n"
    )


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield each field with its path, its schema and whether it is required."""
    for name, member in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, member, name in schema.get("required", ())
        yield from _fields(member, where)
        yield from _fields(member.get("items", {}), f"{where}[]")


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "nullable" in schema:
        return "duration"
    if "x-kubernetes-int-or-string" in schema:
        return "integer or string"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}s"
    return str(schema.get("type", "any"))


def _default(schema: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    default = schema.get("default")
    return "" if default is None else f"`{yaml.safe_dump(default, default_flow_style=True).split(chr(10))[0]}`"


def main() -> None:
    """Write the generated files."""
    for file, text in outputs().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
