"""Traces in OTLP become drafts of cases: what failed or was rated, without personal data."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.agents.evaluation.cases import parse_cases
from gitsync.agents.evaluation.traces import drafted, masked
from gitsync.errors import InvalidInput

QUESTION = "I was charged twice for order 4711"


def attributes(**values: Any) -> list[dict[str, Any]]:
    """Return attributes below ``gen_ai.``; ``__`` is a dot."""
    return [{"key": f"gen_ai.{name.replace('__', '.')}", "value": _any_value(value)} for name, value in values.items()]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": _any_value(item)} for key, item in value.items()]}}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def messages(role: str, *texts: str) -> list[Any]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]} for text in texts]


def span(trace: str, operation: str = "invoke_agent", **more: Any) -> dict[str, Any]:
    """Return a span; ``status`` and ``events`` are its own members, others attributes."""
    own: dict[str, Any] = {name: more.pop(name) for name in ("status", "events") if name in more}
    return {"traceId": trace, "attributes": attributes(operation__name=operation, **more), **own}


def rating(**values: Any) -> dict[str, Any]:
    named = {f"evaluation__{name}": value for name, value in values.items()}
    return {"name": "gen_ai.evaluation.result", "attributes": attributes(**named)}


def document(*spans: dict[str, Any], logs: tuple[dict[str, Any], ...] = ()) -> str:
    return json.dumps(
        {
            "resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}],
            "resourceLogs": [{"scopeLogs": [{"logRecords": list(logs)}]}],
        }
    )


FAILED = {"code": 2, "message": "the model did not answer"}
ASKED: dict[str, Any] = {"agent__name": "triage", "input__messages": messages("user", QUESTION)}


def test_a_failed_conversation_becomes_a_case() -> None:
    good = span("b" * 32, **ASKED)
    found = drafted(document(good, span("a" * 32, **ASKED, status=FAILED)), "traces.json")
    (case,) = found.cases
    assert (case["name"], case["input"]) == ("triage aaaaaaaaaaaaaaaa", QUESTION)
    assert "an earlier attempt failed: invoke_agent: the model did not answer" in case["assert"][0]["rubric"]
    assert found.left_out == ()
    assert len(parse_cases(json.dumps(case), "cases.jsonl")) == 1


@pytest.mark.parametrize(
    ("record", "rubric"),
    [
        ({"name": "kind", "score__label": "fail", "explanation": "it was rude"}, "kind: fail: it was rude"),
        ({"name": "kind", "score__value": 0.2}, "fault that a rating of an earlier answer found: kind"),
        ({"name": "kind", "score__label": "pass"}, "Says the same as this answer, which was rated as good: Sorry"),
        ({"name": "kind", "score__value": 0.9}, "Says the same as this answer, which was rated as good: Sorry"),
    ],
)
@pytest.mark.parametrize("is_log", [False, True], ids=["event of the span", "log"])
def test_a_rated_conversation_becomes_a_case(record: dict[str, Any], rubric: str, is_log: bool) -> None:
    event = rating(**record)
    answered = {**ASKED, "output__messages": json.dumps(messages("assistant", "Sorry."))}
    if is_log:
        text = document(span("a" * 32, **answered), logs=({**event, "eventName": event["name"], "traceId": "a" * 32},))
    else:
        text = document(span("a" * 32, **answered, events=[event]))
    (case,) = drafted(text, "traces.json").cases
    assert rubric in case["assert"][0]["rubric"]


def test_tools_of_a_good_conversation_are_asserted() -> None:
    tool = span("a" * 32, "execute_tool", tool__name="find_order")
    agent = span("a" * 32, **ASKED, events=[rating(score__label="Pass")])
    (case,) = drafted(document(tool, tool, agent), "traces.json").cases
    assert case["assert"] == [{"toolCalled": "find_order"}]


def test_a_failed_tool_is_named() -> None:
    tool = span("a" * 32, "execute_tool", tool__name="find_order", status={"code": "STATUS_CODE_ERROR"})
    (case,) = drafted(document(span("a" * 32, **ASKED), tool), "traces.json").cases
    assert "failed: tool find_order: an error" in case["assert"][0]["rubric"]


def test_one_document_a_line_is_read_and_repeated_questions_are_one_case() -> None:
    lines = [document(span(letter * 32, **ASKED, status=FAILED)) for letter in "abc"]
    assert len(drafted("\n".join(lines), "traces.json").cases) == 1


def test_what_gives_no_case_is_named() -> None:
    longer = {**ASKED, "input__messages": messages("user", "Hello", QUESTION)}
    silent = span("a" * 32, agent__name="triage", status=FAILED)
    found = drafted(document(silent, span("b" * 32, **longer, status=FAILED)), "traces.json")
    assert [case["input"] for case in found.cases] == [QUESTION]
    assert [line.partition(": ")[2].partition(" ")[0] for line in found.left_out] == ["has", "1"]
    assert "gen_ai.input.messages" in found.left_out[0]
    other = {"traceId": "c" * 32, "attributes": [], "status": FAILED}
    assert drafted(document(other), "traces.json").cases == ()


@pytest.mark.parametrize(("text", "place"), [("{}\nnope\n", "traces.json:2"), ("[1]", ""), ("{}", "")])
def test_another_document_is_an_error(text: str, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        drafted(text if place != "traces.json:2" else text.replace("{}", '{"resourceSpans": []}'), "traces.json")
    assert place in str(refused.value)
    assert "collector" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ada.lovelace@example.co.uk now", "write to <email> now"),
        ("call +49 (0)30 1234-5678 today", "call <number> today"),
        ("card 4111 1111 1111 1111.", "card <number>."),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN <account>"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer <secret>"),
        ("my password is hunter2!", "my password is <secret>"),
        ("api_key=abc", "api_key=<secret>"),
        ("use sk-proj-abcdefghijklmnop", "use <secret>"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123", "<secret>"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "<secret>"),
        ("hash 0123456789abcdef0123456789abcdef", "hash <secret>"),
        ("from 192.168.10.4", "from <address>"),
        ("https://ada:pw@shop.example/a?token=1", "https://<secret>@shop.example/a?<query>"),
        ("order 4711 of 2026-11-20, paid on 20.11.2026", "order 4711 of 2026-11-20, paid on 20.11.2026"),
        ("49.00 EUR, version 1.2.3", "49.00 EUR, version 1.2.3"),
    ],
)
def test_personal_data_and_secrets_are_masked(text: str, expected: str) -> None:
    assert masked(text) == expected
    # Masking what is masked changes nothing.
    assert masked(expected) == expected


def test_every_text_of_a_case_is_masked() -> None:
    agent: dict[str, Any] = {
        "agent__name": "triage",
        "input__messages": messages("user", "I am ada@example.com"),
        "output__messages": messages("assistant", "Mail to ada@example.com"),
    }
    bad = rating(score__label="fail", explanation="named ada@example.com")
    for events, status in (
        ([bad], {}),
        ([rating(score__label="pass")], {}),
        ([], {"code": 2, "message": "a@b.example"}),
    ):
        found = drafted(document(span("a" * 32, **agent, events=events, status=status)), "traces.json")
        assert len(found.cases) == 1
        assert "@" not in json.dumps(found.cases)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["resourceSpans", "scopeSpans", "spans", "attributes", "events", "key", "value", "traceId", "status"]
            ),
            below,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def _nested(records: Any) -> Any:
    return {"resourceSpans": [{"scopeSpans": [{"spans": records}]}], "resourceLogs": records}


@pytest.mark.parametrize("around", [lambda value: value, _nested], ids=["document", "spans"])
@given(value=_JSON)
def test_any_other_json_is_read_or_refused(around: Callable[[Any], Any], value: Any) -> None:
    with contextlib.suppress(InvalidInput):
        drafted(json.dumps(around(value)), "traces.json")
