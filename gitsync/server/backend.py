"""What the dashboard is built on."""

from __future__ import annotations

from typing import Protocol

from gitsync.ports import Clock, Records, Requests, View
from gitsync.services.provenance import Origins
from gitsync.services.revert import Undo


class Engine(Protocol):
    """A running controller, as far as the dashboard may see it."""

    @property
    def view(self) -> View:
        """What it knows."""
        ...

    @property
    def requests(self) -> Requests:
        """What it may be asked."""
        ...

    @property
    def records(self) -> Records:
        """History, audit and approvals."""
        ...

    @property
    def undo(self) -> Undo:
        """Reverts in Git."""
        ...

    @property
    def origins(self) -> Origins:
        """Where fields come from."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...
