"""The agent: an A2A server with a card, health, metrics and a drain."""

from __future__ import annotations

import asyncio
from typing import Any

from a2a.helpers.proto_helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gitsync.demo_agents.conversation import converse
from gitsync.demo_agents.settings import DemoAgentSettings, load_settings, serve


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


def main() -> None:
    """Serve this Pod's agent until the process is ended."""
    serve(application(load_settings()))
