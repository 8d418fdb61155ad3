"""Validation of Deployments, ReplicaSets, StatefulSets, DaemonSets and other long-running workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.pod import validate_template, validate_template_metadata
from gitsync.sandbox.kinds.storage import validate_claim_spec
from gitsync.sandbox.validation.causes import (
    forbidden,
    immutable,
    invalid,
    minimum,
    not_supported,
    one_of,
    required,
)
from gitsync.sandbox.validation.metadata import is_empty, validate_selector
from gitsync.sandbox.validation.names import PERCENT_TEXT, dns_label, is_percent

Spec = Mapping[str, Any]

MISMATCH = "`selector` does not match template `labels`"
_STATEFUL_FREE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_deployment(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a Deployment."""
    spec = new["spec"]
    causes = minimum("spec.replicas", spec.get("replicas"))
    causes += _selector(spec, "deployment")
    causes += _long_running_template(spec)
    causes += _deployment_strategy(spec.get("strategy", {}))
    causes += minimum("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += minimum("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        causes += minimum("spec.progressDeadlineSeconds", deadline)
        # No pod could become available in time.
        if deadline <= spec.get("minReadySeconds", 0):
            causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes + _same_selector(new, old)


def validate_replica_set(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ReplicaSet."""
    spec = new["spec"]
    causes = minimum("spec.replicas", spec.get("replicas"))
    causes += minimum("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += _selector(spec, "deployment")
    causes += _long_running_template(spec)
    return causes + _same_selector(new, old)


def validate_replication_controller(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ReplicationController."""
    spec = new["spec"]
    causes = minimum("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector")
    if not selector:
        causes.append(required("spec.selector"))
    causes += minimum("spec.replicas", spec.get("replicas"))
    template = spec.get("template")
    if template is None:
        return [*causes, required("spec.template")]
    labels = (template.get("metadata") or {}).get("labels")
    if selector and not matches({"matchLabels": selector}, labels or {}):
        causes.append(invalid("spec.template.metadata.labels", labels, MISMATCH))
    return causes + validate_template(template, "spec.template") + always_restarts(template, "ReplicationController")


def validate_daemon_set(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a DaemonSet."""
    spec = new["spec"]
    causes = validate_selector(spec.get("selector"), "spec.selector")
    causes += _template_labels(spec)
    # An empty selector would adopt every pod of the namespace.
    if spec.get("selector") is not None and is_empty(spec["selector"]):
        causes.append(invalid("spec.selector", spec["selector"], "empty selector is invalid for daemonset"))
    causes += validate_template(spec["template"], "spec.template")
    causes += always_restarts(spec["template"], "DaemonSet")
    causes += minimum("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += _daemon_strategy(spec.get("updateStrategy", {}))
    causes += minimum("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    return causes + _same_selector(new, old)


def validate_stateful_set(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a StatefulSet (pkg/apis/apps/validation: ValidateStatefulSetSpec); its history limit may be negative."""
    spec = new["spec"]
    policy = spec.get("podManagementPolicy", "")
    causes = []
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    causes += _stateful_strategy(spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for member in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{member}"
        causes += one_of(path, retention.get(member), ("Delete", "Retain"))
    causes += minimum("spec.replicas", spec.get("replicas"))
    causes += minimum("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += minimum("spec.ordinals.start", spec.get("ordinals", {}).get("start"))
    # Only new objects: the name cannot be changed, so stored ones stay writable.
    if old is None and spec.get("serviceName"):
        causes += [invalid("spec.serviceName", spec["serviceName"], text) for text in dns_label(spec["serviceName"])]
    causes += _selector(spec, "statefulset")
    if not _is_convertible(spec.get("selector")):
        causes.append(invalid("spec.selector", spec["selector"], ""))
    causes += _template_labels(spec)
    if old is None:
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            causes += validate_claim_spec(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    # Containers mount the claims by name, so the volumes of the claims are added first.
    causes += validate_template(_with_claims(spec), "spec.template")
    causes += validate_template_metadata(spec["template"], "spec.template")  # the real server checks it twice
    causes += always_restarts(spec["template"], "StatefulSet")
    # One cause for the whole spec, whatever member changed.
    if old is not None and _fixed(spec) != _fixed(old["spec"]):
        causes.append(forbidden("spec", _STATEFUL_TEXT))
    return causes


def _with_claims(spec: Spec) -> Manifest:
    """Return the template with the volumes that its claim templates add, as the real server validates it."""
    # A dict keeps the order of the claims and drops repeated names.
    names = dict.fromkeys(claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates", ()))
    pod = spec["template"].get("spec") or {}
    if not names:
        return {**spec["template"], "spec": pod}
    volumes: list[Manifest] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    # The controller lets a claim replace a volume of its name.
    volumes += [volume for volume in pod.get("volumes", ()) if volume.get("name") not in names]
    return {**spec["template"], "spec": {**pod, "volumes": volumes}}


def validate_controller_revision(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ControllerRevision, whose data never changes (pkg/apis/apps/validation: ValidateControllerRevision…)."""
    causes = minimum("revision", new.get("revision"))
    data = new.get("data")
    if old is not None:
        return causes + immutable("data", data, old.get("data"))
    if data is None:
        causes.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        causes.append(required("data", "data must be a valid JSON object"))
    return causes


def _fixed(spec: Spec) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in _STATEFUL_FREE}


def validate_pod_template(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a PodTemplate."""
    return validate_template(new["template"], "template")


def _selector(spec: Spec, kind: str) -> list[StatusCause]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    causes = validate_selector(selector, "spec.selector")
    if is_empty(selector):
        causes.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return causes


def _is_convertible(selector: Any) -> bool:
    """Tell whether the selector can be evaluated; where it cannot, the template is not validated against it."""
    return selector is None or not validate_selector(selector, "")


def _template_labels(spec: Spec) -> list[StatusCause]:
    """An absent selector matches nothing; an empty one is another complaint."""
    selector = spec.get("selector")
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if not _is_convertible(selector):
        return []
    if selector is None or not (is_empty(selector) or matches(selector, labels or {})):
        return [invalid("spec.template.metadata.labels", labels, MISMATCH)]
    return []


def _long_running_template(spec: Spec) -> list[StatusCause]:
    if not _is_convertible(spec.get("selector")):
        return [invalid("spec.selector", spec["selector"], "invalid label selector")]
    causes = _template_labels(spec)
    causes += validate_template(spec["template"], "spec.template")
    return causes + always_restarts(spec["template"], "ReplicaSet")


def always_restarts(template: Mapping[str, Any], kind: str) -> list[StatusCause]:
    """Check that the pods of a template run for good."""
    pod = template.get("spec") or {}
    causes = []
    policy = pod.get("restartPolicy", "")
    # The controller replaces a pod that ended, so a pod that may end would run in a loop.
    if policy != "Always":
        causes.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden("spec.template.spec.activeDeadlineSeconds", text))
    return causes


def _same_selector(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    if old is None:
        return []
    return immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


def positive_int_or_percent(field: str, value: Any) -> list[StatusCause]:
    """Check a number or percentage that may not be negative."""
    if isinstance(value, str):
        return [] if is_percent(value) else [invalid(field, value, PERCENT_TEXT)]
    return minimum(field, value)


def not_over_100_percent(field: str, value: Any) -> list[StatusCause]:
    """Check that a percentage is at most 100."""
    # Surge may be above 100 %, unavailable pods may not.
    if is_percent(value) and int(value[:-1]) > 100:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def _amount(value: Any) -> int:
    """Return a number, that of a percentage or of a text; what is neither counts as zero (getIntOrPercentValue)."""
    if isinstance(value, int):
        return value
    digits = value[:-1] if is_percent(value) else str(value)
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def _deployment_strategy(strategy: Mapping[str, Any]) -> list[StatusCause]:
    field = "spec.strategy"
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden(f"{field}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        return [not_supported(field, _strategy_shown(kind, rolling), ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required(f"{field}.rollingUpdate", "this should be defaulted and never be nil")]
    field = f"{field}.rollingUpdate"
    unavailable = rolling.get("maxUnavailable", 0)
    surge = rolling.get("maxSurge", 0)
    causes = positive_int_or_percent(f"{field}.maxUnavailable", unavailable)
    causes += positive_int_or_percent(f"{field}.maxSurge", surge)
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        causes.append(invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + not_over_100_percent(f"{field}.maxUnavailable", unavailable)


def _strategy_shown(kind: Any, rolling: Any) -> dict[str, Any]:
    """Return a strategy as Go prints it; the API server reports its type at the path of the whole strategy."""
    return {"Type": kind or "", "RollingUpdate": rolling}


def _daemon_strategy(strategy: Mapping[str, Any]) -> list[StatusCause]:
    field = "spec.updateStrategy"
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(field, _strategy_shown(kind, rolling), ("OnDelete", "RollingUpdate"))]
    if rolling is None:
        return [required(f"{field}.rollingUpdate")]
    field = f"{field}.rollingUpdate"
    unavailable = rolling.get("maxUnavailable", 0)
    surge = rolling.get("maxSurge", 0)
    causes = positive_int_or_percent(f"{field}.maxUnavailable", unavailable)
    causes += not_over_100_percent(f"{field}.maxUnavailable", unavailable)
    causes += positive_int_or_percent(f"{field}.maxSurge", surge)
    causes += not_over_100_percent(f"{field}.maxSurge", surge)
    # A DaemonSet does one or the other on a node.
    if _amount(unavailable) > 0 and _amount(surge) > 0:
        causes.append(invalid(f"{field}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif _amount(unavailable) == 0 and _amount(surge) == 0:
        causes.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _stateful_strategy(strategy: Mapping[str, Any]) -> list[StatusCause]:
    field = "spec.updateStrategy"
    kind = strategy.get("type", "")
    rolling = strategy.get("rollingUpdate")
    if not kind:
        return [required(field)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{field}.rollingUpdate", {"Partition": rolling.get("partition", 0)}, text)]
    if kind != "RollingUpdate":
        return [invalid(field, {"Type": kind, "RollingUpdate": rolling}, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    causes = minimum(f"{field}.rollingUpdate.partition", rolling.get("partition"))
    if "maxUnavailable" in rolling:
        path = f"{field}.rollingUpdate.maxUnavailable"
        causes += positive_int_or_percent(path, rolling["maxUnavailable"])
        if _amount(rolling["maxUnavailable"]) == 0:
            causes.append(invalid(path, rolling["maxUnavailable"], "cannot be 0"))
    return causes
