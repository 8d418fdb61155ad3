"""Deterministic fault injection for requests and watches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gitsync.sandbox.errors import MODIFIED, ApiError, conflict


class FaultKind(Enum):
    """What goes wrong."""

    LATENCY = "latency"
    """The answer takes ``seconds`` longer."""
    CONFLICT = "conflict"
    """409, as if another client had written in between."""
    THROTTLE = "throttle"
    """429 with ``Retry-After: seconds``."""
    ERROR = "error"
    """The status ``code`` before anything is done."""
    GROUP_UNAVAILABLE = "group-unavailable"
    """The answer of the aggregation layer when the server of an API group is down; open watches of it stay open."""
    ERROR_AFTER = "error-after"
    """The status ``code`` although it was done."""
    LOST_REPLY = "lost-reply"
    """It is done, and the connection is cut instead of the answer."""
    DROP_WATCH = "drop-watch"
    """The watch is cut after ``seconds``."""
    HALF_OPEN_WATCH = "half-open-watch"
    """The watch stays open after ``seconds`` but sends nothing more."""
    EXPIRE_WATCH = "expire-watch"
    """The watch ends after ``seconds`` with 410 Expired."""
    STALE_READ = "stale-read"
    """Reads show the state at the time the fault was set."""
    SLOW_ESTABLISHING = "slow-establishing"
    """New definitions of custom resources are established after ``seconds``."""


_NUMBERS: dict[str, Any] = {"skip": int, "count": int, "every": int, "code": int, "seconds": (int, float)}
WATCH_KINDS = frozenset({FaultKind.DROP_WATCH, FaultKind.HALF_OPEN_WATCH, FaultKind.EXPIRE_WATCH})


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """
    One fault and the requests it applies to; an empty attribute matches all.

    ``skip`` requests that fit pass before it applies, ``count`` fail (0: until it is cleared). Of these,
    only each ``every``-th fails (0 and 1: all).
    """

    kind: FaultKind
    verb: str = ""
    resource: str = ""
    """As messages name it: ``deployments.apps``, ``configmaps``."""
    namespace: str = ""
    name: str = ""
    user: str = ""
    agent: str = ""
    skip: int = 0
    count: int = 0
    every: int = 0
    seconds: float = 0.0
    code: int = 500

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> InjectedFault:
        """Read a fault from JSON; raise ValueError that says what is wrong."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"unknown member {unknown[0]!r}: a fault has {', '.join(sorted(known))}")
        try:
            kind = FaultKind(values.get("kind"))
        except ValueError:
            kinds = ", ".join(kind.value for kind in FaultKind)
            raise ValueError(f"unknown kind {values.get('kind')!r}: one of {kinds}") from None
        for name, value in values.items():
            if name in _NUMBERS:
                if isinstance(value, bool) or not isinstance(value, _NUMBERS[name]) or value < 0:
                    raise ValueError(f"{name} must be a number of at least 0")
            elif not isinstance(value, str):
                raise ValueError(f"{name} must be a text")
        return cls(**{**values, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """Return the fault as JSON."""
        return {**dataclasses.asdict(self), "kind": self.kind.value}

    def refusal(self, plural: str, group: str, name: str) -> ApiError | None:
        """Return what it answers instead of doing anything, None for a fault of another kind."""
        if self.kind is FaultKind.CONFLICT:
            return conflict(plural, group, name, MODIFIED)
        if self.kind is FaultKind.THROTTLE:
            seconds = max(1, round(self.seconds))
            return ApiError(
                429,
                "TooManyRequests",
                "too many requests, please try again later",
                {"retryAfterSeconds": seconds},
                {"Retry-After": str(seconds)},
            )
        if self.kind is FaultKind.GROUP_UNAVAILABLE:
            # The words of kube-aggregator's proxy.
            return ApiError(503, "ServiceUnavailable", "error trying to reach service: connection refused")
        return self.failure() if self.kind is FaultKind.ERROR else None

    def failure(self) -> ApiError:
        """Return the error of its code."""
        reasons = {503: "ServiceUnavailable", 504: "Timeout", 500: "InternalError"}
        return ApiError(self.code, reasons.get(self.code, ""), "injected by a fault of the sandbox")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The attributes of a request that faults match."""

    verb: str
    resource: str
    namespace: str
    name: str
    user: str
    agent: str


class _Armed:
    """A fault and the number of requests that it matched."""

    def __init__(self, fault: InjectedFault, revision: int) -> None:
        self.fault = fault
        self.revision = revision
        self.fitted = 0

    def applies_to(self, target: RequestTarget) -> bool:
        fault = self.fault
        fits = (
            fault.verb in ("", target.verb)
            and fault.resource in ("", target.resource)
            and fault.namespace in ("", target.namespace)
            and fault.name in ("", target.name)
            and fault.user in ("", target.user)
            and fault.agent in target.agent
        )
        if not fits:
            return False
        # Counted even when it is not due: skip and every refer to the requests that match.
        self.fitted += 1
        is_due = (self.fitted - fault.skip) % (fault.every or 1) == 0
        return self.fitted > fault.skip and is_due and not self.spent

    @property
    def spent(self) -> bool:
        return bool(self.fault.count) and self.fitted > self.fault.skip + self.fault.count


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that applies to a request, and the revision when it was set."""

    fault: InjectedFault
    revision: int


class Faults:
    """The faults that are set."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []

    def add(self, fault: InjectedFault, revision: int) -> None:
        """Set a fault."""
        self._armed.append(_Armed(fault, revision))

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()

    def to_list(self) -> list[dict[str, Any]]:
        """Return the faults with how many requests fitted."""
        return [{**armed.fault.to_dict(), "fitted": armed.fitted} for armed in self._armed]

    def matching(self, target: RequestTarget) -> tuple[ActiveFault, ...]:
        """Return the faults that apply to a request, and count it."""
        if not self._armed:
            return ()
        return tuple(ActiveFault(armed.fault, armed.revision) for armed in self._armed if armed.applies_to(target))
