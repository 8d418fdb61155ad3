"""``gitsync eval``: agents in a sandbox, their answers, and the report."""
