"""
What each built-in kind contributes to a write: canonical form, defaults, what is prepared, what is refused.

``strategy_for`` is the entry. A module holds the kinds of one area; ``decode`` reads any of them by its schema.
"""

from gitsync.sandbox.kinds.registry import strategy_for

__all__ = ["strategy_for"]
