"""Decide whether a plan may run: policy, windows, approvals, deletion limits. No input or output happens here."""
