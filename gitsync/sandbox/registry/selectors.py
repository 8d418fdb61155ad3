"""Label and field selectors: the text of a query parameter to a predicate on an object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.errors import bad_request

Predicate = Callable[[Manifest], bool]
LabelTest = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", ",", "(", ")", ">", "<"})
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def label_predicate(text: str) -> LabelTest | None:
    """Return the predicate of a label selector, None when it selects everything; 400 when malformed."""
    parser = _Labels(text)
    tests = parser.requirements()
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


class _Labels:
    """A recursive-descent reader of the label selector grammar; the texts of its refusals are the API's."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> list[LabelTest]:
        tests: list[LabelTest] = []
        if not self._tokens:
            return tests
        while True:
            tests.append(self._requirement())
            token = self._next()
            if token is None:
                return tests
            if token != ",":
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() is None:
                raise bad_request("found '', expected: identifier after ','")

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str | None:
        token = self._peek()
        self._at += 1
        return token

    def _requirement(self) -> LabelTest:
        token = self._next()
        if token == "!":
            key = self._key(self._next())
            return lambda labels: key not in labels
        key = self._key(token)
        operator = self._peek()
        if operator is None or operator == ",":
            return lambda labels: key in labels
        self._at += 1
        match operator:
            case "=" | "==":
                value = self._value(key)
                return lambda labels: labels.get(key) == value
            case "!=":
                value = self._value(key)
                return lambda labels: labels.get(key) != value
            case "in":
                values = self._values(key)
                return lambda labels: labels.get(key) in values
            case "notin":
                values = self._values(key)
                return lambda labels: labels.get(key) not in values
            case ">" | "<" | "gt" | "lt":
                return self._comparison(key, operator)
        raise bad_request(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _comparison(self, key: str, operator: str) -> LabelTest:
        text = self._value(key)
        try:
            bound = int(text)
        except ValueError:
            raise bad_request(
                f'unable to parse requirement: values[0][{key}]: Invalid value: "{text}": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            ) from None
        above = operator in (">", "gt")

        def test(labels: Mapping[str, str]) -> bool:
            try:
                value = int(labels[key])
            except (KeyError, ValueError):
                return False
            return value > bound if above else value < bound

        return test

    def _key(self, token: str | None) -> str:
        if token is None or token in _SYMBOLS:
            raise bad_request(
                f"unable to parse requirement: found '{token or ''}', expected: !, identifier, or 'end of string'"
            )
        name = token.rpartition("/")[2]
        if not _NAME.fullmatch(name):
            raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{token}": {_NAME_RULE}')
        return token

    def _value(self, key: str) -> str:
        token = self._peek()
        if token is None or token == ",":
            return ""
        self._at += 1
        if token in _SYMBOLS:
            raise bad_request(f"unable to parse requirement: found '{token}', expected: identifier")
        return _checked_value(key, token)

    def _values(self, key: str) -> frozenset[str]:
        opening = self._next()
        if opening != "(":
            raise bad_request(f"unable to parse requirement: found '{opening or ''}', expected: '('")
        values: set[str] = set()
        expect_value = True
        while (token := self._next()) != ")":
            if token is None:
                raise bad_request("unable to parse requirement: found '', expected: ',', or ')'")
            if token == ",":
                if expect_value:
                    values.add("")
                expect_value = True
            else:
                values.add(_checked_value(key, token))
                expect_value = False
        if expect_value:
            values.add("")
        return frozenset(values)


def _checked_value(key: str, value: str) -> str:
    if len(value) > 63 or not _NAME.fullmatch(value):
        raise bad_request(f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {_VALUE_RULE}')
    return value


_COMMON_FIELDS = ("metadata.name", "metadata.namespace")
_EVENT_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "Secret"): ("type",),
    ("", "Namespace"): ("status.phase",),
    ("", "Node"): ("spec.unschedulable",),
    ("", "Service"): ("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): ("status.replicas",),
    ("apps", "ReplicaSet"): ("status.replicas",),
    ("batch", "Job"): ("status.successful",),
    ("", "Event"): (
        *(f"involvedObject.{name}" for name in _EVENT_OBJECT),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{name}" for name in _EVENT_OBJECT),
        "reason",
        "reportingController",
        "type",
    ),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec.signerName",),
}
"""The field selectors a kind has beyond its name and namespace."""

_FALSE_WHEN_ABSENT = frozenset({"spec.hostNetwork", "spec.unschedulable"})
_ZERO_WHEN_ABSENT = frozenset({"status.replicas", "status.successful"})


def field_predicate(text: str, group: str, kind: str, selectable: tuple[str, ...] = ()) -> tuple[Predicate | None, str]:
    """
    Return the predicate of a field selector, and the name that it selects, if any.

    ``selectable`` are the ``selectableFields`` of a custom resource. 400 for anything else.
    """
    tests: list[tuple[tuple[str, ...], str, bool]] = []
    name = ""
    known = FIELDS.get((group, kind), ()) + selectable
    for term in _split(text):
        field, operator, value = _term(term)
        if field not in _COMMON_FIELDS and field not in known:
            raise _unknown_field(field, group, kind, selectable)
        if field == "metadata.name" and operator != "!=":
            name = value
        stored = field
        if (group, kind) == ("events.k8s.io", "Event"):  # selection sees events as they are stored: core/v1
            stored = field.replace("regarding.", "involvedObject.").replace("Controller", "Component")
        tests.append((tuple(stored.split(".")), value, operator != "!="))
    if not tests:
        return None, ""
    return (lambda obj: all((_field(obj, path) == value) is equal for path, value, equal in tests)), name


def _unknown_field(field: str, group: str, kind: str, selectable: tuple[str, ...]) -> Exception:
    if (group, kind) in FIELDS:
        return bad_request(f"field label not supported: {field}")
    if selectable:
        return bad_request(f"field label not supported: {field}")
    return bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def _split(text: str) -> list[str]:
    # A backslash quotes a comma in a value.
    return [term for term in re.split(r"(?<!\\),", text) if term.strip()]


def _term(term: str) -> tuple[str, str, str]:
    term_match = re.match(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
    if term_match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    field, operator, value = term_match.groups()
    return field.strip(), operator, re.sub(r"\\(.)", r"\1", value)


def _field(obj: Manifest, path: tuple[str, ...]) -> str:
    dotted = ".".join(path)
    if dotted == "source":
        return str(at(obj, "source", "component", default=""))
    if dotted == "status.podIPs":
        return ",".join(str(ip.get("ip", "")) for ip in at(obj, "status", "podIPs", default=[]))
    if dotted == "status.successful":
        path = ("status", "succeeded")
    value: Any = at(obj, *path)
    if value is None:
        if dotted in _FALSE_WHEN_ABSENT:
            return "false"
        return "0" if dotted in _ZERO_WHEN_ABSENT else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
