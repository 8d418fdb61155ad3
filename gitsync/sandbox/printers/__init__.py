"""Tables: what ``kubectl get`` shows of each kind, computed by the server. ``columns_of`` is the entry."""

from gitsync.sandbox.printers.columns import columns_of

__all__ = ["columns_of"]
