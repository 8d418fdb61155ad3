"""
The rules of built-in kinds for writes: canonical form, defaults, preparation, validation.

``strategy_for`` is the entry. A module holds the kinds of one area; ``decode`` reads any of them by its schema.
"""

from gitsync.sandbox.kinds.registry import strategy_for

__all__ = ["strategy_for"]
