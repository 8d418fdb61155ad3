"""The parts of the state together, for the engine and for its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gitsync.ports import Sizes
from gitsync.state.costs import Costs
from gitsync.state.declarations import Declarations
from gitsync.state.live_objects import LiveObjects
from gitsync.state.tracked import TrackedObjects
from gitsync.state.views import Views


@dataclass(frozen=True, slots=True)
class State:
    """What the engine writes; ``enqueue`` reconciles an Application because of what another one declares."""

    views: Views
    declarations: Declarations
    tracked: TrackedObjects
    costs: Costs
    enqueue: Callable[[str], None]

    @classmethod
    def empty(cls, enqueue: Callable[[str], None], costs: Costs | None = None) -> State:
        """Return the state of a process that has just started."""
        return cls(Views(), Declarations(enqueue), TrackedObjects(), costs or Costs(), enqueue)

    def forget(self, key: str, now: datetime) -> None:
        """Remove a deleted Application."""
        self.views.remove(key, now)
        self.tracked.forget(key)
        self.declarations.forget(key)
        self.costs.forget(key)


class StateView:
    """What readers see, as the port ``StateReader``."""

    def __init__(self, state: State, objects: LiveObjects, sizes: Callable[[], Sizes]) -> None:
        self._views = state.views
        self.applications = state.views.applications
        self.application = state.views.application
        self.events = state.views.events
        self.wait = state.views.wait
        self.live = objects.live
        self.dependents = objects.dependents
        self.owned_by = objects.owned_by
        self.cost = state.costs.of
        self.api_requests = state.costs.api_requests
        self.stage_durations = state.costs.distributions
        self.sizes = sizes

    @property
    def bounds(self) -> tuple[int, int]:
        """The ids of the oldest kept and the newest event; (0, 0) when there is none."""
        return self._views.bounds
