"""Validation helpers that kinds, custom resources and admission share."""
