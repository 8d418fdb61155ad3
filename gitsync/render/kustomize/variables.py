"""Vars: replace ``$(NAME)`` in configured fields by the value of a field of a resource."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.render.build_cache import CachedSteps, hashable
from gitsync.render.provenance.step_source import BUILD_STEP, FieldChange
from gitsync.render.resources.field_path import lookup, split
from gitsync.render.resources.field_spec import FieldSpec, visit
from gitsync.render.resources.resource import NOT_NAMESPACED, Gvk, Resource
from gitsync.render.resources.scopes import Scopes
from gitsync.render.yaml.scalar_types import Folded, Quoted, Untyped, text_of

if TYPE_CHECKING:  # few builds record provenance
    from gitsync.render.provenance.recorder import Recorder

_MISSING: Final = object()
_NAME: Final = r"\$\(([^)]+)\)"
Scalar: TypeAlias = "str | int | float | bool"


class Variable(NamedTuple):
    """A name, the object it reads, the field of it, and where it was declared."""

    name: str
    gvk: Gvk
    object_name: str
    namespace: str
    field: str
    where: str


def variable_from(value: Mapping[str, Any], location: str) -> Variable:
    """Return the variable that an item of ``vars`` declares."""
    reference = value.get("objref") or {}
    group = reference.get("group") or ""
    version = reference.get("version") or ""
    api_version = reference.get("apiVersion") or ""
    # ``apiVersion`` wins over group and version, as in Kustomize.
    if api_version:
        group, _, version = api_version.rpartition("/")
    return Variable(
        value.get("name") or "",
        Gvk(group, version, reference.get("kind") or ""),
        reference.get("name") or "",
        reference.get("namespace") or "",
        (value.get("fieldref") or {}).get("fieldPath") or "metadata.name",
        location,
    )


def add_variables(
    known: dict[str, Variable], incoming: Iterable[Variable], resources: Sequence[Resource], scopes: Scopes
) -> None:
    """Add variables and note the one resource that each reads; refuse names that are taken."""
    for variable in incoming:
        matching = [resource for resource in resources if _is_meant(variable, resource, scopes)]
        if len(matching) > 1:
            raise InvalidInput(
                f"the var {variable.name} could read any of {len(matching)} objects",
                location=variable.where,
                hint="name the object's namespace in objref",
            )
        for resource in matching:
            resource.variables += (variable.name,)
        join_variables(known, (variable,))


def join_variables(known: dict[str, Variable], incoming: Iterable[Variable]) -> None:
    """Add variables to others; refuse a name that is taken."""
    for variable in incoming:
        if variable.name in known:
            raise InvalidInput(
                f"the var {variable.name} is declared twice",
                location=variable.where,
                hint=f"rename it; the other is at {known[variable.name].where}",
            )
        known[variable.name] = variable


def _is_meant(variable: Variable, resource: Resource, scopes: Scopes) -> bool:
    is_exact = bool(variable.namespace) or scopes.is_cluster_scoped(variable.gvk)
    namespace = (
        NOT_NAMESPACED if scopes.is_cluster_scoped(variable.gvk) else scopes.effective(variable.gvk, variable.namespace)
    )
    return any(
        id_.name == variable.object_name
        and id_.gvk.kind == variable.gvk.kind
        and id_.gvk.group == variable.gvk.group
        and id_.gvk.version == variable.gvk.version
        and (not is_exact or id_.namespace == namespace)
        for id_ in scopes.all_ids(resource)
    )


def resolve_variables(
    resources: Sequence[Resource], variables: Mapping[str, Variable], specs: Sequence[FieldSpec], steps: CachedSteps
) -> tuple[str, ...]:
    """
    Replace the variables in the fields of the specs; return a warning for those that nothing uses.

    A memo has what this makes of a resource for these values, and which of them it uses.
    """
    values = {name: _value(variable, resources) for name, variable in variables.items()}
    last, now = steps.tables(("vars", hashable(values), tuple(specs)))
    used: set[str] = set()
    by_gvk: dict[Gvk, list[FieldSpec]] = {}
    for resource in resources:
        gvk = resource.gvk
        known = resource.known
        if known is not None and known in last:
            uses, made = last[known]
            resource.restore(made)
        else:
            uses = set()
            if gvk not in by_gvk:
                by_gvk[gvk] = [spec for spec in specs if spec.gvk.selects(gvk)]
            for spec in by_gvk[gvk]:
                visit(resource.editable, FieldSpec(spec.gvk, spec.path), _expander(values, uses))
            resource.sync_shared_entries()
        if known is not None:
            now[known] = uses, resource.snapshot()
        used |= uses
    return tuple(f"{variables[name].where}: the var {name} is never used" for name in variables if name not in used)


def variable_places(
    variables: Mapping[str, Variable], resources: Sequence[Resource], recorder: Recorder, change: FieldChange
) -> Sequence[str]:
    """Return where the last variable in a text is declared, and where the value that it reads is written."""
    names = [name for name in re.findall(_NAME, text_of(change.old)) if name in variables]
    if not names:
        return ()
    variable = variables[names[-1]]
    for resource in resources:
        if variable.name in resource.variables:
            setters = recorder.history(resource).of(variable.field)
            return (variable.where, *(setter.where for setter in setters[-1:] if setter.where != BUILD_STEP))
    return (variable.where,)


def _value(variable: Variable, resources: Iterable[Resource]) -> Any:
    for resource in resources:
        if variable.name in resource.variables:
            value = lookup(resource.manifest, _with_indexes(variable.field), _MISSING)
            if value is _MISSING:
                raise InvalidInput(
                    f"the var {variable.name} reads the field {variable.field}, which the object does not have",
                    location=variable.where,
                    object=f"{resource.gvk.kind} {resource.name}",
                    hint="correct the fieldref",
                )
            # Kustomize takes the text of the node, whatever its tag.
            return "null" if value is None else value
    raise InvalidInput(
        f"the var {variable.name} reads {variable.gvk.kind} {variable.object_name}, which does not exist",
        location=variable.where,
        hint="correct the objref",
    )


def _with_indexes(path: str) -> list[str]:
    """Return the parts of a path in which ``ports[0]`` is two."""
    parts: list[str] = []
    for part in split(path):
        head, bracket, rest = part.partition("[")
        if bracket and head and rest.endswith("]"):
            parts += [head, rest[:-1]] if rest[:-1].isdecimal() else [head, f"[{rest}"]
        elif bracket and not head and rest[:-1].isdecimal():
            parts.append(rest[:-1])
        else:
            parts.append(part)
    return parts


def _expander(values: Mapping[str, Any], used: set[str]) -> Callable[[Any, Any], None]:
    def leaf(holder: Any, key: Any) -> None:
        value = holder[key]
        if isinstance(value, str):
            holder[key] = _settled(expand(value, values, used))
        elif isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, str):
                    value[name] = _settled(expand(item, values, used))
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if not isinstance(item, str):
                    raise InvalidInput(f"an item of {key} is not a text, so vars cannot be replaced in it")
                value[position] = _settled(expand(item, values, used))

    return leaf


def _settled(value: Any) -> Any:
    """Return a value with the tag of a text and no style of its own, which Kustomize sets even where no var is."""
    return Quoted(value) if type(value) in (Untyped, Folded) else value


def expand(text: str, values: Mapping[str, Any], used: set[str]) -> Any:
    """
    Return the text with ``$(NAME)`` replaced, and ``$$`` as ``$``; unknown names stay.

    A text that is nothing but one variable takes the variable's value with its type.
    """
    if "$" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        pieces.append(text[position:dollar])
        # The syntax of Kubernetes for arguments of containers: ``third_party/forked/golang/expansion``.
        following = text[dollar + 1]
        if following == "(":
            end = text.find(")", dollar)
            if end < 0:
                pieces.append("$(")
                position = dollar + 2
                continue
            name = text[dollar + 2 : end]
            value = values.get(name)
            if name in values:
                used.add(name)
            is_scalar = isinstance(value, str | int | float)
            # Alone, it keeps its type: a port stays a number.
            if dollar == 0 and end == len(text) - 1:
                return (str(value) if isinstance(value, str) else value) if is_scalar else text
            pieces.append(text_of(value) if is_scalar else f"$({name})")
            position = end + 1
        elif following == "$":
            pieces.append("$")
            position = dollar + 2
        else:
            pieces.append(f"${following}")
            position = dollar + 2
    return "".join(pieces) + text[position:]
