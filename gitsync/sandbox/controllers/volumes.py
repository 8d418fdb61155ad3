"""PersistentVolumeClaims and PersistentVolumes: bind, provision, expand, release, protect."""

from __future__ import annotations

from gitsync.kube.quantity import parse
from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.nodes.scheduler import SELECTED_NODE
from gitsync.sandbox.controllers.object_meta import MANAGER, Key, is_deleting, key_of
from gitsync.sandbox.controllers.pods import is_finished
from gitsync.sandbox.registry.contract import ControllerClient

_SOURCE = EventSource("persistentvolume-controller")
_STORAGE = "storage.k8s.io"
_PROVISIONER = "gitsync.dev/sandbox"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
_VOLUME_PROTECTION = "kubernetes.io/pv-protection"


def create_storage_class(api: ControllerClient) -> None:
    """Create the default StorageClass ``standard``, whose volumes wait for the first pod that uses them."""
    # A user's own default is kept, also after a restart.
    if any(annotations_of(existing).get(_IS_DEFAULT) == "true" for existing in api.list(_STORAGE, "StorageClass")):
        return
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {_IS_DEFAULT: "true"}},
        "provisioner": _PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }
    api.create(storage_class, manager=MANAGER)


class Claims(SandboxController):
    """Find or make a volume for each claim; let a deleted claim go once no pod uses it."""

    name = "persistentvolumeclaim"
    watches = frozenset(
        {("", "PersistentVolumeClaim"), ("", "PersistentVolume"), (_STORAGE, "StorageClass"), ("", "Pod")}
    )

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the claim; the claims of a pod that ended; all unbound ones for a new volume or class."""
        if obj["kind"] == "PersistentVolumeClaim":
            self.enqueue(key_of(obj))
        elif obj["kind"] == "Pod":
            if event == "DELETED" or is_finished(obj):
                for name in claims_of(obj):
                    self.enqueue((obj["metadata"]["namespace"], name))
        elif event != "DELETED":
            for claim in self.api.list("", "PersistentVolumeClaim"):
                if at(claim, "status", "phase") != "Bound":
                    self.enqueue(key_of(claim))

    def reconcile(self, key: Key) -> None:
        """Bind, grow or let go of one claim."""
        claim = self.api.get("", "PersistentVolumeClaim", *key)
        if claim is None:
            return
        if is_deleting(claim):
            self._let_go(claim)
        elif at(claim, "status", "phase") == "Bound":
            self._grow(claim)
        else:
            self._bind(self._with_class(claim))

    def _let_go(self, claim: Manifest) -> None:
        finalizers = claim["metadata"].get("finalizers") or ()
        namespace, name = key_of(claim)
        # pvc-protection: a pod that still runs keeps the data.
        used = any(name in claims_of(pod) and not is_finished(pod) for pod in self.api.list("", "Pod", namespace))
        if _CLAIM_PROTECTION in finalizers and not used:
            kept = [name_of_finalizer for name_of_finalizer in finalizers if name_of_finalizer != _CLAIM_PROTECTION]
            patch = {"metadata": {"finalizers": kept or None}}
            self.api.patch(ObjectRef("", "PersistentVolumeClaim", namespace, name), patch, manager=MANAGER)

    def _with_class(self, claim: Manifest) -> Manifest:
        """Give the default class to a claim that names none."""
        # An empty name asks for a volume without class, not for the default.
        if "storageClassName" in claim["spec"]:
            return claim
        classes = self.api.list(_STORAGE, "StorageClass")
        default = next(
            (storage_class for storage_class in classes if annotations_of(storage_class).get(_IS_DEFAULT) == "true"),
            None,
        )
        if default is None:
            return claim
        spec = {**claim["spec"], "storageClassName": default["metadata"]["name"]}
        return self.api.update({**claim, "spec": spec}, manager=MANAGER)

    def _bind(self, claim: Manifest) -> None:
        volume = self._find(claim) or self._make(claim)
        if volume is None:
            return
        reference = {
            "kind": "PersistentVolumeClaim",
            "namespace": claim["metadata"]["namespace"],
            "name": claim["metadata"]["name"],
            "uid": uid_of(claim),
            "apiVersion": "v1",
            "resourceVersion": claim["metadata"]["resourceVersion"],
        }
        # First the volume, then the claim: after a crash between the two the binder finds its volume by claimRef.
        if at(volume, "spec", "claimRef", "uid") != uid_of(claim):
            volume = _annotated(volume, {_BOUND_BY_CONTROLLER: "yes"})
            spec = {**volume["spec"], "claimRef": reference}
            volume = self.api.update({**volume, "spec": spec}, manager=MANAGER)
        self.write_status(volume, {**(volume.get("status") or {}), "phase": "Bound"})
        marks = {_BIND_COMPLETED: "yes"}
        if not claim["spec"].get("volumeName"):
            marks[_BOUND_BY_CONTROLLER] = "yes"
        claim = _annotated(claim, marks)
        spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        claim = self.api.update({**claim, "spec": spec}, manager=MANAGER)
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        self.write_status(claim, {**(claim.get("status") or {}), **status})

    def _find(self, claim: Manifest) -> Manifest | None:
        """Return the smallest free volume that has what the claim asks for."""
        wanted = claim["spec"].get("volumeName")
        fitting = [
            volume
            for volume in self.api.list("", "PersistentVolume")
            if _fits(volume, claim) and wanted in (None, "", volume["metadata"]["name"])
        ]
        # The smallest that fits, as the binder of Kubernetes chooses.
        return min(fitting, key=_size, default=None)

    def _make(self, claim: Manifest) -> Manifest | None:
        """Make a volume by the claim's class; return None, and say why, when there is none or it has to wait."""
        name = claim["spec"].get("storageClassName")
        recorder = self.context.recorder
        if not name or claim["spec"].get("volumeName"):
            text = "no persistent volumes available for this claim and no storage class is set"
            recorder.normal(claim, "FailedBinding", text, _SOURCE)
            return None
        storage = self.api.get(_STORAGE, "StorageClass", "", name)
        if storage is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            recorder.warning(claim, "ProvisioningFailed", text, _SOURCE)
            return None
        # Volumes of this class are made by hand.
        if storage["provisioner"] == _NO_PROVISIONER:
            return None
        if storage.get("volumeBindingMode") == "WaitForFirstConsumer" and SELECTED_NODE not in annotations_of(claim):
            text = "waiting for first consumer to be created before binding"
            recorder.normal(claim, "WaitForFirstConsumer", text, _SOURCE)
            return None
        volume = self.api.create(_volume(claim, storage), manager=MANAGER)
        text = f"Successfully provisioned volume {volume['metadata']['name']}"
        recorder.normal(claim, "ProvisioningSucceeded", text, EventSource(storage["provisioner"]))
        return volume

    def _grow(self, claim: Manifest) -> None:
        """Enlarge the volume of a bound claim that asks for more."""
        asked = at(claim, "spec", "resources", "requests", "storage")
        held = at(claim, "status", "capacity", "storage")
        if not asked or not held or parse(asked) <= parse(held):
            return
        volume = self.api.get("", "PersistentVolume", "", claim["spec"]["volumeName"])
        if volume is not None and parse(volume["spec"]["capacity"]["storage"]) < parse(asked):
            spec = {**volume["spec"], "capacity": {**volume["spec"]["capacity"], "storage": asked}}
            self.api.update({**volume, "spec": spec}, manager=MANAGER)
            self.write_status(claim, {**claim["status"], "capacity": {"storage": asked}})


