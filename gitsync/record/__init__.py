"""What survives a restart outside the cluster: history, the audit chain, approvals. SQL through SQLAlchemy Core."""
