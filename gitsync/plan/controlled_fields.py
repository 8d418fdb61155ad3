"""
Declared fields that a controller writes on purpose: a plan leaves them as they are, and reports no drift.

A controller adds members to a declared value that is replaced as a whole, which makes all of the value its own. Or Git
hands the decision on a field to a controller, by a label or an annotation.

Anyone may write under the name of a manager. So the tables hold only what narrows the declared value, what chooses the
nodes of Pods, and what Git itself hands over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from gitsync.kube.kinds import POD, SERVICE
from gitsync.merge.fieldset import Node
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.objects.patterns import matches
from gitsync.objects.ref import GroupKind, ref_of
from gitsync.plan.field_owners import owners_of

Keys = tuple[str, ...]


class Added(Enum):
    """Values that a controller may add as a member."""

    ANY = auto()
    EMPTY = auto()
    """Go writes the empty value of a member that has no ``omitempty``."""


Additions: TypeAlias = "Mapping[str, Additions | Added]"
"""By the name of a member, ``*`` for any text and for the items of a list: what may be added to it, or as it."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """What a controller adds to the declared values of a kind."""

    manager: str
    additions: Additions


KUEUE: Final = "kueue"
"""The field manager of Kueue, from its User-Agent (kubernetes-sigs/kueue, pkg/util/useragent)."""

# What Kueue adds to the Pod template of each set of Pods that it admits (pkg/podset: Merge): the nodes of the chosen
# ResourceFlavor, and its own labels and annotations. A repair of the whole value would start Pods on other nodes than
# the quota is for, and is refused for a Job that runs.
_CONTAINERS: Final = {"*": {"resources": Added.EMPTY}}
_POD_TEMPLATE: Final[Additions] = {
    "metadata": {
        "annotations": {"kueue.x-k8s.io/*": Added.ANY},
        "labels": {"kueue.x-k8s.io/*": Added.ANY},
        "creationTimestamp": Added.EMPTY,
    },
    "spec": {
        "nodeSelector": {"*": Added.ANY},
        "tolerations": {"*": Added.ANY},
        "schedulingGates": {"*": Added.ANY},
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
    },
}
_RAY_CLUSTER: Final[Additions] = {
    "headGroupSpec": {"template": _POD_TEMPLATE},
    # an atomic list, unlike the one group of the head
    "workerGroupSpecs": {
        "*": {
            "template": _POD_TEMPLATE,
            "rayStartParams": Added.EMPTY,
            "scaleStrategy": Added.EMPTY,
            "priority": Added.EMPTY,
        }
    },
}
_JOB: Final = GroupKind("batch", "Job")
_TRAINING_JOBS: Final = {
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
}
"""Kinds of kubeflow.org, each with the member that holds its Pod templates by role."""

CONTROLLED: Final = {
    # Admission plugins and webhooks place a Pod when it is created: DefaultTolerationSeconds, PodNodeSelector,
    # ExtendedResourceToleration. Of a Pod that exists, neither can be changed back.
    POD: Controlled(FIELD_MANAGER, {"spec": {"nodeSelector": {"*": Added.ANY}, "tolerations": {"*": Added.ANY}}}),
    # Argo Rollouts narrows the selector of a Service to the Pods of one revision, by a merge patch
    # (argoproj/argo-rollouts, rollout/service.go: switchServiceSelector). Each repair of the selector would send the
    # traffic to the Pods of both revisions.
    SERVICE: Controlled("rollouts-controller", {"spec": {"selector": {"rollouts-pod-template-hash": Added.ANY}}}),
    # The same for the subsets of Istio, by an update (rollout/trafficrouting/istio/istio.go: UpdateHash)
    GroupKind("networking.istio.io", "DestinationRule"): Controlled(
        "rollouts-controller", {"spec": {"subsets": {"*": {"labels": {"rollouts-pod-template-hash": Added.ANY}}}}}
    ),
    # Kueue, each in pkg/controller/jobs: RunWithPodSetsInfo
    _JOB: Controlled(KUEUE, {"spec": {"template": _POD_TEMPLATE}}),
    GroupKind("jobset.x-k8s.io", "JobSet"): Controlled(
        KUEUE, {"spec": {"replicatedJobs": {"*": {"template": {"spec": {"template": _POD_TEMPLATE}}}}}}
    ),
    GroupKind("ray.io", "RayCluster"): Controlled(KUEUE, {"spec": _RAY_CLUSTER}),
    GroupKind("ray.io", "RayJob"): Controlled(
        KUEUE, {"spec": {"rayClusterSpec": _RAY_CLUSTER, "submitterPodTemplate": _POD_TEMPLATE}}
    ),
    GroupKind("ray.io", "RayService"): Controlled(KUEUE, {"spec": {"rayClusterConfig": _RAY_CLUSTER}}),
    GroupKind("workload.codeflare.dev", "AppWrapper"): Controlled(
        KUEUE, {"spec": {"components": {"*": {"podSetInfos": Added.ANY}}}}
    ),
    **{
        GroupKind("kubeflow.org", kind): Controlled(KUEUE, {"spec": {roles: {"*": {"template": _POD_TEMPLATE}}}})
        for kind, roles in _TRAINING_JOBS.items()
    },
}
"""What known controllers add to declared values, by kind."""

QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
"""The label by which a job is handed to Kueue, which then decides when it runs and with how many Pods."""
_LEAST_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
_EQUAL_COMPLETIONS: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"

SUSPENDED_BY_KUEUE: Final[Mapping[GroupKind, Keys]] = {
    _JOB: ("spec", "suspend"),
    GroupKind("jobset.x-k8s.io", "JobSet"): ("spec", "suspend"),
    GroupKind("ray.io", "RayCluster"): ("spec", "suspend"),
    GroupKind("ray.io", "RayJob"): ("spec", "suspend"),
    GroupKind("ray.io", "RayService"): ("spec", "rayClusterConfig", "suspend"),
    GroupKind("sparkoperator.k8s.io", "SparkApplication"): ("spec", "suspend"),
    GroupKind("trainer.kubeflow.org", "TrainJob"): ("spec", "suspend"),
    GroupKind("workload.codeflare.dev", "AppWrapper"): ("spec", "suspend"),
    **{GroupKind("kubeflow.org", kind): ("spec", "runPolicy", "suspend") for kind in _TRAINING_JOBS},
}
"""
The field by which Kueue holds a job back until there is quota, and stops it when it is preempted.