class Volumes(SandboxController):
    """Keep the phase of each volume, and remove those whose claim is gone where their policy says so."""

    name = "persistentvolume"
    watches = frozenset({("", "PersistentVolume"), ("", "PersistentVolumeClaim")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the volume, or the one of a claim that went."""
        if obj["kind"] == "PersistentVolume":
            self.enqueue(key_of(obj))
        elif event == "DELETED" and obj["spec"].get("volumeName"):
            self.enqueue(("", obj["spec"]["volumeName"]))

    def reconcile(self, key: Key) -> None:
        """Write the phase, delete or let go."""
        volume = self.api.get("", "PersistentVolume", *key)
        if volume is None:
            return
        phase = self._phase(volume)
        if is_deleting(volume):
            finalizers = volume["metadata"].get("finalizers") or ()
            if phase != "Bound" and _VOLUME_PROTECTION in finalizers:
                kept = [finalizer for finalizer in finalizers if finalizer != _VOLUME_PROTECTION]
                patch = {"metadata": {"finalizers": kept or None}}
                self.api.patch(ObjectRef("", "PersistentVolume", *key), patch, manager=MANAGER)
            return
        if at(volume, "status", "phase") != phase:
            self.write_status(volume, {**(volume.get("status") or {}), "phase": phase})
        # Retain leaves the volume and its data to an administrator.
        if phase == "Released" and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.api.delete(ObjectRef("", "PersistentVolume", *key), uid=uid_of(volume))

    def _phase(self, volume: Manifest) -> str:
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            return "Available"
        claim = self.api.get("", "PersistentVolumeClaim", reference["namespace"], reference["name"])
        return "Bound" if claim is not None and uid_of(claim) == reference["uid"] else "Released"


def claims_of(pod: Manifest) -> list[str]:
    """Return the names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]


def _fits(volume: Manifest, claim: Manifest) -> bool:
    spec = volume["spec"]
    asked = claim["spec"]
    reference = spec.get("claimRef")
    # Reserved for another claim, perhaps by hand and without a uid.
    if reference and (reference["namespace"], reference["name"]) != key_of(claim):
        return False
    if reference and reference.get("uid") not in (None, "", uid_of(claim)):
        return False
    return bool(
        not is_deleting(volume)
        and (spec.get("storageClassName") or "") == (asked.get("storageClassName") or "")
        and set(asked.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and spec.get("volumeMode", "Filesystem") == asked.get("volumeMode", "Filesystem")
        and _size(volume) >= parse(at(asked, "resources", "requests", "storage", default="0")).nanos
        and ("selector" not in asked or matches(asked["selector"], labels_of(volume)))
    )


def _size(volume: Manifest) -> int:
    return parse(at(volume, "spec", "capacity", "storage", default="0")).nanos


def _annotated(obj: Manifest, annotations: dict[str, str]) -> Manifest:
    meta = {**obj["metadata"], "annotations": {**annotations_of(obj), **annotations}}
    return {**obj, "metadata": meta}


def _volume(claim: Manifest, storage: Manifest) -> Manifest:
    meta = claim["metadata"]
    spec = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": claim["spec"]["accessModes"],
        "hostPath": {"path": f"/volumes/{meta['namespace']}/{meta['name']}", "type": "DirectoryOrCreate"},
        "storageClassName": storage["metadata"]["name"],
        "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
        "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": "v1",
            "resourceVersion": meta["resourceVersion"],
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{uid_of(claim)}", "annotations": {_PROVISIONED_BY: storage["provisioner"]}},
        "spec": spec,
    }
