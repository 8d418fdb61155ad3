"""Serve an application on the address and port of its Pod."""

from __future__ import annotations

import os

import uvicorn
from starlette.types import ASGIApp

_DRAIN_SECONDS = 20


def serve(app: ASGIApp) -> None:
    """Answer requests until SIGTERM, and finish those in flight."""
    uvicorn.run(
        app,
        host=os.environ.get("POD_IP", "127.0.0.1"),
        port=int(os.environ.get("PORT", "8080")),
        log_level=os.environ.get("LOG_LEVEL", "info"),
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
