"""The MCP server has read-only tools, with the rights of the token's user, and answers what the API answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from gitsync.cli.commands.mcp import tools
from gitsync.cli.dashboard import Dashboard
from gitsync.errors import Refused
from tests.asgi_server import Served, run_apart, serve
from tests.cli.conftest import Shop

NAMES = ["status", "plan", "diff", "drift", "explain", "objects", "changes", "history"]


@pytest.fixture
def web(shop: Shop) -> Iterator[Served]:
    with serve(shop.world.dashboard()) as served:
        yield served


def test_tools_answer_what_the_api_answers_and_change_nothing(shop: Shop, web: Served) -> None:
    found = {tool.__name__: tool for tool in tools(Dashboard(web.url, ""))}
    assert list(found) == NAMES
    app = "gitsync/shop"
    assert orjson.loads(found["status"]())["items"][0]["name"] == "shop"
    assert orjson.loads(found["status"](app))["sync"] == "Synced"
    assert orjson.loads(found["plan"](app))["steps"] == []
    assert [item["sync"] for item in orjson.loads(found["diff"](app))["items"] if item["fields"]] == []
    assert orjson.loads(found["drift"]("by:kubectl"))["items"] == []
    assert orjson.loads(found["explain"](app, "apps/Deployment/shop/web"))["kind"] == "Deployment"
    assert {item["kind"] for item in orjson.loads(found["objects"]("kind:Deployment"))["items"]} == {"Deployment"}
    assert orjson.loads(found["changes"]())["items"]
    sync = orjson.loads(found["history"](app))["items"][0]["id"]
    assert orjson.loads(found["history"](app, sync))["steps"]
    with pytest.raises(Refused, match="is not a filter of this list"):
        found["objects"]("since:1h")


def test_a_client_lists_and_calls_the_tools(shop: Shop, web: Served) -> None:
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters, stdio_client

    async def ask() -> tuple[Any, Any]:
        command = StdioServerParameters(command=sys.executable, args=["-m", "gitsync", "mcp", "--server", web.url])
        async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            return await session.list_tools(), await session.call_tool("status", {"application": "gitsync/shop"})

    listed, answer = run_apart(asyncio.wait_for(ask(), 60))
    assert [tool.name for tool in listed.tools] == NAMES
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    assert orjson.loads(answer.content[0].text)["name"] == "shop"
