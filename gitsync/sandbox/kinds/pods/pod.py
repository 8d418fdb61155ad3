"""Validation of pod specs and of pod updates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.containers import validate_app_armor, validate_containers, validate_seccomp
from gitsync.sandbox.kinds.pods.env import validate_file_keys
from gitsync.sandbox.kinds.pods.resources import validate_claims_and_resizing, validate_container_resources
from gitsync.sandbox.kinds.pods.scheduling import validate_affinity, validate_gates, validate_spread
from gitsync.sandbox.kinds.pods.volumes import validate_volumes
from gitsync.sandbox.validation.causes import (
    between,
    duplicate,
    forbidden,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
    too_long,
)
from gitsync.sandbox.validation.metadata import validate_annotations, validate_labels
from gitsync.sandbox.validation.names import (
    dns_label,
    dns_subdomain,
    ip_address,
    label_value,
    qualified_name,
    search_domain,
)

_NONE: frozenset[str] = frozenset()
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
# sethostname(2) of Linux takes 64 bytes.
_MAX_HOST_NAME = 64
_MAX_SECONDS = 2147483647
# pkg/apis/core/validation: SysctlMaxLength.
_SYSCTL_LIMIT = 253
_SYSCTL_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
# Both separators, as sysctl(8) has them: net.ipv4.x and net/ipv4/x.
_SYSCTL = re.compile(rf"{_SYSCTL_PART}([./]{_SYSCTL_PART})*")


def validate_template(
    template: Mapping[str, Any], field: str, *, extra_volumes: frozenset[str] = _NONE
) -> list[StatusCause]:
    """Check a pod template."""
    # Labels and annotations of a template have the path of the template, without "metadata".
    causes = validate_template_metadata(template, field)
    return causes + validate_pod_spec(template.get("spec") or {}, f"{field}.spec", extra_volumes=extra_volumes)


def validate_template_metadata(template: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check labels and annotations of a pod template."""
    metadata = template.get("metadata") or {}
    causes = validate_labels(metadata.get("labels"), f"{field}.labels")
    return causes + validate_annotations(metadata.get("annotations"), f"{field}.annotations")


def validate_pod_spec(
    spec: Mapping[str, Any], field: str, *, extra_volumes: frozenset[str] = _NONE
) -> list[StatusCause]:
    """Check a pod spec; containers may also mount ``extra_volumes``."""
    # Volumes first: mounts of a volume with causes are then reported as not found.
    causes, volumes = validate_volumes(spec.get("volumes", ()), f"{field}.volumes")
    mounted: dict[str, Mapping[str, Any]] = {name: {"persistentVolumeClaim": {}} for name in extra_volumes} | volumes
    causes += validate_containers(spec, field, mounted)
    causes += _policy(spec.get("restartPolicy", ""), f"{field}.restartPolicy", _RESTART_POLICIES)
    causes += _policy(spec.get("dnsPolicy", ""), f"{field}.dnsPolicy", _DNS_POLICIES)
    if "nodeSelector" in spec:
        causes += validate_labels(spec["nodeSelector"], f"{field}.nodeSelector")
    if spec.get("securityContext"):
        causes += _security(spec["securityContext"], f"{field}.securityContext")
    causes += validate_claims_and_resizing(spec, field)
    if "overhead" in spec:
        causes += validate_container_resources({"limits": spec["overhead"]}, f"{field}.overhead")
    # Each port of the container is then one of the node.
    if spec.get("hostNetwork"):
        causes += _host_network_ports(spec, field)
    if "affinity" in spec:
        causes += validate_affinity(spec["affinity"], f"{field}.affinity")
    causes += _dns_config(spec, field)
    causes += validate_gates(spec, field)
    causes += validate_spread(spec.get("topologySpreadConstraints", ()), f"{field}.topologySpreadConstraints")
    causes += _names(spec, field)
    for index, toleration in enumerate(spec.get("tolerations", ())):
        causes += validate_toleration(toleration, f"{field}.tolerations[{index}]")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        causes += _alias(alias, f"{field}.hostAliases[{index}]")
    return causes + _deadline(spec, field) + validate_file_keys(spec, field)


def _policy(value: str, field: str, choices: Sequence[str]) -> list[StatusCause]:
    return one_of(field, value, choices) if value else [required(field)]


