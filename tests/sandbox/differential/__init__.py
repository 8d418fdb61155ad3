"""Differential test: the same generated requests to the sandbox and to a real control plane, answers compared."""
