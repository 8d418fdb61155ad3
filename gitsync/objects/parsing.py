"""Strict models of what users write: base class, field types, and one-line errors that name the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_args

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from gitsync.errors import InvalidInput

# ASCII: \d would match the digits of all scripts, the pattern in the CRD only these. Counts of digits keep int() cheap.
_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", re.ASCII)
_DURATION_SCHEMA = {
    "type": "string",
    # Otherwise the API server would replace null by the default; the controller rejects it with a hint.
    "nullable": True,
    # the pattern alone matches the empty text
    "minLength": 1,
    "pattern": "^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$",
}
_LONGEST = 366 * 24 * 3600.0
_NUMBER_SCHEMA = {"type": "string", "maxLength": 32, "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_SHOWN = 80


class Spec(BaseModel):
    """Base class of specs: immutable, camelCase outside, types are not converted, unknown fields are rejected."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {}
    """What to write instead of a field of Argo CD or Flux that this spec does not have."""

    model_config = ConfigDict(
        # A process uses few of the models; the first use of one builds its validator, under pydantic's lock.
        defer_build=True,
        frozen=True,
        # The string "false" is not converted to true.
        strict=True,
        # A misspelt limit or permission must not be the same as its default.
        extra="forbid",
        alias_generator=to_camel,
        # the controller builds specs by their Python names, users write the camelCase ones
        validate_by_name=True,
        validate_by_alias=True,
    )


_Spec = TypeVar("_Spec", bound=Spec)


def parse_spec(model: type[_Spec], members: object, location: str = "", *, object: str = "") -> _Spec:
    """Return the validated spec; raise InvalidInput that names the invalid field, or all unknown ones."""
    try:
        return model.model_validate(members)
    except ValidationError as error:
        # The URL leads to pydantic's documentation, which authors of manifests do not need.
        raise _invalid_input(error.errors(include_url=False), model, location, object) from error


def check_spec(
    model: type[Spec], members: object, location: str, *, object: str, is_open: Callable[[object], bool]
) -> None:
    """Raise InvalidInput as ``parse_spec`` does, but not for values that are ``is_open``: they are known later."""
    try:
        model.model_validate(members)
    except ValidationError as error:
        # An unknown field is wrong with any value, also with one that is known later.
        wrong = [
            field_error
            for field_error in error.errors(include_url=False)
            if field_error["type"] == _UNKNOWN or not is_open(field_error["input"])
        ]
        if wrong:
            raise _invalid_input(wrong, model, location, object) from error


_UNKNOWN = "extra_forbidden"


def _invalid_input(field_errors: Sequence[ErrorDetails], model: type[Spec], location: str, object: str) -> InvalidInput:
    """
    Return the error of the first invalid field, or of all fields that are unknown.

    A manifest that was written for another controller has several unknown fields, and what is required is missing
    because of them: they are one mistake.
    """
    unknown = [field_error for field_error in field_errors if field_error["type"] == _UNKNOWN]
    if len(unknown) < 2:
        field_error = (*unknown, *field_errors)[0]
        message, hint = _explanation(field_error, model)
        place = f"{location}{_path_of(field_error)}".removeprefix(".")
        return InvalidInput(message, location=place, object=object, hint=hint)
    fields = ", ".join(
        _path_of(field_error).removeprefix(".") + (f" ({hint})" if (hint := _our_name(field_error, model)) else "")
        for field_error in unknown
    )
    return InvalidInput(f"{len(unknown)} fields are not known: {fields}", location=location, object=object)


def _path_of(field_error: ErrorDetails) -> str:
    """Return the path of a field, such as ``.sources[0].path``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in field_error["loc"])


def _our_name(field_error: ErrorDetails, model: type[Spec]) -> str:
    """Return what to write instead of an unknown field, empty where nothing takes its place."""
    from difflib import get_close_matches  # late: a spec that is valid does not need it

    parent = _model_at(model, field_error["loc"][:-1])
    name = str(field_error["loc"][-1])
    if ours := parent.FOREIGN_NAMES.get(name):
        return ours
    known = [str(field.alias) for field in parent.model_fields.values()]
    return f"write {similar[0]}" if (similar := get_close_matches(name, known, 1)) else ""


@dataclass(frozen=True, slots=True)
class Seconds:
    """The annotation of a duration in seconds, written as ``90s``, ``3m`` or ``1h30m``; null is rejected."""

    minimum: float = 0.0
    maximum: float = _LONGEST

    def parse(self, text: object) -> float:
        """Return the seconds of a duration within the range; the error names the range."""
        # each part is optional, so that the expression matches the empty text too
        match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
        hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
        total = float(hours * 3600 + minutes * 60 + seconds)
        if match is None or not self.minimum <= total <= self.maximum:
            accepted = f"between {duration(self.minimum)} and {duration(self.maximum)}"
            raise _invalid(f"{_display(text)} is not a duration {accepted}", "write it as 30s, 3m or 1h30m")
        return total

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.parse, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(_DURATION_SCHEMA)


@dataclass(frozen=True, slots=True)
class Keyed:
    """
    The annotation of a list whose items are merged by a key, so that no two may have the same one.

    The API server refuses duplicates of a list that its schema calls a map; a member of a MultiAgentSystem, and what
    ``gitsync build --check`` and ``preview`` read, has not passed one.
    """

    key: str

    def parse(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the items; the error is that of the first item whose key another one has, as the API server's is."""
        keys = [getattr(item, self.key) for item in items]
        if len(set(keys)) == len(keys):
            return items
        index = next(index for index, key in enumerate(keys) if key in keys[:index])
        context = {"key": self.key, "value": str(keys[index]), "hint": f"give each item a {self.key} of its own"}
        problem = PydanticCustomError("duplicate", "another item has the {key} {value} too", context)
        place: InitErrorDetails = {"type": problem, "loc": (index,), "input": items[index]}
        raise ValidationError.from_exception_data("list", [place])

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.parse, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}


