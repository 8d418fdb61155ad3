"""Counts of the requests to a sandbox by verb, resource, user and user agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from gitsync.sandbox import errors
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.definitions import ESTABLISH_SECONDS, Definitions
from gitsync.sandbox.faults import WATCH_KINDS, FaultKind, Faults, InjectedFault
from gitsync.sandbox.http.endpoints import ResourceEndpoints
from gitsync.sandbox.http.transport.messages import HttpRequest, Response, json_response, text_response


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The attributes requests are counted by; ``resource`` is ``deployments.apps``, or a path."""

    verb: str
    resource: str
    user: str
    agent: str


class RequestLog:
    """Count requests, so that a test can show that none was made."""

    def __init__(self) -> None:
        self._counts: Counter[RequestKey] = Counter()

    def record(self, request: RequestKey) -> None:
        """Count one request."""
        self._counts[request] += 1

    def count(self, *, verb: str = "", resource: str = "", user: str = "", agent: str = "") -> int:
        """Return how many requests fit; what is empty fits all, ``agent`` is a part of the user agent."""
        return sum(
            number
            for request, number in self._counts.items()
            if verb in ("", request.verb)
            and resource in ("", request.resource)
            and user in ("", request.user)
            and agent in request.agent
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Return the counts, the largest first."""
        return [
            {
                "verb": request.verb,
                "resource": request.resource,
                "user": request.user,
                "userAgent": request.agent,
                "count": number,
            }
            for request, number in self._counts.most_common()
        ]

    def reset(self) -> None:
        """Remove all counts."""
        self._counts.clear()


PREFIX = "/sandbox/"


class Pausable(Protocol):
    """Controllers that can be paused."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        ...

    @property
    def paused(self) -> frozenset[str]:
        """The names of the paused ones."""
        ...

    def pause(self, name: str) -> None:
        """Pause a controller; raise KeyError when there is none of that name."""
        ...

    def resume(self, name: str) -> None:
        """Resume a paused controller."""
        ...


class Admin:
    """Show and set what only a sandbox has."""

    def __init__(
        self,
        clock: SandboxClock,
        endpoints: ResourceEndpoints,
        controllers: Pausable | None,
        definitions: Definitions,
    ) -> None:
        self.requests = RequestLog()
        self.faults = Faults()
        self._clock = clock
        self._endpoints = endpoints
        self._controllers = controllers
        self._definitions = definitions

    def answer(self, request: HttpRequest) -> Response:
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
        """Remove all faults."""
        self.faults.clear()
        self._definitions.establish_seconds = ESTABLISH_SECONDS

    def inject(self, fault: InjectedFault) -> None:
        """Set a fault; one for watches without a delay also applies to the watches that are open."""
        if fault.kind is FaultKind.SLOW_ESTABLISHING:
            self._definitions.establish_seconds = fault.seconds
        if fault.kind in WATCH_KINDS and not fault.seconds:
            failed = self._endpoints.fail_open_watches(fault)
            # The open watches used up the count: none is left for later ones.
            if fault.count and failed >= fault.count:
                return
        self.faults.add(fault, self._endpoints.cluster.store.revision)

    def _body(self, request: HttpRequest) -> dict[str, Any]:
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
            # In Python True is an int.
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


def _fault(body: dict[str, Any]) -> InjectedFault:
    try:
        return InjectedFault.of(body)
    except (ValueError, TypeError) as error:
        raise errors.bad_request(str(error)) from None
