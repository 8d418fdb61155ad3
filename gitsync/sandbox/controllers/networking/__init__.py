"""Simulated Services: addresses and endpoints."""
