"""Admission: what stands between a valid request and the store. ``Plugins`` is the entry."""

from gitsync.sandbox.admission.plugins import Plugins

__all__ = ["Plugins"]