def _deadline(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    return between(f"{field}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1, _MAX_SECONDS)


def _names(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for member, check in (
        ("serviceAccountName", dns_subdomain),
        ("nodeName", dns_subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
        ("priorityClassName", dns_subdomain),
        ("runtimeClassName", dns_subdomain),
    ):
        value = spec.get(member)
        if value:
            causes += [invalid(f"{field}.{member}", value, text) for text in check(value)]
    causes += one_of(f"{field}.preemptionPolicy", spec.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))
    override = spec.get("hostnameOverride")
    # Gate HostnameOverride (KEP-4762).
    if override is not None:
        causes += _host_name(spec, override, f"{field}.hostnameOverride")
    if "os" in spec:
        causes += _policy(spec["os"].get("name", ""), f"{field}.os.name", ("linux", "windows"))
    return causes


def _host_name(spec: Mapping[str, Any], name: str, field: str) -> list[StatusCause]:
    """Check the name that a pod sees as its own (pkg/apis/core/validation: validateHostnameOverride)."""
    members = [member for member in ("setHostnameAsFQDN", "hostNetwork") if spec.get(member)]
    causes = [forbidden(field, f"may not be specified when {member} is true") for member in members]
    causes += [too_long(field, _MAX_HOST_NAME)] if len(name) > _MAX_HOST_NAME else []
    return causes + malformed(field, name, dns_subdomain)


def _host_network_ports(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports", ())):
            # Templates are not defaulted with hostPort, so an absent one is right.
            if port.get("hostPort", port.get("containerPort")) != port.get("containerPort"):
                path = f"{field}.containers[{index}].ports[{number}].containerPort"
                text = "must match `hostPort` when `hostNetwork` is true"
                causes.append(invalid(path, port.get("containerPort"), text))
    return causes


def _security(context: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for member in ("runAsUser", "runAsGroup", "fsGroup"):
        causes += between(f"{field}.{member}", context.get(member), 0, _MAX_SECONDS)
    for index, group in enumerate(context.get("supplementalGroups", ())):
        causes += between(f"{field}.supplementalGroups[{index}]", group, 0, _MAX_SECONDS)
    choices = ("Always", "OnRootMismatch")
    causes += one_of(f"{field}.fsGroupChangePolicy", context.get("fsGroupChangePolicy"), choices)
    causes += one_of(f"{field}.supplementalGroupsPolicy", context.get("supplementalGroupsPolicy"), ("Merge", "Strict"))
    # MountOption is behind the gate SELinuxMount, which is off.
    causes += one_of(f"{field}.seLinuxChangePolicy", context.get("seLinuxChangePolicy"), ("Recursive",))
    causes += _sysctls(context.get("sysctls", ()), f"{field}.sysctls")
    causes += validate_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    return causes + validate_app_armor(context.get("appArmorProfile"), f"{field}.appArmorProfile")


def _sysctls(sysctls: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    """Check the names of kernel parameters (pkg/apis/core/validation: validateSysctls)."""
    causes = list[StatusCause]()
    names = [sysctl.get("name", "") for sysctl in sysctls]
    for index, name in enumerate(names):
        path = f"{field}[{index}].name"
        if not name:
            causes.append(required(path))
        elif len(name) > _SYSCTL_LIMIT or not _SYSCTL.fullmatch(name):
            text = f"must have at most {_SYSCTL_LIMIT} characters and match regex ^({_SYSCTL.pattern})$"
            causes.append(invalid(path, name, text))
        elif name in names[:index]:
            causes.append(duplicate(path, name))
    return causes


def _dns_config(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    config = spec.get("dnsConfig", {})
    servers = config.get("nameservers", ())
    causes = []
    # None means: nothing but this configuration.
    if spec.get("dnsPolicy") == "None" and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        causes.append(required(f"{field}.dnsConfig" + (".nameservers" if "dnsConfig" in spec else ""), text))
    for index, server in enumerate(servers):
        causes += [invalid(f"{field}.dnsConfig.nameservers[{index}]", server, text) for text in ip_address(server)]
    for index, search in enumerate(config.get("searches", ())):
        # A single dot is allowed (KEP-4427).
        if search != ".":
            causes += malformed(f"{field}.dnsConfig.searches[{index}]", search.removesuffix("."), search_domain)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            causes.append(required(f"{field}.dnsConfig.options[{index}]", "must not be empty"))
    return causes


def validate_toleration(toleration: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check a toleration of a Pod or of a RuntimeClass."""
    causes = []
    key = toleration.get("key", "")
    operator = toleration.get("operator", "")
    value = toleration.get("value", "")
    effect = toleration.get("effect", "")
    if key:
        causes += [invalid(f"{field}.key", key, text) for text in qualified_name(key)]
    # An empty key with Exists tolerates every taint.
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid(f"{field}.operator", operator, text))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{field}.effect", effect, text))
    if operator in ("Equal", ""):
        # The path is that of the operator although the value is wrong.
        causes += [invalid(f"{field}.operator", value, text) for text in label_value(value)]
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            # Likewise, with the whole toleration as the value.
            causes.append(invalid(f"{field}.operator", _shown(toleration), text))
    else:
        causes.append(not_supported(f"{field}.operator", operator, _OPERATORS))
    if effect and effect not in _EFFECTS:
        causes.append(not_supported(f"{field}.effect", effect, _EFFECTS))
    return causes


def _shown(toleration: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Key": toleration.get("key", ""),
        "Operator": toleration.get("operator", ""),
        "Value": toleration.get("value", ""),
        "Effect": toleration.get("effect", ""),
        "TolerationSeconds": toleration.get("tolerationSeconds"),
    }


def _alias(alias: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = [invalid(f"{field}.ip", alias.get("ip", ""), text) for text in ip_address(alias.get("ip", ""))]
    for index, name in enumerate(alias.get("hostnames", ())):
        causes += [invalid(f"{field}.hostnames[{index}]", name, text) for text in dns_subdomain(name)]
    return causes


def validate_pod(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a Pod, and that a change touches only what may change."""
    causes = validate_pod_spec(new["spec"], "spec")
    # In a server with the admission plugin ServiceAccount only mirror pods have none.
    if not new["spec"].get("serviceAccountName"):
        causes += _tokens(new["spec"])
    if old is None and new["spec"].get("ephemeralContainers"):
        # They are added by the subresource ephemeralcontainers, for kubectl debug.
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if old is not None:
        causes += _pod_update(new["spec"], old["spec"])
    return causes


def _tokens(spec: Mapping[str, Any]) -> Iterator[StatusCause]:
    """Yield the causes of tokens in the volumes of a Pod without ServiceAccount; templates have them."""
    for number, volume in enumerate(spec.get("volumes", ())):
        for index, source in enumerate(volume.get("projected", {}).get("sources", ())):
            if "serviceAccountToken" in source:
                path = f"spec.volumes[{number}].projected.sources[{index}].serviceAccountToken"
                yield forbidden(path, "must not be specified when serviceAccountName is not set")


_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[StatusCause]:
    """Compare the specs with what may change made equal."""
    causes: list[StatusCause] = []
    for member in ("containers", "initContainers"):
        if len(new.get(member) or ()) != len(old.get(member) or ()):
            text = "pod updates may not add or remove containers"
            causes.append(forbidden(f"spec.{member}", text))
    # With other containers, comparing them one by one would name the wrong ones.
    if causes:
        return causes
    for member in ("containers", "initContainers"):
        for index, container in enumerate(new.get(member) or ()):
            causes += [] if container.get("image", "").strip() else [required(f"spec.{member}[{index}].image")]
    deadline = new.get("activeDeadlineSeconds")
    stored_deadline = old.get("activeDeadlineSeconds")
    # A deadline may only come closer.
    if stored_deadline is not None and (deadline is None or deadline > stored_deadline):
        if deadline is None:
            text = "must not update from a positive integer to nil value"
            causes.append(invalid("spec.activeDeadlineSeconds", None, text))
        else:
            text = f"must be less than or equal to previous value {stored_deadline}"
            causes.append(invalid("spec.activeDeadlineSeconds", deadline, text))
    kept = old.get("tolerations", [])
    # Exact equality is the rule and cheap; comparing without seconds is needed only when it fails.
    if any(toleration not in new.get("tolerations", []) for toleration in kept):
        text = "existing toleration can not be modified except its tolerationSeconds"
        if not all(_tolerated(toleration, new.get("tolerations", [])) for toleration in kept):
            causes.append(forbidden("spec.tolerations", text))
    if _fixed(new, old) != _fixed(old, old):
        causes.append(forbidden("spec", _UPDATE_TEXT))
    return causes


def _tolerated(toleration: Mapping[str, Any], present: Sequence[Mapping[str, Any]]) -> bool:
    def without_seconds(item: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    return any(without_seconds(toleration) == without_seconds(item) for item in present)


def _fixed(spec: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod spec that must stay; nodeSelector and affinity may narrow while it is gated."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    # Negative values were stored once; the kubelet treats them as 1, and a client may write that down.
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        free.add("terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        # KEP-3838; that they only become narrower is not checked here.
        free |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in free}
    for member in ("containers", "initContainers"):
        if member in fixed:
            fixed[member] = [
                {key: value for key, value in container.items() if key != "image"} for container in fixed[member] or ()
            ]
    return fixed
