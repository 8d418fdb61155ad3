"""Pod Security: the baseline and restricted standards, enforced by labels of the namespace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, labels_of, metadata_of
from gitsync.sandbox import errors
from gitsync.sandbox.admission.attributes import CREATE, UPDATE, AdmissionAttributes, pod_spec_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.registry.contract import ControllerClient
from gitsync.sandbox.validation.causes import invalid

Spec = Mapping[str, Any]
Check = Callable[[Spec], str]

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
# The default set of Docker; the standard allows what containers get anyway.
_BASELINE_CAPABILITIES = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"}
    | {"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
# Sysctls with a namespace of their own for each pod.
_SAFE_SYSCTLS = frozenset(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"}
    | {"net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"}
    | {"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"}
    | {"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def check(api: ControllerClient, obj: Manifest, attributes: AdmissionAttributes) -> None:
    """Refuse a pod below the enforced standard; warn of pods and templates below the one to warn of."""
    if attributes.operation not in (CREATE, UPDATE) or attributes.subresource or not attributes.namespace:
        return
    template = pod_spec_of(obj, attributes)
    # An update that leaves the pod alone is not evaluated again: the standard may have been raised since.
    if template is None or (attributes.old is not None and pod_spec_of(attributes.old, attributes) == template):
        return
    spec = template[0]
    namespace = api.get("", "Namespace", "", attributes.namespace)
    labels = labels_of(namespace) if namespace is not None else {}
    level = labels.get(f"{PREFIX}enforce", "privileged")
    is_pod = attributes.is_of("", "Pod")
    # Templates are only warned of: their pods are refused when they are created.
    if is_pod and (text := violations(level, spec)):
        version = labels.get(f"{PREFIX}enforce-version", "latest")
        raise attributes.forbidden(f'violates PodSecurity "{level}:{version}": {text}')
    level = labels.get(f"{PREFIX}warn", "privileged")
    if text := violations(level, spec):
        version = labels.get(f"{PREFIX}warn-version", "latest")
        attributes.warnings.append(f'would violate PodSecurity "{level}:{version}": {text}')


def violations(level: str, spec: Spec) -> str:
    """Return what a pod spec does against a standard, empty when nothing."""
    if level not in LEVELS[1:]:
        return ""
    checks = _BASELINE if level == "baseline" else _RESTRICTED
    return ", ".join(violation for violation in (policy_check(spec) for policy_check in checks) if violation)


def _containers(spec: Spec) -> Iterable[Mapping[str, Any]]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or ()


def _context(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("securityContext") or {}


def _named(names: list[str], what: str = "container") -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(_quote(name) for name in names)}"


def _quote(text: str) -> str:
    return f'"{text}"'


def _where(spec: Spec, bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    return [container["name"] for container in _containers(spec) if bad(_context(container))]


def _privileged(spec: Spec) -> str:
    names = _where(spec, lambda context: bool(context.get("privileged")))
    return f"privileged ({_named(names)} must not set securityContext.privileged=true)" if names else ""


def _host_namespaces(spec: Spec) -> str:
    namespaces = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return f"host namespaces ({', '.join(namespaces)})" if namespaces else ""


def _host_paths(spec: Spec) -> str:
    names = [volume["name"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
    return f"hostPath volumes ({_named(names, 'volume')})" if names else ""


def _host_ports(spec: Spec) -> str:
    names = []
    ports = []
    for container in _containers(spec):
        mine = [str(port["hostPort"]) for port in container.get("ports", ()) if port.get("hostPort")]
        if mine:
            names.append(container["name"])
            ports += [port for port in mine if port not in ports]
    if not names:
        return ""
    verb = "use" if len(names) > 1 else "uses"
    return f"hostPort ({_named(names)} {verb} hostPort{'s' if len(ports) > 1 else ''} {', '.join(ports)})"


def _baseline_capabilities(spec: Spec) -> str:
    names = []
    extra = set()
    for container in _containers(spec):
        added = set((_context(container).get("capabilities") or {}).get("add", ())) - _BASELINE_CAPABILITIES
        if added:
            names.append(container["name"])
            extra |= added
    if not names:
        return ""
    listed = ", ".join(_quote(name) for name in sorted(extra))
    return f"non-default capabilities ({_named(names)} must not include {listed} in securityContext.capabilities.add)"


def _restricted_capabilities(spec: Spec) -> str:
    dropping = []
    adding = []
    extra = set()
    for container in _containers(spec):
        capabilities = _context(container).get("capabilities") or {}
        if "ALL" not in capabilities.get("drop", ()):
            dropping.append(container["name"])
        added = set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}
        if added:
            adding.append(container["name"])
            extra |= added
    problems = []
    if dropping:
        problems.append(f'{_named(dropping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = ", ".join(_quote(name) for name in sorted(extra))
        problems.append(f"{_named(adding)} must not include {listed} in securityContext.capabilities.add")
    return f"unrestricted capabilities ({'; '.join(problems)})" if problems else ""


def _proc_mount(spec: Spec) -> str:
    names = _where(spec, lambda context: context.get("procMount", "Default") != "Default")
    return f'procMount ({_named(names)} must not set securityContext.procMount to "Unmasked")' if names else ""


def _selinux(spec: Spec) -> str:
    def bad(context: Mapping[str, Any]) -> bool:
        options = context.get("seLinuxOptions") or {}
        return options.get("type", "") not in _SELINUX_TYPES or bool(options.get("user") or options.get("role"))

    places = ["pod"] if bad(spec.get("securityContext") or {}) else []
    names = _where(spec, bad)
    if names:
        places.append(_named(names))
    return f"seLinuxOptions ({' and '.join(places)} set forbidden securityContext.seLinuxOptions)" if places else ""


def _sysctls(spec: Spec) -> str:
    sysctls = (spec.get("securityContext") or {}).get("sysctls", ())
    names = sorted({item["name"] for item in sysctls} - _SAFE_SYSCTLS)
    return f"forbidden sysctls ({', '.join(names)})" if names else ""


def _windows_host_process(spec: Spec) -> str:
    def bad(context: Mapping[str, Any]) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    places = ["pod"] if bad(spec.get("securityContext") or {}) else []
    names = _where(spec, bad)
    if names:
        places.append(_named(names))
    text = "must not set securityContext.windowsOptions.hostProcess=true"
    return f"hostProcess ({' and '.join(places)} {text})" if places else ""


def _baseline_seccomp(spec: Spec) -> str:
    def bad(context: Mapping[str, Any]) -> bool:
        return (context.get("seccompProfile") or {}).get("type") == "Unconfined"

    places = ["pod"] if bad(spec.get("securityContext") or {}) else []
    names = _where(spec, bad)
    if names:
        places.append(_named(names))
    text = 'must not set securityContext.seccompProfile.type to "Unconfined"'
    return f"seccompProfile ({' and '.join(places)} {text})" if places else ""


def _restricted_seccomp(spec: Spec) -> str:
    good = ("RuntimeDefault", "Localhost")
    pod = (spec.get("securityContext") or {}).get("seccompProfile") or {}
    problems = []
    if pod and pod.get("type") not in good:
        problems.append(f"pod must not set securityContext.seccompProfile.type to {_quote(pod.get('type', ''))}")
    unset = []
    wrong = []
    for container in _containers(spec):
        profile = _context(container).get("seccompProfile") or {}
        if profile and profile.get("type") not in good:
            wrong.append(container["name"])
        # A container without a profile has that of its pod.
        elif not profile and pod.get("type") not in good:
            unset.append(container["name"])
    if wrong:
        problems.append(f'{_named(wrong)} must not set securityContext.seccompProfile.type to "Unconfined"')
    if unset:
        text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        problems.append(f"pod or {_named(unset)} {text}")
    return f"seccompProfile ({'; '.join(problems)})" if problems else ""


def _privilege_escalation(spec: Spec) -> str:
    names = _where(spec, lambda context: context.get("allowPrivilegeEscalation") is not False)
    if not names:
        return ""
    text = "must set securityContext.allowPrivilegeEscalation=false"
    return f"allowPrivilegeEscalation != false ({_named(names)} {text})"


def _restricted_volumes(spec: Spec) -> str:
    names = []
    kinds = set()
    for volume in spec.get("volumes", ()):
        other = {member for member in volume if member != "name"} - _RESTRICTED_VOLUMES
        if other:
            names.append(volume["name"])
            kinds |= other
    if not names:
        return ""
    verb = "use" if len(names) > 1 else "uses"
    listed = ", ".join(_quote(kind) for kind in sorted(kinds))
    what = f"restricted volume type{'s' if len(kinds) > 1 else ''}"
    return f"restricted volume types ({_named(names, 'volume')} {verb} {what} {listed})"


def _run_as_non_root(spec: Spec) -> str:
    pod = (spec.get("securityContext") or {}).get("runAsNonRoot")
    problems = ["pod must not set securityContext.runAsNonRoot=false"] if pod is False else []
    wrong = _where(spec, lambda context: context.get("runAsNonRoot") is False)
    unset = _where(spec, lambda context: context.get("runAsNonRoot") is None and not pod)
    if wrong:
        problems.append(f"{_named(wrong)} must not set securityContext.runAsNonRoot=false")
    # The pod's explicit false is reported already.
    if unset and pod is not False:
        problems.append(f"pod or {_named(unset)} must set securityContext.runAsNonRoot=true")
    return f"runAsNonRoot != true ({'; '.join(problems)})" if problems else ""


def _run_as_user(spec: Spec) -> str:
    places = ["pod"] if (spec.get("securityContext") or {}).get("runAsUser") == 0 else []
    names = _where(spec, lambda context: context.get("runAsUser") == 0)
    if names:
        places.append(_named(names))
    return f"runAsUser=0 ({' and '.join(places)} must not set runAsUser=0)" if places else ""


_BASELINE: tuple[Check, ...] = (
    _baseline_capabilities,
    _host_namespaces,
    _host_paths,
    _host_ports,
    _privileged,
    _proc_mount,
    _selinux,
    _baseline_seccomp,
    _sysctls,
    _windows_host_process,
)
_RESTRICTED: tuple[Check, ...] = (  # in the order of the checks' names, as the API server reports them
    _privilege_escalation,
    _restricted_capabilities,
    _host_namespaces,
    _host_ports,
    _privileged,
    _proc_mount,
    _restricted_volumes,
    _run_as_non_root,
    _run_as_user,
    _selinux,
    _restricted_seccomp,
    _sysctls,
    _windows_host_process,
)


_MODES = ("audit", "enforce", "warn")
_VERSION = re.compile(r"latest|v1\.\d+")
# The warning names the violated rules without their details, as it is for many pods at once.
_REASON = re.compile(r" \([^()]*(?:\([^()]*\)[^()]*)*\)")


def check_labels(api: ControllerClient, attributes: AdmissionAttributes) -> None:
    """Refuse labels that name no standard; warn of pods below the one that is newly enforced."""
    if not attributes.is_of("", "Namespace") or attributes.subresource or attributes.obj is None:
        return
    if attributes.operation not in (CREATE, UPDATE):
        return
    labels = labels_of(attributes.obj)
    old_labels = labels_of(attributes.old) if attributes.old is not None else {}
    changed = {name for name in labels if name.startswith(PREFIX) and labels[name] != old_labels.get(name)}
    causes = [cause for name in sorted(changed) for cause in _problems(name, labels[name])]
    if causes:
        raise errors.invalid("Namespace", "", attributes.name, causes)
    if attributes.operation == UPDATE and f"{PREFIX}enforce" in changed:
        _warn_of_pods(api, attributes, labels)


def _problems(label: str, value: str) -> list[StatusCause]:
    mode, _, version = label.removeprefix(PREFIX).partition("-")
    field = f"metadata.labels[{label}]"
    if mode not in _MODES:
        return []
    if not version:
        return [] if value in LEVELS else [invalid(field, value, f"must be one of {', '.join(LEVELS)}")]
    return [] if _VERSION.fullmatch(value) else [invalid(field, value, 'must be "latest" or "v1.x"')]


def _warn_of_pods(api: ControllerClient, attributes: AdmissionAttributes, labels: dict[str, str]) -> None:
    level = labels[f"{PREFIX}enforce"]
    pods_by_violation: dict[str, list[str]] = {}
    for pod in api.list("", "Pod", attributes.name):
        text = _REASON.sub("", violations(level, pod["spec"]))
        if text:
            pods_by_violation.setdefault(text, []).append(_name(pod))
    if not pods_by_violation:
        return
    version = labels.get(f"{PREFIX}enforce-version", "latest")
    attributes.warnings.append(
        f'existing pods in namespace "{attributes.name}" violate the new PodSecurity enforce level "{level}:{version}"'
    )
    for text, names in pods_by_violation.items():
        others = len(names) - 1
        more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
        attributes.warnings.append(f"{sorted(names)[0]}{more}: {text}")


def _name(pod: Manifest) -> str:
    return str(metadata_of(pod)["name"])
