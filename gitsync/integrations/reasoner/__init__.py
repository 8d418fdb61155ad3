"""Advice on plans from an OpenAI-compatible endpoint; it may raise a risk class, never lower one."""
