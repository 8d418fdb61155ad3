"""Decide whether a plan may run: policy, windows, approvals, guards. No input or output happens here."""
