"""Simulated volume binding and provisioning."""
