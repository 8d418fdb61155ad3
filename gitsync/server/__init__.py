"""The dashboard and the probes. Reads what the engine knows, stores approvals, asks for syncs; never applies."""
