"""Incremental reconciles: what is kept of single objects, and computed again only for those that changed."""
