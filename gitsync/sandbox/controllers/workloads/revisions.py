"""ControllerRevisions: the history of the templates of a StatefulSet or DaemonSet."""

from __future__ import annotations

from collections.abc import Collection

import orjson

from gitsync.objects.manifest import Manifest, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.object_meta import MANAGER, controlled, owner_reference
from gitsync.sandbox.controllers.pods import template_hash
from gitsync.sandbox.registry.contract import ControllerClient

_HASH = "controller.kubernetes.io/hash"
LABEL = "controller-revision-hash"


def history(api: ControllerClient, owner: Manifest) -> list[Manifest]:
    """Return the revisions of an owner, oldest first."""
    return sorted(controlled(api, owner, "ControllerRevision"), key=lambda revision: int(revision["revision"]))


def present(api: ControllerClient, owner: Manifest) -> Manifest:
    """Return the revision of the owner's present template, as the newest one; create or renumber it if need be."""
    known = history(api, owner)
    # A strategic merge patch that kubectl rollout undo applies as it is.
    data = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
    equal = next((revision for revision in reversed(known) if revision["data"] == data), None)
    number = int(known[-1]["revision"]) + 1 if known else 1
    if equal is None:
        return _create(api, owner, data, number)
    if equal is known[-1]:
        return equal
    # A rollback: the old template becomes the newest revision, without a new object.
    return api.update({**equal, "revision": number}, manager=MANAGER)


def _create(api: ControllerClient, owner: Manifest, data: Manifest, number: int) -> Manifest:
    meta = owner["metadata"]
    digest = template_hash(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": {**labels_of(owner["spec"]["template"]), _HASH: digest},
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": number,
    }
    return api.create(revision, manager=MANAGER)


def template_at(owner: Manifest, revision: Manifest) -> Manifest:
    """Return the pod template that a revision holds."""
    template = revision.get("data", {}).get("spec", {}).get("template") or owner["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}


def truncate(api: ControllerClient, owner: Manifest, live: Collection[str]) -> None:
    """Delete the oldest revisions beyond ``revisionHistoryLimit``, but none of the live names."""
    unused = [revision for revision in history(api, owner) if revision["metadata"]["name"] not in live]
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    for revision in unused[: max(0, len(unused) - limit)]:
        meta = revision["metadata"]
        api.delete(ObjectRef("apps", "ControllerRevision", meta["namespace"], meta["name"]), uid=meta["uid"])
