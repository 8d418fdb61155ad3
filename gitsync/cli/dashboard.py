"""Run a controller with its dashboard until interrupted."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from collections.abc import Callable

import uvicorn

from gitsync.cli.output import say
from gitsync.errors import InvalidInput
from gitsync.runtime.logs import configure
from gitsync.server.app import create_app
from gitsync.settings import Settings
from gitsync.wiring import build_controller


def serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """
    Start the controller, then the dashboard, and call ``on_ready`` with its URL; return after SIGINT or SIGTERM.

    The dashboard is ended first, then the controller lets writes under way end. Raise InvalidInput when the port is
    taken, before anything is started.
    """
    configure(sys.stderr)
    token = settings.web_token.get_secret_value()
    if not token and not _is_loopback(settings.web_host):
        raise InvalidInput(
            f"the dashboard would be open to everybody who reaches {settings.web_host}",
            where="--host",
            cure="set GITSYNC_WEB_TOKEN to a token that people sign in with",
        )
    listener = _listen(settings.web_host, settings.web_port)
    controller = build_controller(settings)
    try:
        controller.start()
        host, port = listener.getsockname()[:2]
        config = uvicorn.Config(
            create_app(
                controller,
                read_only=settings.web_read_only,
                webhook_secret=settings.webhook_secret.get_secret_value(),
                token=token,
            ),
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        _Server(config, lambda: on_ready(f"http://{host}:{port}")).run([listener])
    finally:
        say("stopping")
        controller.stop()
        listener.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {host}:{port}: {error.strerror}", where="--port", cure="take another, such as --port 0"
        ) from error


class _Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as usual, then tell."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()
