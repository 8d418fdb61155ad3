"""
Serve a dashboard through two replicas behind one address: each request goes to one of them at random.

``GITSYNC_TEST_REPLICAS=2`` lets every dashboard and every controller of the suites be two, which share PostgreSQL. What
a user sees may not depend on the replica that answers: ``make replicas`` runs the suites of pages, API and commands so.
"""

from __future__ import annotations

import copy
import os
import random
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from gitsync.server.app import create_app
from gitsync.server.auth.access import Access, Attempts
from gitsync.server.backend import Backend

ARE_TWO = os.environ.get("GITSYNC_TEST_REPLICAS") == "2"

_databases: dict[str, str] = {}
"""The database of the replicas with a data folder, by the path of that."""


def share(folder: Path, database: str) -> None:
    """Let commands on a data folder use the database that its replica shares with others."""
    _databases[str(folder)] = database


def variables(arguments: Iterable[object]) -> dict[str, str]:
    """Return the environment of a command: the database that belongs to the data folder among its arguments."""
    # a test that names a database of its own means that one
    if "GITSYNC_DATABASE" in os.environ:
        return {}
    databases = [_databases[str(argument)] for argument in arguments if str(argument) in _databases]
    return {"GITSYNC_DATABASE": databases[0]} if databases else {}


class OneAddress:
    """What a load balancer does, without any affinity."""

    def __init__(self, replicas: Sequence[ASGIApp]) -> None:
        self._replicas = replicas
        # the same order in each run, so that a failure is seen again
        self._random = random.Random(42)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._random.choice(self._replicas)(scope, receive, send)


def dashboard(engines: Sequence[Backend], access: Access | None = None, **options: Any) -> ASGIApp:
    """Return the dashboard of these replicas, each with a memory of its own."""
    if len(engines) == 1:
        return create_app(engines[0], access, **options)
    # made once, since replicas have the same key
    access = access or Access()
    return OneAddress([create_app(engine, _of_replica(access), **options) for engine in engines])


def still_dashboard(
    engine: Backend, access: Access | None = None, *, are_two: bool = ARE_TWO, **options: Any
) -> ASGIApp:
    """Return a dashboard over an engine that does not change, or two of them."""
    return dashboard([engine] * (2 if are_two else 1), access, **options)


def _of_replica(access: Access) -> Access:
    """Return access with attempts and a memory of sessions of a process of its own; their store is shared."""
    own = copy.copy(access)
    own._attempts = Attempts()
    own._used = set()
    # with the same key and store, as replicas have; what a process remembers is its own
    own.sessions = copy.copy(access.sessions)
    own.sessions._known = OrderedDict()
    return own


def new_database(server: str) -> str:
    """Create a database on a PostgreSQL server, and return its URL."""
    # optional: a machine without PostgreSQL does not have it
    import psycopg

    name = f"replicas_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    return server.replace("/postgres?", f"/{name}?")
