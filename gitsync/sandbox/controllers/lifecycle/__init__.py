"""Garbage collection, namespace deletion, quotas, disruption budgets, role aggregation, autoscaling."""
