"""The contract of an agent: what it depends on that changes without a commit, locked in Git and compared. Pure."""
