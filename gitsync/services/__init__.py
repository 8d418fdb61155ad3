"""Requests of users that are not part of a reconcile: reverts, reviews, field provenance."""
