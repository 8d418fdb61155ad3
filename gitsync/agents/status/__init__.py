"""Status: conditions and phase of Agents and MultiAgentSystems, from what was observed."""
