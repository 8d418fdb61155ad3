"""Evaluation: cases, their assertions on answers, and the verdict on a revision. Pure."""
