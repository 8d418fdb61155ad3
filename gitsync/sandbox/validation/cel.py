"""CEL expressions as the API server runs them: its libraries, its words for what fails."""

from __future__ import annotations

import functools
import ipaddress
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import re2
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from gitsync.kube.quantity import parse

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
        return Program(_environment(variables).compile(_with_formats(expression)))
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise CompileError(f"compilation failed: {text}") from None


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


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_TOKEN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# name of the format -> pattern, characters at most; https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-format-library
_FORMATS: dict[str, tuple[str, int]] = {
    "dns1123Label": (_LABEL, 63),
    "dns1123Subdomain": (rf"{_LABEL}(\.{_LABEL})*", 253),
    "dns1035Label": ("[a-z]([-a-z0-9]*[a-z0-9])?", 63),
    "qualifiedName": (rf"({_LABEL}(\.{_LABEL})*/)?{_TOKEN}", 317),
    "dns1123LabelPrefix": (f"{_LABEL}-?", 63),
    "dns1123SubdomainPrefix": (rf"{_LABEL}(\.{_LABEL})*-?", 253),
    "dns1035LabelPrefix": ("[a-z]([-a-z0-9]*[a-z0-9])?-?", 63),
    "labelValue": (f"({_TOKEN})?", 63),
    "uri": (r"[A-Za-z][A-Za-z0-9+.-]*:.+|/.*", 1 << 20),
    "uuid": ("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", 36),
    "byte": ("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", 1 << 20),
    "date": (_DATE, 10),
    "datetime": (rf"{_DATE}[Tt][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]+)?([Zz]|[+-][0-9]{{2}}:[0-9]{{2}})", 40),
}


_VALIDATE = re.compile(rf"\bformat\.({'|'.join(_FORMATS)})\(\)\.validate\(")


def _with_formats(expression: str) -> str:
    """
    Return an expression in which the validations of formats are calls of ours.

    They are methods that return an optional, and neither a function of Python can return one, nor ``hasValue`` have
    another overload.
    """
    while match := _VALIDATE.search(expression):
        end = _end_of_arguments(expression, match.end())
        argument = expression[match.end() : end]
        call = f'optional.ofNonZeroValue(formatViolations("{match[1]}", {argument}))'
        expression = expression[: match.start()] + call + expression[end + 1 :]
    return expression


def _end_of_arguments(expression: str, start: int) -> int:
    """Return the position of the parenthesis that closes the one before ``start``; the end where none does."""
    depth = 1
    for position in range(start, len(expression)):
        depth += {"(": 1, ")": -1}.get(expression[position], 0)
        if depth == 0:
            return position
    return len(expression)


def _violations(name: str, text: str) -> list[str]:
    """Return why a text has not a format, nothing where it has."""
    pattern, most = _FORMATS[name]
    is_valid = len(text) <= most and re2.fullmatch(pattern, text) is not None
    return [] if is_valid else [f"does not match the format {name}"]


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
    "formatViolations": [(False, _TEXT * 2, _violations)],
}