Its webhook suspends a job that Git declares as running, and its controller does so again after each repair.
"""


def added_fields(of: GroupKind, desired: Manifest, live: Manifest) -> tuple[Keys, ...]:
    """Return the keys of what a known controller added to the declared values of a live object, outermost first."""
    entry = CONTROLLED.get(of)
    if entry is None:
        return ()
    added = list(_added(entry.additions, desired, live))
    # most objects of these kinds have no such controller
    if not added:
        return ()
    # what its webhook adds to our own request is recorded as ours
    writers = {entry.manager, FIELD_MANAGER}
    entries = owners_of(live, "").entries
    return tuple(
        keys for keys in added if {owner.manager for owner, root in entries if _owns(root, keys, live)} <= writers
    )


def handed_over_fields(of: GroupKind, desired: Manifest, live: Manifest) -> tuple[Keys, ...]:
    """
    Return the keys of the declared fields that Git hands to a controller.

    A field that a user or another controller wrote is not among them.
    """
    suspend = SUSPENDED_BY_KUEUE.get(of)
    if suspend is None or QUEUE_NAME not in labels_of(desired):
        return ()
    writers = {KUEUE, FIELD_MANAGER}
    owners = owners_of(live, "")
    return tuple(
        keys
        for keys in (suspend, *_partially_admitted(desired, live))
        if at(desired, *keys) is not None
        and all(owner.manager in writers for owner in owners.of(tuple(f"f:{key}" for key in keys)))
    )


def _partially_admitted(desired: Manifest, live: Manifest) -> Iterator[Keys]:
    """
    Yield the fields of a Job that runs with fewer Pods than declared, as one of its annotations permits.

    Kueue's webhook refuses every change of them while the Job runs
    (https://kueue.sigs.k8s.io/docs/tasks/run/jobs/#partial-admission).
    """
    annotations = annotations_of(desired)
    declared = at(desired, "spec", "parallelism")
    admitted = at(live, "spec", "parallelism")
    try:
        least = int(annotations.get(_LEAST_PARALLELISM, ""))
    except ValueError:
        return
    if ref_of(live).of != _JOB or not isinstance(declared, int) or not isinstance(admitted, int):
        return
    if not least <= admitted <= declared:
        return
    yield "spec", "parallelism"
    is_equal = annotations.get(_EQUAL_COMPLETIONS, "").lower() in ("1", "t", "true")
    if is_equal and at(live, "spec", "completions") == admitted:
        yield "spec", "completions"


def _added(additions: Additions, desired: Any, live: Any) -> Iterator[Keys]:
    """Yield the keys of the members that live has beyond the desired value, and that may be added."""
    declared = dict(_members(desired))
    for name, value in _members(live):
        allowed = _allowed(additions, name)
        if allowed is None:
            continue
        if name not in declared:
            if _is_allowed(allowed, value):
                yield (name,)
        elif not isinstance(allowed, Added):
            for keys in _added(allowed, declared[name], value):
                yield name, *keys


def _is_allowed(allowed: Additions | Added, value: Any) -> bool:
    """Whether all of a value may be added."""
    if allowed is Added.ANY or not value:
        return True
    if isinstance(allowed, Added) or not isinstance(value, dict | list):
        return False
    return all(
        (below := _allowed(allowed, name)) is not None and _is_allowed(below, member)
        for name, member in _members(value)
    )


def _allowed(additions: Additions, name: str) -> Additions | Added | None:
    exact = additions.get(name)
    if exact is not None:
        return exact
    return next((value for pattern, value in additions.items() if "*" in pattern and matches(name, pattern)), None)


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the members of a map by name, and the items of a list by index: a controller adds items at its end."""
    if isinstance(value, dict):
        return value.items()
    return ((str(index), item) for index, item in enumerate(value)) if isinstance(value, list) else ()


def _owns(root: Node, keys: Keys, live: Any) -> bool:
    """Whether a manager owns the field at some keys, or a value around it that is replaced as a whole."""
    node = root
    value = live
    for key in keys:
        # items are recorded by another name than their index
        if not node or not isinstance(value, dict):
            return True
        if f"f:{key}" not in node:
            return False
        node = node[f"f:{key}"]
        value = value[key]
    return True
