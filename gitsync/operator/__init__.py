"""The operator of Agents and MultiAgentSystems: expand, then plan, gate, apply, health and record as for Git."""
