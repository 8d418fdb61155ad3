"""CEL expressions as the API server runs them: its libraries, its words for what fails."""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
import ipaddress
import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import re2
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from gitsync.kube.cel import TEXTS
from gitsync.kube.quantity import parse
from gitsync.sandbox.validation import names

_T = cel.Type
_MISSING_KEY = re.compile(r'NOT_FOUND: Key not found in map : "(.*)"')
_NO_OVERLOAD = re.compile(r"UNKNOWN: No matching overloads found")
_NANO = 10**9


class CompileError(ValueError):
    """An expression that cannot be compiled."""


class EvaluationError(ValueError):
    """An expression that has no value for this data."""


class Program:
    """A compiled expression."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    @property
    def result(self) -> str:
        """The type of its value, such as ``bool``; ``dyn`` where only the data tells."""
        kind = str(self._expression.return_type()).lower()
        return "null_type" if kind == "null" else kind

    def evaluate(self, data: Mapping[str, Any]) -> Any:
        """Return the value as plain data; raise EvaluationError where there is none."""
        try:
            value = self._expression.eval(data=dict(data))
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise EvaluationError(_worded(str(error))) from None
        if value.type() == _T.ERROR:
            raise EvaluationError(_worded(str(value.value())))
        return value.plain_value()


@functools.lru_cache(maxsize=1024)
def compile_expression(expression: str, variables: tuple[str, ...]) -> Program:
    """Compile an expression over variables of any type; raise CompileError."""
    try:
        return Program(_environment(variables).compile(_with_optionals(expression)))
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise CompileError(f"compilation failed: {text}") from None


_RETURNS_OPTIONAL = re.compile(r"\.\s*validate\s*\(|\bformat\s*\.\s*named\s*\(")


def _with_optionals(expression: str) -> str:
    """
    Return an expression in which the calls of the format library that return an optional select it from a map.

    A function in Python cannot return an optional: it returns a map, with the member ``value`` where there is one.
    """
    # without literals and comments, whose places stay the same
    code = TEXTS.sub(lambda text: " " * len(text[0]), expression)
    for call in reversed(list(_RETURNS_OPTIONAL.finditer(code))):
        end = _end_of_call(code, call.end())
        code = f"{code[:end]}.?value{code[end:]}"
        expression = f"{expression[:end]}.?value{expression[end:]}"
    return expression


def _end_of_call(code: str, start: int) -> int:
    """Return the place after the parenthesis that closes the arguments from ``start`` on."""
    depth = 1
    for index in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[index], 0)
        if depth == 0:
            return index + 1
    return len(code)


def _worded(text: str) -> str:
    missing_key = _MISSING_KEY.search(text)
    if missing_key:
        return f"no such key: {missing_key[1]}"
    return "no such overload" if _NO_OVERLOAD.search(text) else text


@functools.lru_cache(maxsize=64)
def _environment(variables: tuple[str, ...]) -> Any:
    extensions = [
        ext_strings.ExtStrings(),
        ext_math.ExtMath(),
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        ext_optional.ExtOptional(),
    ]
    return cel.NewEnv(
        variables=dict.fromkeys(variables, _T.DYN), extensions=extensions, functions=list(_declarations())
    )


def _declarations() -> Iterator[Any]:
    """Declare the libraries; overloads are chosen by the types of values, which ``DYN`` does not match."""
    for name, overloads in _FUNCTIONS.items():
        yield cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    id=f"{name}_{index}",
                    return_type=_T.DYN,
                    parameters=list(parameters),
                    is_member=is_member,
                    impl=implementation,
                )
                for index, (is_member, parameters, implementation) in enumerate(overloads)
            ],
        )


def _quantity(text: str) -> dict[str, Any]:
    """A quantity is a map in CEL: equal amounts are equal maps. Its number is a text: CEL's integers have 64 bits."""
    return _amount(parse(text).nanos)


def _amount(nanos: int) -> dict[str, str]:
    return {"quantity": str(nanos)}


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _nanos(quantity: Any) -> int:
    return int(quantity["quantity"] if isinstance(quantity, dict) else quantity * _NANO)


