"""``gitsync orphans``."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.cli.applications import all_applications, connect
from gitsync.cli.errors import print_error
from gitsync.cli.options import AnyNamespace, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cluster.client import Client
from gitsync.cluster.discovery import Discovery
from gitsync.cluster.watch import KindCollection
from gitsync.errors import Rejected
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import APPLICATION_LABEL
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.plan.tracking import orphans as find

_COLUMNS = ("object", "application", "why", "created")
_NAMED = 3
"""Kinds that the message about missing permissions names."""


@command
def orphans(
    place: ClusterTarget,
    namespace: AnyNamespace = "",
    output: Output = Format.TABLE,
) -> Exit:
    """List objects that an Application applied and that no Application holds any more. Exit code 1: there are some."""
    client = connect(place.cluster)
    hidden: list[str] = []
    # by uid: an object that two groups serve, such as an Event, is listed twice
    live = {uid_of(manifest): manifest for manifest in _labelled(client, namespace, hidden)}
    # Read after the objects: an object is in its inventory before it is in the cluster.
    held = {_key(app): Inventory.from_status(app.get("status") or {}) for app in all_applications(client)}
    rows = [
        {"object": str(orphan.ref), "application": orphan.application, "why": orphan.why, "created": orphan.created}
        for orphan in find(live.values(), held)
    ]
    if rows or output is not Format.TABLE:
        show(rows, _COLUMNS, output, key="object")
    elif not hidden:
        say("no orphans: every object that an Application applied is in its inventory", "green")
    if hidden:
        more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
        hint = "grant yourself the verb list on them, or name one namespace: -n NAMESPACE"
        return print_error(Rejected(f"may not list {', '.join(hidden[:_NAMED])}{more}", hint=hint, code=403))
    return Exit.DIFFERENT if rows else Exit.OK


def _labelled(client: Client, namespace: str, hidden: list[str]) -> Iterator[Manifest]:
    """Yield every object with the label of an Application; add the kinds that may not be listed to ``hidden``."""
    for resource in Discovery(client).preferred():
        if "list" not in resource.verbs or (namespace and not resource.namespaced):
            continue
        try:
            yield from KindCollection(client, resource, namespace, labels=APPLICATION_LABEL).list().items.values()
        except Rejected as error:
            if error.code == 403:
                hidden.append(str(resource))
            elif error.code not in (404, 405):  # a kind that was just deleted, or that cannot be listed
                raise


def _key(application: Manifest) -> str:
    metadata = metadata_of(application)
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
