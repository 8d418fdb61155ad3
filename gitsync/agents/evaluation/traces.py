"""
Draft cases of an evaluation from traces: conversations that failed or were rated, without personal data.

Read are spans and events of the OpenTelemetry Protocol in JSON, as the file exporter of its collector writes them, with
the names of the GenAI semantic conventions 1.37. Source: opentelemetry.io/docs/specs/semconv/gen-ai (agent spans and
events), and opentelemetry-proto, trace.proto and logs.proto.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gitsync.agents.evaluation.cases import Case, Imported, Members
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import at
from gitsync.objects.parsing import parse_spec

_RATING: Final = "gen_ai.evaluation.result"
_ERRORS: Final = (2, "STATUS_CODE_ERROR")
"""The code of a failed span: the JSON encoding allows the number and the name of an enum."""
_GOOD: Final = frozenset({"pass", "passed", "good", "positive", "correct", "relevant", "yes", "true"})
"""Labels of a good rating; the conventions leave them open, and any other one is a bad rating."""
_MIDDLE: Final = 0.5
"""The score from which a rating without a label is good, as scores are from 0 to 1."""
_LONGEST: Final = 2000
"""Characters of an answer or an explanation that a rubric quotes."""
_OTLP_HINT: Final = "write traces with the file exporter of the OpenTelemetry collector, in its format json"


@dataclass(slots=True)
class _Turn:
    """What the spans and events of one trace report: one question and its answer."""

    agent: str = ""
    inputs: list[str] = field(default_factory=list)
    """Messages of the user, the newest last."""
    answer: str = ""
    errors: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    ratings: list[Mapping[str, Any]] = field(default_factory=list)


def drafted(text: str, place: str) -> Imported:
    """
    Return a case for each conversation that failed or was rated, and one line for each that gives none.

    Raise InvalidInput for a text that is not OTLP in JSON.
    """
    turns: defaultdict[str, _Turn] = defaultdict(_Turn)
    for document in _documents(text, place):
        for trace, span in _records(document, "resourceSpans", "scopeSpans", "spans"):
            _add_span(turns[trace], span)
        for trace, event in _records(document, "resourceLogs", "scopeLogs", "logRecords"):
            _add_event(turns[trace], event)
    cases: dict[str, Members] = {}
    left_out: list[str] = []
    for trace, turn in turns.items():
        asserted = list(_assertions(turn))
        if not asserted:
            continue
        name = f"{turn.agent or 'trace'} {trace[:16]}"
        if not turn.inputs:
            left_out.append(f"{name}: has no gen_ai.input.messages with a text of the user; agents have to record them")
            continue
        case = {"name": name, "input": masked(turn.inputs[-1]), "assert": asserted}
        try:
            parse_spec(Case, case, f"{place}: {name}")
        except InvalidInput as error:
            left_out.append(f"{name}: {error.message}")
            continue
        if len(turn.inputs) > 1:
            left_out.append(f"{name}: {len(turn.inputs) - 1} earlier messages: a case has one")
        # The same question with the same fault says nothing new.
        cases.setdefault(json.dumps([case["input"], asserted]), case)
    return Imported(tuple(cases.values()), tuple(left_out))


def _documents(text: str, place: str) -> Iterator[Any]:
    """Yield the documents of a text: one, or one a line."""
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                location = f"{place}:{number}"
                raise InvalidInput(f"not JSON: {error}", location=location, hint=_OTLP_HINT) from error


def _records(document: Any, resources: str, scopes: str, records: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield spans or events of a document, each with the trace that it belongs to."""
    if not isinstance(document, dict) or not document.keys() & {"resourceSpans", "resourceLogs", "resourceMetrics"}:
        raise InvalidInput("not a document of the OpenTelemetry Protocol", hint=_OTLP_HINT)
    for resource in _members(document, resources):
        for scope in _members(resource, scopes):
            for record in _members(scope, records):
                trace = str(record.get("traceId") or "")
                # An event without a trace rates nothing that is known.
                if trace:
                    yield trace, record