def _compare(a: Any, b: Any) -> int:
    return (_nanos(a) > _nanos(b)) - (_nanos(a) < _nanos(b))


def _find(text: str, pattern: str) -> str:
    match = re2.search(pattern, text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [match[0] for match in re2.finditer(pattern, text)]


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _check_uri(text: str) -> list[str]:
    try:
        urlsplit(text)
    except ValueError as error:
        return [f'parse "{text}": {error}']
    return []


def _check_format(problem: str, read: Callable[[str], Any]) -> names.Check:
    def check(text: str) -> list[str]:
        try:
            read(text)
        except (ValueError, binascii.Error):
            return [problem]
        return []

    return check


def _prefix_of(check: names.Check) -> names.Check:
    """Return the check of a prefix to generate names from, which may end with a dash (maskTrailingDash)."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


# k8s.io/apiserver/pkg/cel/library/format.go
_FORMATS: dict[str, names.Check] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "dns1123LabelPrefix": _prefix_of(names.dns_label),
    "dns1123SubdomainPrefix": _prefix_of(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix_of(names.dns_1035_label),
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "uri": _check_uri,
    "uuid": _check_format("does not match the UUID format", uuid.UUID),
    "byte": _check_format("invalid base64", functools.partial(base64.b64decode, validate=True)),
    "date": _check_format("invalid date", datetime.date.fromisoformat),
    "datetime": _check_format("invalid datetime", datetime.datetime.fromisoformat),
}


def _optional(value: Any) -> dict[str, Any]:
    return {} if value is None else {"value": value}


def _format_named(name: str) -> dict[str, Any]:
    return _optional({"format": name} if name in _FORMATS else None)


def _problems(format_value: Any, text: str) -> dict[str, Any]:
    return _optional(_FORMATS[str(format_value["format"])](text) or None)


_Overload = tuple[bool, tuple[Any, ...], Callable[..., Any]]
_TEXT = (_T.STRING,)
_LIST = (_T.LIST,)
_AMOUNT = (_T.MAP,)


def _member(parameters: tuple[Any, ...], implementation: Callable[..., Any]) -> list[_Overload]:
    return [(True, parameters, implementation)]


def _global(implementation: Callable[..., Any]) -> list[_Overload]:
    return [(False, _TEXT, implementation)]


def _arithmetic(sign: int) -> list[_Overload]:
    def combine(a: Any, b: Any) -> dict[str, str]:
        return _amount(_nanos(a) + sign * _nanos(b))

    return [(True, (_T.MAP, _T.MAP), combine), (True, (_T.MAP, _T.INT), combine)]


_FUNCTIONS: dict[str, list[_Overload]] = {
    "quantity": _global(_quantity),
    "isQuantity": _global(_is_quantity),
    "isGreaterThan": _member(_AMOUNT * 2, lambda a, b: _compare(a, b) > 0),
    "isLessThan": _member(_AMOUNT * 2, lambda a, b: _compare(a, b) < 0),
    "compareTo": _member(_AMOUNT * 2, _compare),
    "isInteger": _member(_AMOUNT, lambda a: _nanos(a) % _NANO == 0),
    "asInteger": _member(_AMOUNT, lambda a: _nanos(a) // _NANO),
    "asApproximateFloat": _member(_AMOUNT, lambda a: _nanos(a) / _NANO),
    "sign": _member(_AMOUNT, lambda a: _compare(a, 0)),
    "add": _arithmetic(1),
    "sub": _arithmetic(-1),
    "find": _member(_TEXT * 2, _find),
    "findAll": _member(_TEXT * 2, _find_all),
    "isSorted": _member(_LIST, _is_sorted),
    "sum": _member(_LIST, sum),
    "min": _member(_LIST, min),
    "max": _member(_LIST, max),
    "isURL": _global(_is_url),
    "isIP": _global(_is_ip),
    "isCIDR": _global(_is_cidr),
    "format.named": _global(_format_named),
    "validate": _member((_T.MAP, _T.STRING), _problems),
    **{f"format.{name}": [(False, (), functools.partial(dict, format=name))] for name in _FORMATS},
}
