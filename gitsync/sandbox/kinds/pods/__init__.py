"""Validation of pod specs, shared by Pods and pod templates."""
