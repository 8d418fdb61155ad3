"""Real servers of what an agent depends on: an MCP server of the official SDK, an A2A server, and a model's API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types
from a2a.server.routes import create_agent_card_routes
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from tests.agents.contract.factories import world
from tests.asgi_server import serve


@dataclass
class ContractServers:
    """Addresses of running servers, which answer what ``answers`` has at that time."""

    answers: dict[str, Any]
    mcp: str = ""
    mcp_by_sse: str = ""
    peer: str = ""
    model: str = ""
    status: int = 200
    """The status with which the model answers."""


@contextmanager
def contract_servers() -> Iterator[ContractServers]:
    """Serve until the block ends."""
    servers = ContractServers(world())
    with ExitStack() as stack:
        # a server cannot change its name: each session gets a new one
        servers.mcp = f"{stack.enter_context(serve(_streamable(servers))).url}/mcp"  # type: ignore[arg-type]
        servers.mcp_by_sse = f"{stack.enter_context(serve(_by_sse(servers))).url}/sse"  # type: ignore[arg-type]
        servers.peer = f"{stack.enter_context(serve(_peer(servers))).url}/"  # type: ignore[arg-type]
        servers.model = f"{stack.enter_context(serve(_model(servers))).url}/v1"  # type: ignore[arg-type]
        yield servers


def _mcp(servers: ContractServers) -> Server[Any]:
    async def tools(context: Any, page: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListToolsResult:
        # two pages, so that the cursor is followed
        start = int(page.cursor) if page and page.cursor else 0
        listed = servers.answers["tools"][start : start + 2]
        following = str(start + 2) if start + 2 < len(servers.answers["tools"]) else None
        found = [mcp_types.Tool.model_validate(tool) for tool in listed]
        return mcp_types.ListToolsResult(tools=found, next_cursor=following)

    return Server("tickets", instructions="", on_list_tools=tools)


def _streamable(servers: ContractServers) -> Starlette:
    server = _mcp(servers)
    app: Starlette = server.streamable_http_app()
    _follow(server, servers)
    return app


def _follow(server: Server[Any], servers: ContractServers) -> None:
    """Let a server tell the name and the instructions of now."""
    original = server.create_initialization_options

    def options(*arguments: Any, **more: Any) -> Any:
        answers = servers.answers
        changed = {"server_name": answers["server"], "instructions": answers["instructions"]}
        return original(*arguments, **more).model_copy(update=changed)

    server.create_initialization_options = options  # type: ignore[method-assign]


def _by_sse(servers: ContractServers) -> Starlette:
    server = _mcp(servers)
    _follow(server, servers)
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])


def _peer(servers: ContractServers) -> Starlette:
    async def card(request: Request) -> Response:
        # the library serves one card; a new route for each request serves the one of now
        routes = create_agent_card_routes(ParseDict(servers.answers["card"], AgentCard()))
        answer: Response = await routes[0].endpoint(request)
        return answer

    return Starlette(routes=[Route("/.well-known/agent-card.json", card)])


def _model(servers: ContractServers) -> Starlette:
    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": servers.answers["models"]}, servers.status)

    async def complete(request: Request) -> Response:
        body = await request.json()
        assert (body["temperature"], body["max_tokens"]) == (0, 1)
        return JSONResponse(servers.answers["completion"], servers.status)

    return Starlette(routes=[Route("/v1/models", models), Route("/v1/chat/completions", complete, methods=["POST"])])
