"""Run a controller with its dashboard until interrupted."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from pydantic import SecretStr

from gitsync import __version__
from gitsync.cli.dashboard import address_file, local_token
from gitsync.cli.data_folder import lock_data
from gitsync.cli.findings import rejected_applications
from gitsync.cli.further_processes import further_processes, reports_of
from gitsync.cli.output import say
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import GitsyncError, InvalidInput
from gitsync.files import PUBLIC, write_file
from gitsync.ports import SessionStore
from gitsync.runtime.logs import configure, toggle_debug_on_signal
from gitsync.server.app import create_app
from gitsync.server.auth.access import Access, Exposure, Proxy, SignIn
from gitsync.server.auth.oidc import Provider
from gitsync.server.auth.sessions import Sessions, session_key
from gitsync.server.auth.users import Users
from gitsync.server.connections import HEADER_BYTES, limited_protocol, most_connections
from gitsync.settings import Settings
from gitsync.wiring import build_controller

_SHORTEST_TOKEN = 20
_log = logging.getLogger(__name__)


def serve(settings: Settings, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
    """
    Start the controller, then the dashboard, and call ``on_ready`` with its URL; return after SIGINT or SIGTERM.

    On loopback, the first browser that opens the URL is signed in by it.

    The dashboard is stopped first, then the controller, after the writes under way have ended. Raise InvalidInput
    when another controller uses the data folder, before anything is started.
    """
    configure(sys.stderr, settings.log_level)
    toggle_debug_on_signal()
    # before the lock: with invalid settings nothing is started
    access = access_of(settings)
    is_local = _is_loopback(settings.web_host)
    if not access.is_needed and not is_local:
        raise InvalidInput(
            f"the dashboard would be open to everyone who can connect to {settings.web_host}",
            location="--host",
            hint="name a file of users with --users, a provider with GITSYNC_OIDC_ISSUER, or set GITSYNC_WEB_TOKEN",
        )
    with listener, lock_data(settings.data):
        _log.info("gitsync starts", extra={"version": __version__, **changed_settings(settings)})
        controller = build_controller(settings)
        # again: the token of the data folder is read under its lock
        access = access_of(settings, "" if access.is_needed else local_token(settings.data), controller.sessions)
        try:
            controller.start()
            log_rejected(controller.cluster, settings)
            host, port = listener.getsockname()[:2]
            address = f"http://{host}:{port}"
            with further_processes(settings) as children, _announced(settings, address) as url:
                secret = settings.webhook_secret.get_secret_value()
                app = create_app(
                    controller,
                    access,
                    webhook_secret=secret,
                    audit_secret=settings.audit_sink_secret.get_secret_value(),
                    others=reports_of(children),
                )
                # behind a proxy all clients have one address
                config = _configuration(app, most_connections(), is_proxied=bool(settings.web_proxy) or is_local)
                _Server(config, lambda: on_ready(f"{url}{access.link}")).run([listener])
        finally:
            say("stopping")
            # also after a start that failed: some of its threads may run
            controller.stop()


def changed_settings(settings: Settings) -> dict[str, str]:
    """Return the settings that differ from their default; of secrets, only that they are set."""
    changed = {}
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        if value == field.get_default(call_default_factory=True):
            continue
        # the URL of a database, of a proxy or of a reasoner may have a password in it
        is_secret = isinstance(value, SecretStr) or "://" in str(value)
        changed[name] = "set" if is_secret else str(value)
    return changed


def log_rejected(cluster: KubernetesCluster, settings: Settings) -> None:
    """Log at the start which Applications this version rejects with these settings, and the fix."""
    try:
        namespaces = settings.namespaces_read
        for finding in rejected_applications(cluster, namespaces, has_own_rights=settings.controller_rights):
            _log.warning(finding.check, extra={"reason": finding.detail, "hint": finding.fix})
    except GitsyncError as error:
        # one that may not list them: each of them reports it in its status
        _log.info("whether Applications are rejected is not known", extra={"reason": str(error)})


def _configuration(app: Callable[..., Any], most: int, *, is_proxied: bool) -> uvicorn.Config:
    """Return how the dashboard is served; of ``most`` connections, a client that is not proxied gets a quarter."""
    return uvicorn.Config(
        app,
        log_level=logging.WARNING,  # at INFO uvicorn reports its start and stop, as this program does
        access_log=False,
        server_header=False,
        proxy_headers=False,  # they would hide the address of the connection, which identifies a proxy
        timeout_graceful_shutdown=2,  # pages that stream keep their connection open, and would block the stop
        http=limited_protocol(most, most if is_proxied else most // 4),
        ws="none",
        h11_max_incomplete_event_size=HEADER_BYTES,
    )


def access_of(settings: Settings, local: str = "", store: SessionStore | None = None) -> Access:
    """
    Return who may use the dashboard by the settings, on loopback with a generated token; sessions are in the store.

    Raise InvalidInput when the settings are invalid.
    """
    token = _secret(settings.web_token, "the shared token", "GITSYNC_WEB_TOKEN")
    sign_in = SignIn(
        local or token,
        Users(settings.users) if settings.users is not None else None,
        _provider(settings),
        _secret(settings.metrics_token, "the token of the metrics", "GITSYNC_METRICS_TOKEN"),
    )
    exposure = Exposure(
        settings.web_url, Proxy.parse(settings.web_proxy, settings.web_proxy_users), is_local=bool(local)
    )
    sessions = Sessions(_session_key(settings, local), settings.web_session_hours * 3600, store=store)
    return Access(sign_in, exposure, sessions=sessions, read_only=settings.web_read_only)


def _secret(secret: SecretStr, name: str, location: str) -> str:
    """Return a secret of the settings, empty where there is none; raise InvalidInput for one that can be guessed."""
    text = secret.get_secret_value()
    if 0 < len(text) < _SHORTEST_TOKEN:
        raise InvalidInput(
            f"{name} has fewer than {_SHORTEST_TOKEN} characters, so it can be guessed",
            location=location,
            hint="make one: openssl rand -base64 32",
        )
    return text


def _session_key(settings: Settings, local: str) -> str:
    """Return the key of sessions; the folder of a controller that does not start yet is not written to."""
    key = _secret(settings.web_session_key, "the key of sessions", "GITSYNC_WEB_SESSION_KEY")
    return key or (session_key(settings.data) if settings.data.is_dir() else local)


def _provider(settings: Settings) -> Provider | None:
    if not settings.oidc_issuer:
        return None
    if not settings.oidc_client_id:
        raise InvalidInput("is required with GITSYNC_OIDC_ISSUER", location="GITSYNC_OIDC_CLIENT_ID")
    return Provider(
        settings.oidc_issuer,
        settings.oidc_client_id,
        settings.oidc_client_secret.get_secret_value(),
        settings.oidc_name_claim,
        settings.oidc_groups_claim,
    )


@contextlib.contextmanager
def _announced(settings: Settings, url: str) -> Iterator[str]:
    """Write the URL into the data folder, where commands find it, while the dashboard accepts reviews."""
    file = address_file(settings.data)
    if not settings.web_read_only:
        write_file(file, f"{url}\n", PUBLIC)
    try:
        yield url
    finally:
        # a process that is killed leaves it: commands check whether the dashboard answers
        file.unlink(missing_ok=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server(uvicorn.Server):
    """A server that reports when it accepts requests."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """
        Stop the server at SIGINT or SIGTERM.

        uvicorn raises the signal again afterwards, which would end the process before the controller has stopped.
        """
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call ``on_ready``."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()
