"""Fill parameters into the texts of a parsed object: logic-less, strict, and never into its structure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gitsync.errors import InvalidInput

Parameters = Mapping[str, str]
"""The parameters of an element, by name."""

_PARAMETER = re.compile(r"\{\{([^{}]*)\}\}")  # no logic and no nesting, so that a text cannot compute or escape
_SHOWN = 20


def has_parameters(value: object) -> bool:
    """Whether a value is a text with parameters."""
    return isinstance(value, str) and _PARAMETER.search(value) is not None


def fill(value: Any, parameters: Parameters, place: str, element: str) -> Any:
    """
    Return a value with the parameters filled into its texts; keys, and what was filled in, are not filled again.

    Raise InvalidInput that names an unknown parameter, the element, and the place in the template.
    """
    return _replaced(value, place, lambda name, where: _value(name, parameters, where, element))


def fill_known(value: Any, parameters: Parameters) -> Any:
    """Return a value with these parameters filled into its texts; others stay as they are written."""
    # others are parameters of an outer generator, and are filled later
    return _replaced(value, "", lambda name, where: parameters.get(name, f"{{{{{name}}}}}"))


def _replaced(value: Any, place: str, value_of: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        # a function as replacement: a value with a backslash must not be read as a pattern
        return _PARAMETER.sub(lambda match: value_of(match[1].strip(), place), value)
    if isinstance(value, dict):
        # keys are not filled: a parameter must not change the structure
        return {key: _replaced(item, f"{place}.{key}", value_of) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, f"{place}[{index}]", value_of) for index, item in enumerate(value)]
    return value


def flatten(value: Mapping[str, Any], element: str) -> dict[str, str]:
    """
    Return the parameters of an element: members of members, and items of lists, joined by a dot.

    A null is absent. Raise InvalidInput where two members have one name.
    """
    parameters: dict[str, str] = {}
    for name, text in _flat(value, ""):
        if name in parameters:
            raise InvalidInput(f"parameter {name!r} is set twice", location=element, hint="rename one of them")
        parameters[name] = text
    return parameters


def _value(name: str, parameters: Parameters, place: str, element: str) -> str:
    if name in parameters:
        return parameters[name]
    # sorted and cut: an element may have thousands of members
    known = sorted(parameters)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    raise InvalidInput(
        f"{element} has no parameter {name!r}",
        location=place,
        hint=f"it has {', '.join(known[:_SHOWN])}{more}" if known else "it has none",
    )


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in items:
            yield from _flat(item, f"{prefix}.{name}" if prefix else str(name))
    elif value is not None:
        yield prefix, _text(value)


def _text(value: Any) -> str:
    """Return a scalar as YAML writes it."""
    # str() would write True
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