def _members(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list, empty where there is none."""
    items = record.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _add_span(turn: _Turn, span: Mapping[str, Any]) -> None:
    attributes = _attributes(span)
    operation = attributes.get("gen_ai.operation.name")
    if operation is None:
        return  # such as a span of HTTP or of a database
    turn.agent = turn.agent or str(attributes.get("gen_ai.agent.name") or "")
    failed = at(span, "status", "code") in _ERRORS or "error.type" in attributes
    tool = str(attributes.get("gen_ai.tool.name") or "")
    if failed:
        reason = at(span, "status", "message", default="") or attributes.get("error.type") or "an error"
        turn.errors.append(f"{f'tool {tool}' if tool else operation}: {reason}")
    elif tool:
        turn.tools.append(tool)
    inputs = _texts(attributes.get("gen_ai.input.messages"), "user")
    # A later call of the model repeats the messages; that of the agent and the longest one know most of them.
    if len(inputs) > len(turn.inputs):
        turn.inputs = inputs
    turn.answer = next(reversed(_texts(attributes.get("gen_ai.output.messages"), "assistant")), turn.answer)
    for event in _members(span, "events"):
        _add_event(turn, event)


def _add_event(turn: _Turn, event: Mapping[str, Any]) -> None:
    # Events of spans have a name, and those of logs an event name.
    if _RATING in (event.get("name"), event.get("eventName")):
        turn.ratings.append(_attributes(event))


def _texts(messages: Any, role: str) -> list[str]:
    """Return the texts of the messages of a role."""
    if isinstance(messages, str):
        # An attribute of a span may have them as JSON.
        try:
            messages = json.loads(messages)
        except json.JSONDecodeError:
            return []
    texts = []
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict) or message.get("role") != role:
            continue
        parts = [part for part in _members(message, "parts") if part.get("type") == "text"]
        text = "\n".join(str(part.get("content", "")) for part in parts)
        texts += [text] if text else []
    return texts


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    return {str(item.get("key")): _value(item.get("value")) for item in _members(record, "attributes")}


def _value(value: Any) -> Any:
    """Return what an AnyValue of OTLP contains."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, content),) = value.items()
    if kind == "arrayValue" and isinstance(content, dict):
        return [_value(item) for item in _members(content, "values")]
    if kind == "kvlistValue" and isinstance(content, dict):
        return {str(item.get("key")): _value(item.get("value")) for item in _members(content, "values")}
    return content


def _assertions(turn: _Turn) -> Iterator[Members]:
    """Yield what the next answer has to be: no fault that was found, and what was rated as good."""
    bad = [rating for rating in turn.ratings if not _is_good(rating)]
    for rating in bad:
        parts = (rating.get(f"gen_ai.evaluation.{part}") for part in ("name", "score.label", "explanation"))
        fault = ": ".join(str(part) for part in parts if part)
        yield {"rubric": f"Does not have the fault that a rating of an earlier answer found: {_quoted(fault)}"}
    if turn.errors:
        yield {"rubric": f"Answers the request; an earlier attempt failed: {_quoted('; '.join(turn.errors))}"}
    if turn.ratings and not bad and not turn.errors:
        yield from ({"toolCalled": tool} for tool in dict.fromkeys(turn.tools))
        if turn.answer:
            yield {"rubric": f"Says the same as this answer, which was rated as good: {_quoted(turn.answer)}"}


def _is_good(rating: Mapping[str, Any]) -> bool:
    label = rating.get("gen_ai.evaluation.score.label")
    if label is not None:
        return str(label).lower() in _GOOD
    try:
        return float(rating.get("gen_ai.evaluation.score.value") or 0) >= _MIDDLE
    except (TypeError, ValueError):
        return False  # a rating that cannot be read counts as a bad one


def _quoted(text: str) -> str:
    return masked(text)[:_LONGEST]


def _unless_date(match: re.Match[str]) -> str:
    return match[0] if re.fullmatch(r"\d{4}-\d\d-\d\d|\d{1,2}\.\d{1,2}\.\d{4}", match[0]) else "<number>"


_MASKS: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    # Words before what is secret; first, since a secret may look like anything below.
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", r"\1 <secret>"),
    (r"(?i)\b(pass(?:word|phrase)?|secret|token|api[_ -]?key)(\s*(?:[:=]|\bis\b)\s*)\S+", r"\1\2<secret>"),
    # Prefixes of keys of OpenAI, Anthropic, Stripe, GitHub, Slack, AWS and Google, and JSON web tokens.
    (r"\b(?:sk|pk|rk)[-_][\w-]{12,}|\bgh[opsu]_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b", "<secret>"),
    (r"\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*", "<secret>"),
    (r"\b(https?://)[^\s/@]+@", r"\1<secret>@"),
    (r"(https?://[^\s?]+)\?\S+", r"\1?<query>"),
    (r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+", "<email>"),
    # 32 letters and digits or more in one word, at least one of them a digit: keys, hashes and tokens.
    (r"\b(?=\w*\d)[A-Za-z0-9_]{32,}\b", "<secret>"),
    (r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b", "<account>"),  # IBAN, ISO 13616
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "<address>"),
    # Telephones, cards and identities; numbers of orders are shorter and mostly what a case is about.
    (r"\+?\b\d(?:[ ()/.-]{0,2}\d){6,}\b", _unless_date),
)


def masked(text: str) -> str:
    """Return a text without secrets, addresses and long numbers; names of people and places stay."""
    for pattern, replacement in _MASKS:
        text = re.sub(pattern, replacement, text)
    return text
