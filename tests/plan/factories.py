"""Applications and objects that the tests of the planner start from."""

from __future__ import annotations

import copy
from typing import Any

from gitsync.errors import GitsyncError
from gitsync.merge.field_manager import Write, apply_object
from gitsync.merge.schema import DEDUCED, Schema, builtin, kind_schema
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import ABSENT, Plan, Risk
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.build import build_plan
from gitsync.plan.drift import Drift, find_drift, last_applied_fields
from gitsync.plan.normalize import desired_objects, without_nulls
from gitsync.plan.options import options_of
from gitsync.plan.steps import ClusterState, PlanInput, SchemaOf

CLUSTER_KINDS = ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "StorageClass")


def application(name: str = "desk", **spec: Any) -> Application:
    """Return an Application that syncs into namespace ``shop``."""
    return parse_application(
        {
            "metadata": {"name": name, "namespace": "gitsync"},
            "spec": {"source": {"repoURL": "https://git.example/x"}, "destination": {"namespace": "shop"}, **spec},
        }
    )


def is_namespaced(of: GroupKind) -> bool:
    return of.kind not in CLUSTER_KINDS


def config(name: str = "settings", annotations: dict[str, str] | None = None, **data: str) -> Manifest:
    metadata: dict[str, Any] = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"key": "value"}}


def deployment(name: str = "web", image: str = "web@sha256:1", **spec: Any) -> Manifest:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image, "ports": [{"containerPort": 80}]}]},
            },
            **spec,
        },
    }


def schema_of(manifest: Manifest) -> Schema | None:
    return kind_schema(builtin(), manifest)


def desired_of(app: Application, *manifests: Manifest) -> dict[ObjectRef, Manifest]:
    return desired_objects(app, manifests, is_namespaced)


def applied(manifest: Manifest, live: Manifest | None = None, manager: str = FIELD_MANAGER, **meta: Any) -> Manifest:
    """Return what lives after a manager applied a manifest, by force."""
    schema = schema_of(manifest)
    assert schema is not None
    write = Write(manager, "2026-01-01T00:00:00Z")
    # The API server decodes as absent what a merge emptied, and so made null.
    result: Any = copy.deepcopy(without_nulls(apply_object(live, manifest, schema, write, force=True)))
    identity = {"uid": f"uid-{manifest['metadata']['name']}", "resourceVersion": "1"}
    result["metadata"] = identity | result["metadata"] | meta
    return result


def three_way_drift(desired: Manifest, live: Manifest, schema: Schema | None) -> Drift:
    """Return the drift of an object of ``kubectl apply``, whose annotation names the fields that it applied."""
    fields = last_applied_fields(live, schema or DEDUCED)
    entries = [] if fields is None else [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}]
    return find_drift(desired, {**live, "metadata": {**metadata_of(live), "managedFields": entries}}, schema)


def live_of(app: Application, *manifests: Manifest) -> dict[ObjectRef, Manifest]:
    """Return the cluster after an Application applied these manifests."""
    return {ref: applied(manifest) for ref, manifest in desired_of(app, *manifests).items()}


def inventory_of(live: dict[ObjectRef, Manifest]) -> Inventory:
    return Inventory({ref: InventoryEntry("v1", uid_of(manifest)) for ref, manifest in live.items()})


def plan_of(
    app: Application,
    manifests: list[Manifest],
    live: dict[ObjectRef, Manifest],
    *,
    inventory: Inventory | None = None,
    dry_runs: dict[ObjectRef, Manifest | GitsyncError] | None = None,
    claims: dict[ObjectRef, str] | None = None,
    previous: Plan | None = None,
    before: list[Manifest] | None = None,
    repairs_below: Risk | None = None,
    refused: dict[ObjectRef, str] | None = None,
    users: tuple[str, ...] = (),
    left_to: dict[ObjectRef, str] | None = None,
    schemas: SchemaOf = schema_of,
) -> Plan:
    """
    Return the plan for manifests over a cluster; without an inventory, everything that lives is held.

    ``before`` are the manifests that were applied last, none known where it is absent.
    """
    seen = ClusterState(live, dry_runs or {}, claims or {}, refused=refused or {}, left_to=left_to or {})
    held = inventory_of(live) if inventory is None else inventory
    desired = desired_of(app, *manifests)
    options = {ref: options_of(manifest) for ref, manifest in desired.items()}
    applied_last = desired_of(app, *before) if before is not None else {}
    inputs = PlanInput(
        app,
        desired,
        options,
        seen,
        held,
        schemas,
        applied=applied_last,
        repairs_below=repairs_below,
        users=users,
    )
    return build_plan(inputs, "commit", previous)


def ref(manifest: Manifest, namespace: str = "shop") -> ObjectRef:
    found = ref_of(manifest)
    return ObjectRef(found.group, found.kind, found.namespace or namespace, found.name)


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}], "selector": {"app": "web"}},
}


def edited(manifest, path, value):
    """Return a copy with the member at a path of keys and indices set, or removed by ``ABSENT``."""
    result = copy.deepcopy(manifest)
    place = result
    for key in path[:-1]:
        place = place[key]
    if value is ABSENT:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result


CONTAINER = ("spec", "template", "spec", "containers", 0)
