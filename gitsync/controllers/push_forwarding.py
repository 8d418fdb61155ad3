"""Which Applications of other replicas are notified of a push: one poll of a branch wakes all that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.ports import ApplicationView


def one_of_each(
    applications: Iterable[tuple[str, Manifest]],
    owner_of: Callable[[str], str],
    view_of: Callable[[str], ApplicationView | None],
) -> tuple[str, ...]:
    """
    Return the key of one Application for each replica and branch.

    One that its replica does not poll (suspended, deleted, with an invalid spec) is taken for none that it polls.
    """
    found: dict[tuple[object, ...], str] = {}
    for key, manifest in applications:
        view = view_of(key)
        is_polled = not (
            at(manifest, "spec", "suspend", default=False) or metadata_of(manifest).get("deletionTimestamp")
        )
        is_valid = view is not None and view.application is not None
        found.setdefault((owner_of(key), *_branch(manifest), is_polled, is_valid), key)
    return tuple(found.values())


def _branch(manifest: Manifest) -> tuple[object, ...]:
    """Return what Applications that share a poll have in common: credentials are of a namespace."""
    source = at(manifest, "spec", "source", default={})
    credentials = str(source.get("credentials") or "")
    namespace = metadata_of(manifest).get("namespace") if credentials else ""
    return (source.get("repoURL"), source.get("revision"), credentials, namespace)
