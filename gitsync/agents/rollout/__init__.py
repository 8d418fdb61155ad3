"""Rollout: which revision runs in which workload, decided step by step by a pure function."""
