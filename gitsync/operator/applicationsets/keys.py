"""Keys of ApplicationSets in queues, records and the Git watcher; names of Applications contain no colon."""

from __future__ import annotations

from gitsync.objects.keys import APPLICATION_SET
from gitsync.objects.ref import ObjectRef

_KIND = APPLICATION_SET.kind.lower()


def key_of(ref: ObjectRef) -> str:
    """Return the key of a set: ``namespace/applicationset:name``."""
    return f"{ref.namespace}/{_KIND}:{ref.name}"


def source_key(key: str, index: int) -> str:
    """Return the key of a Git generator of a set."""
    return f"{key}:{index}"


def set_of(key: str) -> ObjectRef | None:
    """Return the set of its key or of one of its generators, None for another key."""
    namespace, _, rest = key.partition("/")
    kind, colon, name = rest.partition(":")
    if kind != _KIND or not colon:
        return None
    return ObjectRef(APPLICATION_SET.group, APPLICATION_SET.kind, namespace, name.partition(":")[0])
