"""Assess the health of live objects, from the objects alone. Pure: no input or output."""
