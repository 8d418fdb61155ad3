"""
Custom resources: validation of definitions, and the strategy of their objects.

``strategy`` gives the strategy of one version of a definition, ``columns`` its printer columns, ``status_of``
the status that says whether its names were accepted. The definition as an object is a built-in kind.
"""

from gitsync.sandbox.crd.columns import columns
from gitsync.sandbox.crd.naming import status_of
from gitsync.sandbox.crd.resource_strategy import strategy

__all__ = ["columns", "status_of", "strategy"]
