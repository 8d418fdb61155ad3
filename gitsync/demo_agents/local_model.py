"""
A deterministic stand-in for a language model, behind the chat completions of the OpenAI API.

It follows simple sentences of its system prompt and knows four forms: ``queue (billing, technical, other)`` chooses one
by the words of the question, ``urgency`` adds a number, ``When a ticket is about money, hand it over.`` adds the action
where the words match, and ``Always …`` and ``Greet …`` add theirs in any case. Everything else in a prompt has no
effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gitsync.demo_agents.settings import serve

_RELATED = {
    "billing": "charge invoice refund pay money price bill card order",
    "money": "charge invoice refund pay price bill card",
    "technical": "error crash login password down slow broken fail",
    "outage": "down unreachable offline",
}
_URGENT = (("down", "outage", "offline", "unreachable"), ("charge", "fail", "crash", "error"), ("slow", "login"))
_IGNORED = frozenset(
    ("a", "an", "the", "is", "are", "it", "its", "about", "of", "for", "to", "when", "if", "ticket", "or", "and")
)
_QUEUES = re.compile(r"queues?\s*\(([^)]*)\)", re.IGNORECASE)
_RULE = re.compile(r"\b(?:When|If) ([^,.]+), ([^.]+)\.")
_ALWAYS = re.compile(r"\bAlways ([^.]+)\.")
_ORDER = re.compile(r"\b\d{4,}\b")


def answer(prompt: str, question: str, facts: Iterable[str] = ()) -> str:
    """Return the answer to a question, with the facts that tools returned."""
    # line breaks of a prompt must not divide its sentences
    prompt = " ".join(prompt.split())
    words = _words(question)
    lines = ["Hello, and thank you for your message."] if re.search(r"\bGreet\b", prompt) else []
    queues = _QUEUES.search(prompt)
    if queues:
        lines.append(f"Queue: {_queue([name.strip() for name in queues[1].split(',')], words)}")
    if "urgency" in prompt.lower():
        lines.append(f"Urgency: {_urgency(words)}")
    lines += [f"Next: {action}" for condition, action in _RULE.findall(prompt) if _matches(condition, words)]
    lines += [f"Next: {action}" for action in _ALWAYS.findall(prompt)]
    lines += [f"Fact: {fact}" for fact in facts]
    return "\n".join(lines or ["I have no instruction for this."])


def order_of(question: str) -> str | None:
    """Return the order number in a question."""
    number = _ORDER.search(question)
    return number[0] if number else None


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in re.findall(r"[a-z]+", text.lower())) - _IGNORED


def _stem(word: str) -> str:
    # "es" before "s": the shorter one would leave an "e"
    for suffix in ("ing", "ed", "es", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            stem = word.removesuffix(suffix)
            return f"{stem}e" if f"{stem}e" in _VOCABULARY else stem
    return word


def _matches(condition: str, words: frozenset[str]) -> bool:
    named = re.findall(r"[a-z]+", condition.lower())
    related = (synonym for word in named for synonym in _RELATED.get(word, "").split())
    return bool((_words(condition) | {_stem(synonym) for synonym in related}) & words)


def _queue(names: list[str], words: frozenset[str]) -> str:
    return next((name for name in names if _matches(name, words)), names[-1])


def _urgency(words: frozenset[str]) -> int:
    return next((index for index, group in enumerate(_URGENT, start=1) if words & set(group)), 4)


_VOCABULARY = frozenset(word for text in _RELATED.values() for word in text.split())


async def complete(request: Request) -> Response:
    """Answer ``POST /v1/chat/completions`` with a text or a call of an offered tool."""
    body = await request.json()
    messages = body["messages"]
    choice = _choice(messages, [tool["function"]["name"] for tool in body.get("tools") or ()])
    used = {"prompt_tokens": _tokens(messages), "completion_tokens": _tokens(choice)}
    usage = {**used, "total_tokens": sum(used.values())}
    finish = "tool_calls" if "tool_calls" in choice else "stop"
    choices = [{"index": 0, "message": {"role": "assistant", **choice}, "finish_reason": finish}]
    # created is 0: equal questions give equal answers
    made = {"id": "local", "object": "chat.completion", "created": 0, "model": body["model"]}
    return JSONResponse({**made, "choices": choices, "usage": usage})


async def health(request: Request) -> Response:
    """Answer a probe."""
    return PlainTextResponse("ok\n")


def _choice(messages: list[dict[str, Any]], tools: list[str]) -> dict[str, Any]:
    prompt = "\n".join(message["content"] for message in messages if message["role"] == "system")
    question = next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
    facts = [message["content"] for message in messages if message["role"] == "tool"]
    order = order_of(question)
    tool = next((name for name in tools if name.endswith("find_order")), None)
    # once: with the answer of the tool the model has what it needs
    if order and tool and not facts:
        call = {"name": tool, "arguments": json.dumps({"number": order})}
        return {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": call}]}
    return {"content": answer(prompt, question, facts)}


def _tokens(value: object) -> int:
    # by words, without a tokenizer: only sums are shown
    return len(json.dumps(value).split())


app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"]), Route("/healthz", health)])


def main() -> None:
    """Serve the model until the process is ended."""
    serve(app)
