"""MultiAgentSystem: its members and their waves, its children, its rollout and its status. Pure."""
