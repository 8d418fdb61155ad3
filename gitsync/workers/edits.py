"""Edit the files of an untrusted repository in a render process: what is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitsync.edit.adopt import AdoptedValue, Adoption, ClusterValue, adopt
from gitsync.edit.proof import EditTarget
from gitsync.objects.charts import Helm
from gitsync.objects.ref import ObjectRef
from gitsync.objects.tree import Tree
from gitsync.preview.roots import find_roots
from gitsync.workers import protocol


def of_values(values: Sequence[ClusterValue]) -> list[list[Any]]:
    """Return values of the cluster as JSON can hold them."""
    return [[kept.ref.path, kept.path, kept.value, kept.manager, kept.time] for kept in values]


def to_adoption(message: dict[str, Any], values: Sequence[ClusterValue]) -> Adoption:
    """Return the edits that ``adopted`` wrote about these values."""
    return Adoption(
        {protocol.text_as_bytes(name): content.encode("latin-1") for name, content in message["files"].items()},
        tuple(
            AdoptedValue(values[number], protocol.text_as_bytes(where), old) for number, where, old in message["values"]
        ),
        tuple((values[number], reason) for number, reason in message["refused"]),
        manifests=tuple(message["manifests"]),
    )


def adopted(tree: Tree, request: dict[str, Any], helm: Helm | None) -> dict[str, Any]:
    """Return the edits by which a folder renders to the values of a request, as JSON can hold them."""
    values = [ClusterValue(ObjectRef.from_path(ref), *rest) for ref, *rest in request["values"]]
    root = request["path"]

    def roots() -> tuple[str, ...]:
        return tuple(dict.fromkeys((root, *(other.path for other in find_roots(tree, lambda _: True)))))

    target = EditTarget(tree, root, roots, helm)
    adoption = adopt(target, values, request["namespace"])
    edited = target.after(adoption.files)
    return {
        # by what the edits lead to they are classified; the files alone do not tell
        "manifests": edited.build(edited.tree, root).manifests if adoption.values else (),
        "files": {protocol.bytes_as_text(name): content.decode("latin-1") for name, content in adoption.files.items()},
        "values": [[values.index(item.kept), protocol.bytes_as_text(item.where), item.old] for item in adoption.values],
        "refused": [[values.index(kept), reason] for kept, reason in adoption.refused],
    }
