"""Fields the server sets on each write: labels of Jobs, finalizers of volumes, initial statuses."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest, labels_of, metadata_of
from gitsync.sandbox.kinds.defaults.workloads import TEMPLATE_GENERATION
from gitsync.sandbox.kinds.pods.resources import quality_of_service
from gitsync.sandbox.registry.contract import WriteContext


def with_metadata(obj: Manifest, **members: Any) -> Manifest:
    """Return the object with these members of metadata."""
    return {**obj, "metadata": {**obj["metadata"], **members}}


def prepare_job(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Give a new Job the selector and the labels by which it finds its pods."""
    spec = new["spec"]
    if old is not None or spec.get("manualSelector"):
        return new
    metadata = new["metadata"]
    # The selector contains the uid, so it is needed before the storage would give one.
    uid = metadata.get("uid") or env.new_uid()
    name = metadata.get("name", "")
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec["template"]
    template_metadata = template.get("metadata") or {}
    template_labels = {**(template_metadata.get("labels") or {}), **labels}
    selector = {**(spec.get("selector") or {})}
    chosen = {**selector.get("matchLabels", {}), "batch.kubernetes.io/controller-uid": uid}
    new = {
        **new,
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": chosen},
            "template": {**template, "metadata": {**template_metadata, "labels": template_labels}},
        },
    }
    own = labels_of(new)
    # Defaulting may have made them one map; labels added to the template belong to both then.
    shared = not own or own is template_metadata.get("labels")
    return with_metadata(new, uid=uid, labels=template_labels if shared else own)


