"""
Server-side apply as a pure function: schemas, field sets, ownership, and the other patch types.

The planner predicts with it what an API server would do; the sandbox's API server does it. Nothing here
reads a clock or the network; the only file is the shipped description of the built-in types.
"""
