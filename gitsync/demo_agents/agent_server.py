"""The agent: an A2A server with a card, health, metrics and a drain, which answers by a model and its tools."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from typing import Any

import httpx
import httpx2
from a2a.helpers.proto_helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gitsync.demo_agents.settings import DemoAgentSettings, McpServer, load_settings, serve


class AnsweringExecutor(AgentExecutor):
    """Answer messages, and count those in flight so that a drain can wait for them."""

    def __init__(self, settings: DemoAgentSettings) -> None:
        self.settings = settings
        self.is_draining = False
        self._in_flight = 0
        self._idle = asyncio.Event()
        # set at first: a drain before any message has nothing to wait for
        self._idle.set()

    async def answer(self, question: str) -> tuple[str, list[dict[str, Any]]]:
        """Return the answer to one question, and the tools that were called."""
        self._in_flight += 1
        self._idle.clear()
        try:
            return await converse(self.settings, question)
        finally:
            # in finally: a question that fails must not hold the drain for ever
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer an A2A message."""
        text, called = await self.answer(context.get_user_input())
        message = new_text_message(text, context_id=context.context_id)
        message.metadata.update({"toolCalls": called})
        await event_queue.enqueue_event(message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: an answer is one message, no task."""

    async def drain(self) -> None:
        """Report not ready from now on, and wait for the messages in flight."""
        self.is_draining = True
        await self._idle.wait()


def application(settings: DemoAgentSettings) -> Starlette:
    """Return the routes of an agent."""
    agent = AnsweringExecutor(settings)
    # unknown members are ignored: the card may be of a later version than the library
    card = ParseDict(_known(settings.card), AgentCard(), ignore_unknown_fields=True)
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), card)

    async def ask(request: Request) -> Response:
        text, _ = await agent.answer((await request.body()).decode(errors="replace"))
        return PlainTextResponse(f"{text}\n")

    async def ready(request: Request) -> Response:
        # 503 takes the Pod out of the Service while its messages are finished
        return PlainTextResponse("draining\n" if agent.is_draining else "ok\n", 503 if agent.is_draining else 200)

    async def alive(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def drain(request: Request) -> Response:
        await agent.drain()
        return PlainTextResponse("drained\n")

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            Route("/ask", ask, methods=["POST"]),
            Route("/readyz", ready),
            Route("/healthz", alive),
            # GET too: a preStop hook of Kubernetes can send nothing else
            Route("/drain", drain, methods=["GET", "POST"]),
            Route("/metrics", metrics),
        ]
    )


def _known(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card with the description that A2A requires."""
    return {**card, "description": card.get("description") or card["name"]}


_MAX_ROUNDS = 5  # a model that calls tools in a circle must end
_TIMEOUT = 30.0
Message = dict[str, Any]


async def converse(settings: DemoAgentSettings, question: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the answer of the agent to a question, and the tools that it called with their arguments."""
    called: list[dict[str, Any]] = []
    messages: list[Message] = [{"role": "system", "content": settings.prompt}, {"role": "user", "content": question}]
    async with AsyncExitStack() as closing:
        sessions = {tool.name: await _open(tool, closing) for tool in settings.tools}
        offered = [function for tool in settings.tools for function in await _functions(tool, sessions[tool.name])]
        for _ in range(_MAX_ROUNDS):
            message = await _complete(settings, messages, offered)
            calls = message.get("tool_calls") or ()
            if not calls:
                return str(message["content"]), called
            messages.append(message)
            for call in calls:
                # functions of the model are named SERVER__TOOL, since the names of two servers may be equal
                name = call["function"]["name"].partition("__")[2]
                arguments = call["function"]["arguments"]
                called.append({"name": name, "arguments": json.loads(arguments)})
                text = await _call(settings, sessions, call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return "I could not finish: too many tool calls.", called


async def _complete(settings: DemoAgentSettings, messages: list[Message], tools: list[dict[str, Any]]) -> Message:
    began = time.perf_counter()
    headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
    body = {"model": settings.model, "messages": messages, **({"tools": tools} if tools else {})}
    async with httpx.AsyncClient(timeout=_TIMEOUT, headers=headers) as client:
        answer = await client.post(f"{settings.endpoint}/chat/completions", json=body)
    answer.raise_for_status()
    completion = answer.json()
    observe_duration(CHAT, settings.model, time.perf_counter() - began)
    for kind, member in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        observe_tokens(settings.model, kind, completion.get("usage", {}).get(member, 0))
    message: Message = completion["choices"][0]["message"]
    return message


async def _open(tool: McpServer, closing: AsyncExitStack) -> Any:
    client = await closing.enter_async_context(httpx2.AsyncClient(headers=dict(tool.headers), timeout=_TIMEOUT))
    return await closing.enter_async_context(Client(streamable_http_client(tool.url, http_client=client)))


async def _functions(tool: McpServer, session: Any) -> list[dict[str, Any]]:
    """Return the tools of an MCP server as functions of the model, those that need no approval."""
    listed = await session.list_tools()
    return [
        {
            "type": "function",
            "function": {
                "name": f"{tool.name}__{function.name}",
                "description": function.description or "",
                "parameters": function.input_schema,
            },
        }
        for function in listed.tools
        if tool.is_offered(function.name)
    ]


async def _call(settings: DemoAgentSettings, sessions: dict[str, Any], function: dict[str, Any]) -> str:
    name, _, wanted = function["name"].partition("__")
    tool = next((server for server in settings.tools if server.name == name), None)
    # again, although only these were offered: a model may name any function
    if tool is None or not tool.is_offered(wanted):
        TOOL_CALLS.labels(function["name"], "refused").inc()
        return f"the tool {function['name']} may not be called"
    began = time.perf_counter()
    result = await sessions[name].call_tool(wanted, json.loads(function["arguments"]))
    observe_duration(EXECUTE_TOOL, settings.model, time.perf_counter() - began)
    TOOL_CALLS.labels(function["name"], "error" if result.is_error else "ok").inc()
    return "\n".join(part.text for part in result.content if part.type == "text")


CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
"""Operations: a request to the model, and a call of a tool."""

_OPERATION = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
_PROVIDER = "openai"
"""The API that the agent speaks, whatever serves it."""

_DURATION = Histogram(
    "gen_ai_client_operation_duration_seconds",
    "Time of a request to the model, or of a call of a tool.",
    _OPERATION,
    # up to 82 seconds, by powers of two
    buckets=[0.01 * 2**power for power in range(14)],
)
_TOKENS = Histogram(
    "gen_ai_client_token_usage",
    "Tokens of a request to the model.",
    [*_OPERATION, "gen_ai_token_type"],
    # up to 67 million tokens, by powers of four; both are the buckets that the semantic conventions advise
    buckets=[4**power for power in range(14)],
)
TOOL_CALLS = Counter("agent_tool_calls_total", "Calls of tools by outcome.", ["tool", "outcome"])


def observe_duration(operation: str, model: str, seconds: float) -> None:
    """Count an operation with its time."""
    _DURATION.labels(operation, _PROVIDER, model).observe(seconds)


def observe_tokens(model: str, kind: str, tokens: int) -> None:
    """Count the tokens of a request to the model; ``kind`` is input or output."""
    _TOKENS.labels(CHAT, _PROVIDER, model, kind).observe(tokens)


def main() -> None:
    """Serve this Pod's agent until the process is ended."""
    serve(application(load_settings()))
