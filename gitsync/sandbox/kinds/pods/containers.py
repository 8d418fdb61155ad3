"""Validation of the containers of a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.env import validate_env, validate_env_from
from gitsync.sandbox.kinds.pods.probes import validate_lifecycle, validate_probes
from gitsync.sandbox.kinds.pods.resources import validate_container_resources
from gitsync.sandbox.validation.causes import (
    between,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    one_of,
    required,
    too_many,
)
from gitsync.sandbox.validation.names import dns_label, local_path_problems, port_name

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_PROC_MOUNTS = ("Default", "Unmasked")

Container = Mapping[str, Any]


def validate_containers(spec: Mapping[str, Any], field: str, volumes: Mapping[Any, Any]) -> list[StatusCause]:
    """Check containers and initContainers; mounts may name these volumes."""
    containers = spec.get("containers") or ()
    causes: list[StatusCause] = []
    names: set[str] = set()
    # Init containers alone do nothing for long.
    if not containers:
        causes.append(required(f"{field}.containers"))
    for index, container in enumerate(containers):
        path = f"{field}.containers[{index}]"
        causes += _container(container, volumes, path)
        causes += _unique(container, names, path)
        causes += validate_restarts(container, path)
        causes += validate_lifecycle(container.get("lifecycle"), f"{path}.lifecycle")
        # Last: hooks come before probes in the list of causes.
        causes += validate_probes(container, path)
    # Only containers that run at the same time collide; init containers run one by one.
    causes += _host_ports(containers, f"{field}.containers")
    for index, container in enumerate(spec.get("initContainers") or ()):
        path = f"{field}.initContainers[{index}]"
        causes += _container(container, volumes, path)
        causes += _unique(container, names, path)
        causes += _init_container(container, path)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        path = f"{field}.ephemeralContainers[{index}]"
        causes += _container(container, volumes, path)
        causes += _unique(container, names, path)
    return causes


def _unique(container: Container, names: set[str], field: str) -> list[StatusCause]:
    name = container.get("name", "")
    if name in names:
        return [duplicate(f"{field}.name", name)]
    if name:
        names.add(name)
    return []


def _init_container(container: Container, field: str) -> list[StatusCause]:
    """A sidecar (restartPolicy Always) may have probes and hooks; another init container may not."""
    # KEP-753: an init container that always restarts is a sidecar.
    causes = validate_restarts(container, field, init=True)
    if container.get("restartPolicy") == "Always":
        causes += validate_lifecycle(container.get("lifecycle"), f"{field}.lifecycle")
        return causes + validate_probes(container, field)
    text = "may not be set for init containers without restartPolicy=Always"
    return causes + [
        forbidden(f"{field}.{member}", text)
        for member in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
        if member in container
    ]


def _container(container: Container, volumes: Mapping[Any, Any], field: str) -> list[StatusCause]:
    name = container.get("name", "")
    if name:
        causes = [invalid(f"{field}.name", name, text) for text in dns_label(name)]
    else:
        causes = [required(f"{field}.name")]
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    policy = container.get("terminationMessagePolicy", "File")
    causes += one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if "ports" in container:
        causes += _ports(container["ports"], f"{field}.ports")
    if "env" in container:
        causes += validate_env(container["env"], f"{field}.env")
    if "envFrom" in container:
        causes += validate_env_from(container["envFrom"], f"{field}.envFrom")
    if "volumeMounts" in container:
        causes += _mounts(container["volumeMounts"], volumes, f"{field}.volumeMounts")
    if "volumeDevices" in container:
        causes += _devices(container["volumeDevices"], volumes, f"{field}.volumeDevices")
    pull_policy = container.get("imagePullPolicy", "Always")
    causes += one_of(f"{field}.imagePullPolicy", pull_policy, _PULL_POLICIES)
    if container.get("resources"):
        causes += validate_container_resources(container["resources"], f"{field}.resources")
    if container.get("securityContext"):
        causes += _security(container["securityContext"], f"{field}.securityContext")
    return causes


def _ports(ports: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    causes = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        name = port.get("name", "")
        if name:
            problems = port_name(name)
            causes += [invalid(f"{path}.name", name, text) for text in problems]
            # An invalid name is not also reported as a duplicate.
            if not problems and name in names:
                causes.append(duplicate(f"{path}.name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        # Zero is the zero value of an absent port, not a port.
        if number == 0:
            causes.append(required(f"{path}.containerPort"))
        else:
            causes += between(f"{path}.containerPort", number, 1, 65535)
        causes += between(f"{path}.hostPort", port.get("hostPort"), 1, 65535)
        protocol = port.get("protocol", "")
        if not protocol:
            causes.append(required(f"{path}.protocol"))
        elif protocol not in PROTOCOLS:
            causes.append(not_supported(f"{path}.protocol", protocol, PROTOCOLS))
    return causes


def _host_ports(containers: Sequence[Container], field: str) -> list[StatusCause]:
    causes = []
    taken: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort")
            if not host:
                continue
            # One number may be used by another protocol or on another address.
            key = (host, port.get("protocol"), port.get("hostIP", ""))
            if key in taken:
                shown = f"{key[1]}/{key[2]}/{host}"
                causes.append(duplicate(f"{field}[{index}].ports[{number}].hostPort", shown))
            taken.add(key)
    return causes


def _mounts(mounts: Sequence[Mapping[str, Any]], volumes: Mapping[Any, Any], field: str) -> list[StatusCause]:
    causes = []
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        path = f"{field}[{index}]"
        name = mount.get("name", "")
        mount_path = mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{path}.name"))
        # Also added to the cause of a missing name: the server reports both.
        if name not in volumes:
            causes.append(not_found(f"{path}.name", name))
        if not mount_path:
            causes.append(required(f"{path}.mountPath"))
        if mount_path in paths:
            causes.append(invalid(f"{path}.mountPath", mount_path, "must be unique"))
        paths.add(mount_path)
        for member in ("subPath", "subPathExpr"):
            value = mount.get(member, "")
            if value:
                causes += [invalid(f"{path}.{member}", value, text) for text in local_path_problems(value)]
        if "subPath" in mount and "subPathExpr" in mount:
            text = "subPathExpr and subPath are mutually exclusive"
            causes.append(invalid(f"{path}.subPathExpr", mount["subPathExpr"], text))
        causes += one_of(f"{field}.mountPropagation", mount.get("mountPropagation"), _PROPAGATIONS)  # without index
        causes += one_of(f"{field}.recursiveReadOnly", mount.get("recursiveReadOnly"), _RECURSIVE)
    return causes


def _devices(devices: Sequence[Mapping[str, Any]], volumes: Mapping[Any, Any], field: str) -> list[StatusCause]:
    causes = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(devices):
        path = f"{field}[{index}]"
        name = device.get("name", "")
        device_path = device.get("devicePath", "")
        if not name:
            causes.append(required(f"{path}.name"))
        elif name not in volumes:
            causes.append(not_found(f"{path}.name", name))
        # Only these can be block devices (volumeMode: Block).
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid(f"{path}.name", name, text))
        if name in names:
            causes.append(invalid(f"{path}.name", name, "must be unique"))
        names.add(name)
        if not device_path:
            causes.append(required(f"{path}.devicePath"))
        elif device_path in paths:
            causes.append(invalid(f"{path}.devicePath", device_path, "must be unique"))
        paths.add(device_path)
    return causes


def _security(context: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for member in ("runAsUser", "runAsGroup"):
        value = context.get(member)
        # IDs of Linux are 32 bits unsigned, those of the API are not above MaxInt32.
        if value is not None and not 0 <= value <= 2147483647:
            causes.append(invalid(f"{field}.{member}", value, "must be between 0 and 2147483647, inclusive"))
    causes += one_of(f"{field}.procMount", context.get("procMount"), _PROC_MOUNTS)
    # An absent value is decided by the runtime, so only an explicit false contradicts.
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            causes.append(invalid(field, _security_shown(context), text))
        added = context.get("capabilities", {}).get("add", ())
        # The server compares with this spelling although capabilities are written without CAP_, so SYS_ADMIN passes.
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            causes.append(invalid(field, _security_shown(context), text))
    causes += validate_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    return causes + validate_app_armor(context.get("appArmorProfile"), f"{field}.appArmorProfile")


def validate_app_armor(profile: Mapping[str, Any] | None, field: str) -> list[StatusCause]:
    """Check an AppArmor profile (pkg/apis/core/validation: ValidateAppArmorProfileField)."""
    if profile is None:
        return []
    kind = profile.get("type", "")
    local = profile.get("localhostProfile")
    path = f"{field}.localhostProfile"
    if not kind:
        return [required(f"{field}.type", "type is required when appArmorProfile is set")]
    if kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        return [not_supported(f"{field}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))]
    if kind != "Localhost":
        text = "can only be set when AppArmor type is Localhost"
        return [] if local is None else [invalid(path, local, text)]
    if not local:
        return [required(path, "must be set when AppArmor type is Localhost")]
    return [invalid(path, local, "must not be padded with whitespace")] if local.strip() != local else []


def _security_shown(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context as the server prints its internal type."""
    members = (
        "capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot "
        "readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile appArmorProfile"
    )
    # Names and order of the Go struct core.SecurityContext.
    return {name[0].upper() + name[1:]: context.get(name) for name in members.split()}


