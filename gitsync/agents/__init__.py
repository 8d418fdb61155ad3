"""Agents: the models of both kinds, their expansion into children, and their status."""
