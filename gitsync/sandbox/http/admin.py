"""The sandbox's own paths, for administrators: ``/sandbox/requests``, ``/faults``, ``/clock``, ``/controllers``."""

from __future__ import annotations

from typing import Any, Protocol

import orjson

from gitsync.sandbox import errors
from gitsync.sandbox.clock import Clock
from gitsync.sandbox.faults import WATCH_KINDS, Fault, FaultKind, Faults
from gitsync.sandbox.http.endpoints import Endpoints
from gitsync.sandbox.http.request_log import RequestLog
from gitsync.sandbox.http.transport.messages import Request, Response, json_response, text_response
from gitsync.sandbox.registry.definitions import ESTABLISH_SECONDS, Definitions

PREFIX = "/sandbox/"


class Pausable(Protocol):
    """Controllers that can be paused."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        ...

    @property
    def paused(self) -> frozenset[str]:
        """Those that rest."""
        ...

    def pause(self, name: str) -> None:
        """Let one rest; KeyError when there is none of that name."""
        ...

    def resume(self, name: str) -> None:
        """Let one work again."""
        ...


class Admin:
    """Show and set what only a sandbox has."""

    def __init__(
        self,
        clock: Clock,
        endpoints: Endpoints,
        controllers: Pausable | None,
        definitions: Definitions,
        requests: RequestLog,
        faults: Faults,
    ) -> None:
        self.requests = requests
        self.faults = faults
        self._clock = clock
        self._endpoints = endpoints
        self._controllers = controllers
        self._definitions = definitions

    def answer(self, request: Request) -> Response:
        """Answer a request under ``/sandbox/``."""
        name = request.path.removeprefix(PREFIX)
        body = self._body(request)
        match (name, request.method):
            case ("requests", "GET"):
                return json_response({"requests": self.requests.to_list()})
            case ("requests", "DELETE"):
                self.requests.reset()
                return json_response({})
            case ("faults", "GET"):
                return json_response({"faults": self.faults.to_list()})
            case ("faults", "POST"):
                self.inject(_fault(body))
                return json_response({"faults": self.faults.to_list()}, 201)
            case ("faults", "DELETE"):
                self.clear()
                return json_response({})
            case ("clock", "GET"):
                return json_response({"now": self._clock.timestamp(), "speed": self._clock.speed})
            case ("clock", "POST"):
                self._set_clock(body)
                return json_response({"now": self._clock.timestamp(), "speed": self._clock.speed})
            case ("controllers", "GET" | "POST"):
                return json_response(self._rest(body))
        if name in ("requests", "faults", "clock", "controllers"):
            raise errors.method_not_allowed()
        return text_response("404 page not found\n", 404)

    def clear(self) -> None:
        """Take all faults back."""
        self.faults.clear()
        self._definitions.establish_seconds = ESTABLISH_SECONDS

    def inject(self, fault: Fault) -> None:
        """Set a fault; one for watches befalls those that are open too, when it has no delay."""
        if fault.kind is FaultKind.SLOW_ESTABLISHING:
            self._definitions.establish_seconds = fault.seconds
        if fault.kind in WATCH_KINDS and not fault.seconds:
            failed = self._endpoints.fail_open_watches(fault)
            if fault.count and failed >= fault.count:
                return
        self.faults.add(fault, self._endpoints.cluster.store.revision)

    def _body(self, request: Request) -> dict[str, Any]:
        if not request.body.strip():
            return {}
        try:
            value = orjson.loads(request.body)
        except orjson.JSONDecodeError as error:
            raise errors.bad_request(f"the body is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise errors.bad_request("the body is not a JSON object")
        return value

    def _set_clock(self, body: dict[str, Any]) -> None:
        unknown = sorted(set(body) - {"now", "advance", "speed"})
        if unknown:
            raise errors.bad_request(f"unknown member {unknown[0]!r}: the clock takes now, advance and speed")
        for name, value in body.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise errors.bad_request(f"{name} must be a number of seconds, or a factor, of at least 0")
        self._clock.adjust(now=body.get("now"), advance=body.get("advance", 0), speed=body.get("speed"))

    def _rest(self, body: dict[str, Any]) -> dict[str, Any]:
        controllers = self._controllers
        if controllers is None:
            return {"controllers": [], "paused": []}
        for name in (*body.get("pause", ()), *body.get("resume", ())):
            if name not in controllers.names:
                raise errors.bad_request(f"no controller {name!r}: there are {', '.join(controllers.names)}")
        for name in body.get("pause", ()):
            controllers.pause(name)
        for name in body.get("resume", ()):
            controllers.resume(name)
        return {"controllers": list(controllers.names), "paused": sorted(controllers.paused)}


def _fault(body: dict[str, Any]) -> Fault:
    try:
        return Fault.of(body)
    except (ValueError, TypeError) as error:
        raise errors.bad_request(str(error)) from None
