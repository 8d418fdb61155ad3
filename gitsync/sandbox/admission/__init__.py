"""Admission plugins that change or reject a request before it is stored. ``Plugins`` is the entry."""

from gitsync.sandbox.admission.plugins import Plugins

__all__ = ["Plugins"]
