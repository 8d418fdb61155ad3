"""Names of cookies: browsers share cookies between the ports of a host, and dashboards must not share them."""

from __future__ import annotations

from fastapi import Request


def cookie_name(base: str, request: Request) -> str:
    """Return the name of a cookie for the port that the browser opened."""
    try:
        port = request.url.port
    except ValueError:
        port = None
    return f"{base}-{port}" if port else base
