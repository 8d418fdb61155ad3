"""
Server-side apply as a pure function: schemas, field sets, ownership, and the other patch types.

The planner uses it to predict the result of an apply; the sandbox's API server uses it to serve one. Nothing here
reads a clock or the network; the only input is the OpenAPI data shipped in ``kube``.
"""
