"""``python -m gitsync.demo_agents agent|model|tickets``: one program for the three images of the demo."""

from __future__ import annotations

import sys
from importlib import import_module

_PROGRAMS = {"agent": "agent_server", "model": "local_model", "tickets": "tickets"}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in _PROGRAMS:
        sys.exit(f"usage: python -m gitsync.demo_agents {'|'.join(_PROGRAMS)}")
    import_module(f"gitsync.demo_agents.{_PROGRAMS[sys.argv[1]]}").main()
