"""An MCP server with the tools of the support desk: orders to read, tickets to close."""

from __future__ import annotations

import os
from typing import Any

_ORDERS = {
    "4711": "order 4711: two payments of 49.00 EUR on the same day, one of them by mistake",
    "4712": "order 4712: shipped, arrives tomorrow",
}


def find_order(number: str) -> str:
    """Return what is known about an order."""
    return _ORDERS.get(number, f"order {number} is unknown")


def close_ticket(number: str) -> str:
    """Close a ticket."""
    return f"ticket {number} is closed"


def server() -> Any:
    """Return the MCP server."""
    from mcp.server import MCPServer

    made = MCPServer("tickets", log_level="WARNING")
    made.add_tool(find_order)
    made.add_tool(close_ticket)
    return made


def main() -> None:
    """Serve the tools over HTTP until the process is ended."""
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # its name is that of a Service
    server().run(
        "streamable-http",
        host=os.environ.get("POD_IP", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8080")),
        # replicas share nothing, so that a session would be lost behind a Service
        stateless_http=True,
        json_response=True,
        transport_security=security,
    )