def prepare_daemon_set(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Count the templates of a DaemonSet in an annotation."""
    annotations = new["metadata"].get("annotations") or {}
    if old is None:
        count = 1
    else:
        # One stored by another tool may lack the annotation.
        stored = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
        count = int(stored) + (new["spec"]["template"] != old["spec"]["template"])
    if annotations.get(TEMPLATE_GENERATION) == str(count):
        return new
    return with_metadata(new, annotations={**annotations, TEMPLATE_GENERATION: str(count)})


def prepare_stateful_set(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Drop ``maxUnavailable``, whose feature gate MaxUnavailableStatefulSet is off (dropStatefulSetDisabledFields)."""
    update = new["spec"].get("updateStrategy") or {}
    rolling = update.get("rollingUpdate") or {}
    old_rolling = ((old or {}).get("spec", {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    # A field that the stored object has is kept, so that turning a gate off loses no data.
    if "maxUnavailable" not in rolling or "maxUnavailable" in old_rolling:
        return new
    kept = {key: value for key, value in rolling.items() if key != "maxUnavailable"}
    return {**new, "spec": {**new["spec"], "updateStrategy": {**update, "rollingUpdate": kept}}}


def prepare_account(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Keep only the names of the Secrets of a ServiceAccount (cleanSecretReferences)."""
    secrets = new.get("secrets")
    if not secrets:
        return new
    return {**new, "secrets": [{"name": reference["name"]} if reference.get("name") else {} for reference in secrets]}


def prepare_lease(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Drop what needs the feature gate CoordinatedLeaderElection, which is off, unless the Lease has it."""
    spec = new.get("spec") or {}
    old_spec = (old or {}).get("spec") or {}
    dropped = [name for name in ("strategy", "preferredHolder") if name in spec and name not in old_spec]
    if not dropped:
        return new
    return {**new, "spec": {key: value for key, value in spec.items() if key not in dropped}}


def prepare_endpoint_slice(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Drop the deprecated topology of changed endpoints (dropTopologyOnV1); empty lists are stored as null."""
    endpoints = new["endpoints"] or None
    # Unchanged endpoints keep it: a no-op update must not change the object.
    if endpoints and (old is None or endpoints != old["endpoints"]):
        endpoints = [{key: endpoint[key] for key in endpoint if key != "deprecatedTopology"} for endpoint in endpoints]
    return {**new, "endpoints": endpoints, "ports": new["ports"] or None}


def _protected(finalizer: str, new: Manifest, old: Manifest | None) -> Manifest:
    finalizers = new["metadata"].get("finalizers") or []
    # Admission plugins StorageObjectInUseProtection: on creation only, so a user can remove the finalizer.
    if old is not None or finalizer in finalizers:
        return new
    return with_metadata(new, finalizers=[*finalizers, finalizer])


def _is_claim_or_snapshot(source: dict[str, Any]) -> bool:
    kinds = {"": "PersistentVolumeClaim", "snapshot.storage.k8s.io": "VolumeSnapshot"}
    return bool(source.get("kind")) and kinds.get(source.get("apiGroup") or "") == source["kind"]


def prepare_claim(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Protect a claim in use, and write its data source in both forms; one of an unknown kind is dropped."""
    spec = new["spec"]
    is_added = "dataSource" in spec and "dataSourceRef" not in spec and "dataSource" not in (old or {}).get("spec", {})
    if is_added and not _is_claim_or_snapshot(spec["dataSource"]):  # EnforceDataSourceBackwardsCompatibility
        spec = {key: value for key, value in spec.items() if key != "dataSource"}
        new = {**new, "spec": spec}
    if "dataSource" in spec and "dataSourceRef" not in spec:
        new = {**new, "spec": {**spec, "dataSourceRef": dict(spec["dataSource"])}}
    # A reference into another namespace has no old form.
    elif "dataSourceRef" in spec and "dataSource" not in spec and not spec["dataSourceRef"].get("namespace"):
        reference = spec["dataSourceRef"]
        if reference.get("apiGroup") == "snapshot.storage.k8s.io" or reference["kind"] == "PersistentVolumeClaim":
            new = {**new, "spec": {**spec, "dataSource": dict(reference)}}
    return _protected("kubernetes.io/pvc-protection", new, old)


def prepare_attributes_class(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Protect a VolumeAttributesClass that claims may use."""
    return _protected("kubernetes.io/vac-protection", new, old)


def prepare_node(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Drop ``configSource``, which the server no longer stores."""
    return {**new, "spec": {key: value for key, value in new["spec"].items() if key != "configSource"}}


def prepare_csi_driver(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Count the changes of a CSIDriver, without a field behind a feature gate that is off; a new one has no count."""
    spec = new["spec"]
    if "preventPodSchedulingIfMissing" in spec and "preventPodSchedulingIfMissing" not in (old or {}).get("spec", {}):
        new = {**new, "spec": {key: spec[key] for key in spec if key != "preventPodSchedulingIfMissing"}}
    if old is None or new.get("spec") == old.get("spec"):
        return new
    generation = metadata_of(old).get("generation", 0) + 1
    return {**new, "metadata": {**metadata_of(new), "generation": generation}}


def prepare_volume(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Protect a volume in use; note when its phase began."""
    if old is None:
        # PersistentVolumeLastPhaseTransitionTime, on since 1.31.
        new = {**new, "status": {"phase": "Pending", "lastPhaseTransitionTime": env.now()}}
    return _protected("kubernetes.io/pv-protection", new, old)


def prepare_role(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Store a list of no rules as no list."""
    return {**new, "rules": None} if new.get("rules") == [] else new


def prepare_namespace(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Keep the finalizers of a namespace; a new one has ``kubernetes``, and the label with its own name."""
    name = new["metadata"].get("name")
    labels = labels_of(new)
    # Again after the defaults: generateName gets its name only now.
    if name and labels.get("kubernetes.io/metadata.name") != name:
        new = with_metadata(new, labels={**labels, "kubernetes.io/metadata.name": name})
    if old is not None:
        # Finalizers of the spec change through /finalize only.
        return {**new, "spec": old.get("spec", {})}
    finalizers = new.get("spec", {}).get("finalizers") or []
    wanted = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]
    return {**new, "spec": {"finalizers": wanted}}


def prepare_definition(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Remember the version that objects are stored at, from when a definition first names it."""
    # A new definition gets its list from the first status.
    if old is None or not new.get("status"):
        return new
    stored = new["status"].get("storedVersions") or []
    # A version never leaves this list by itself: objects may still be stored at it.
    added = [v["name"] for v in new["spec"].get("versions") or () if v.get("storage") and v["name"] not in stored]
    return {**new, "status": {**new["status"], "storedVersions": [*stored, *added]}} if added else new


def first_pod_status(pod: Manifest) -> dict[str, Any]:
    """Return the status of a new pod."""
    return {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}


def first_claim_status(obj: Manifest) -> dict[str, Any]:
    """Return the status of a new PersistentVolumeClaim."""
    return {"phase": "Pending"}


def first_namespace_status(obj: Manifest) -> dict[str, Any]:
    """Return the status of a new Namespace."""
    return {"phase": "Active"}


def first_definition_status(obj: Manifest) -> dict[str, Any]:
    """Return the status of a new CustomResourceDefinition, before its names are checked."""
    stored = [version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")]
    # As a real server writes it: null, and names that are empty until they are accepted.
    return {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}