def validate_seccomp(profile: Mapping[str, Any] | None, field: str) -> list[StatusCause]:
    """Check a seccomp profile."""
    if profile is None:
        return []
    kind = profile.get("type", "")
    if not kind:
        return [required(f"{field}.type", "type is required when seccompProfile is set")]
    if kind == "Localhost":
        if not profile.get("localhostProfile"):
            return [required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost")]
        return []
    if "localhostProfile" in profile:
        text = "can only be set when seccomp type is Localhost"
        return [invalid(f"{field}.localhostProfile", profile["localhostProfile"], text)]
    return one_of(f"{field}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))


_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
# pkg/apis/core/validation: maxContainerRestartPolicyRules… (KEP-5307), the numbers of a Job's failure policy.
_MOST_RULES = 20
_MOST_VALUES = 255


def validate_restarts(container: Mapping[str, Any], field: str, *, init: bool = False) -> list[StatusCause]:
    """Check the policy of a container and its rules; those of an init container need a policy to be checked."""
    policy = container.get("restartPolicy")
    rules = container.get("restartPolicyRules") or ()
    causes = one_of(f"{field}.restartPolicy", policy, _POLICIES)
    if policy is None and rules:
        causes.append(required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used"))
        # The init container's own check returns here, that of a container goes through the rules.
        if init:
            return causes
    if len(rules) > _MOST_RULES:
        causes.append(too_many(f"{field}.restartPolicyRules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"{field}.restartPolicyRules[{index}]")
    return causes


def _rule(rule: Mapping[str, Any], field: str) -> list[StatusCause]:
    action = rule.get("action", "")
    codes = rule.get("exitCodes")
    causes = [] if action in _ACTIONS else [not_supported(f"{field}.action", action, _ACTIONS)]
    if codes is None:
        return [*causes, required(f"{field}.exitCodes", "must be specified")]
    operator = codes.get("operator", "")
    values = codes.get("values") or ()
    if operator not in _OPERATORS:
        causes.append(not_supported(f"{field}.exitCodes.operator", operator, _OPERATORS))
    if len(values) > _MOST_VALUES:
        causes.append(too_many(f"{field}.exitCodes.values", len(values), _MOST_VALUES))
    return causes