class Section(Spec):
    """A part of a spec; null means absent, as at the API server, except for durations."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, members: Any) -> Any:
        if not isinstance(members, dict) or None not in members.values():
            return members
        durations = {
            name
            for key, field in cls.model_fields.items()
            if any(isinstance(item, Seconds) for item in field.metadata)
            # specs are accepted by both names
            for name in (key, field.alias)
        }
        return {name: value for name, value in members.items() if value is not None or name in durations}


def duration(seconds: float) -> str:
    """Return seconds in the form that ``Seconds`` reads, such as ``1h30m``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def parse_number(text: object) -> float:
    """Return the number of a decimal string such as ``0.05``."""
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        raise _invalid(f"{_display(text)} is not a number in quotes", 'write it as "0.05"')
    return float(text)


Duration = Annotated[float, Seconds()]
"""Seconds, written as ``90s``, ``3m`` or ``1h30m``."""

DecimalText = Annotated[float, BeforeValidator(parse_number), WithJsonSchema(_NUMBER_SCHEMA)]
"""A number written as a string, since YAML and JSON do not keep the digits of floats."""

Text = Annotated[str, Field(min_length=1)]
"""A string that is not empty."""

# strict mode refuses a list, which YAML and JSON give, where a tuple is declared
Strings = Annotated[tuple[str, ...], Field(strict=False)]
"""A list of strings."""


def _invalid(message: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError("invalid", "{message}", {"message": message, "hint": hint})


_TYPES: Mapping[str, tuple[str, str]] = {
    "bool_type": ("a boolean", "write true or false without quotes"),
    "int_type": ("an integer", "write it without quotes"),
    "float_type": ("a number", "write it without quotes"),
    "string_type": ("a string", "write it in quotes"),
    "tuple_type": ("a list", "write each item after a dash"),
    "model_type": ("a mapping", "write its fields as key: value"),
}


def _explanation(error: ErrorDetails, model: type[Spec]) -> tuple[str, str]:
    """Return what is wrong with a field, and how to fix it."""
    kind = error["type"]
    value = _display(error["input"])
    context = error.get("ctx", {})
    if kind in _TYPES:
        expected, hint = _TYPES[kind]
        return f"{value} is not {expected}", hint
    if kind == "missing":
        return "is required", "add it"
    if kind == _UNKNOWN:
        parent = _model_at(model, error["loc"][:-1])
        known = ", ".join(str(field.alias) for field in parent.model_fields.values())
        ours = parent.FOREIGN_NAMES.get(str(error["loc"][-1]))
        return "is not a known field", ours or f"write one of {known}"
    if kind in ("literal_error", "enum"):
        # pydantic writes: 'a', 'b' or 'c'
        return f"{value} is not one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}", ""
    if kind in ("less_than_equal", "greater_than_equal"):
        bound = f"at most {context['le']:g}" if "le" in context else f"at least {context['ge']:g}"
        return f"{value} is out of range", f"write a number of {bound}"
    if kind == "string_too_short":
        return "must not be empty", ""
    return error["msg"][:1].lower() + error["msg"][1:], str(context.get("hint", ""))


def _model_at(model: type[Spec], path: tuple[int | str, ...]) -> type[Spec]:
    """Return the model of a nested spec."""
    # Positions in lists name no field: the annotation of the list leads to the model of its items.
    for name in (part for part in path if isinstance(part, str)):
        field = next(field for key, field in model.model_fields.items() if name in (key, field.alias))
        model = next(_specs(field.annotation))
    return model


def _specs(annotation: Any) -> Iterator[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for argument in get_args(annotation):
        yield from _specs(argument)


def _display(value: object) -> str:
    """Return a value as users write it; only the type of one that has members."""
    if isinstance(value, dict | list | tuple | BaseModel):
        return "a list" if isinstance(value, list | tuple) else "a mapping"
    # repr escapes line breaks and control characters: the message is one line of a condition
    text = repr(value) if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
