"""OwnerKey: what owns objects and writes them, as audit, queues and shards name it."""

from __future__ import annotations

from typing import NamedTuple

from gitsync.objects.keys import AGENTS_GROUP, APPLICATION, APPLICATION_SET
from gitsync.objects.ref import GroupKind, ObjectRef

_KINDS = {
    of.kind.lower(): of
    for of in (APPLICATION_SET, GroupKind(AGENTS_GROUP, "Agent"), GroupKind(AGENTS_GROUP, "MultiAgentSystem"))
}
"""The kinds besides Application, by the word in the text of a key."""


class OwnerKey(NamedTuple):
    """
    The kind, namespace and name of an owner.

    Its text is ``namespace/name`` for an Application and ``namespace/kind:name`` for any other kind: a name in
    Kubernetes contains no colon, so both forms never collide.
    """

    of: GroupKind
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> OwnerKey:
        """Return the key of a text."""
        namespace, _, name = text.partition("/")
        word, colon, rest = name.partition(":")
        # a word that is not known is part of a name that was never valid; it finds no Application
        if colon and word in _KINDS:
            return cls(_KINDS[word], namespace, rest)
        return cls(APPLICATION, namespace, name)

    @classmethod
    def of_ref(cls, ref: ObjectRef) -> OwnerKey:
        """Return the key of an object."""
        return cls(ref.of, ref.namespace, ref.name)

    @property
    def ref(self) -> ObjectRef:
        """The object."""
        return ObjectRef(self.of.group, self.of.kind, self.namespace, self.name)

    def __str__(self) -> str:
        word = "" if self.of == APPLICATION else f"{self.of.kind.lower()}:"
        return f"{self.namespace}/{word}{self.name}"
