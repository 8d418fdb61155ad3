"""Pod Security: the baseline and restricted standards, enforced by labels of the namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, labels_of
from gitsync.sandbox.admission.attributes import CREATE, UPDATE, Attributes
from gitsync.sandbox.admission.pod_templates import pod_spec_of
from gitsync.sandbox.controllers.client import ControllerClient

Spec = Mapping[str, Any]
Check = Callable[[Spec], str]

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
_BASELINE_CAPABILITIES = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"}
    | {"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
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


def check(api: ControllerClient, obj: Manifest, attributes: Attributes) -> None:
    """Refuse a pod below the enforced standard; warn of pods and templates below the one to warn of."""
    if attributes.operation not in (CREATE, UPDATE) or attributes.subresource or not attributes.namespace:
        return
    found = pod_spec_of(obj, attributes)
    if found is None or (attributes.old is not None and pod_spec_of(attributes.old, attributes) == found):
        return
    spec = found[0]
    namespace = api.get("", "Namespace", "", attributes.namespace)
    labels = labels_of(namespace) if namespace is not None else {}
    level = labels.get(f"{PREFIX}enforce", "privileged")
    is_pod = attributes.is_of("", "Pod")
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
    return ", ".join(found for found in (one(spec) for one in checks) if found)


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
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return f"host namespaces ({', '.join(found)})" if found else ""


def _host_paths(spec: Spec) -> str:
    names = [volume["name"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
    return f"hostPath volumes ({_named(names, 'volume')})" if names else ""


def _host_ports(spec: Spec) -> str:
    names, ports = [], []
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
    names, extra = [], set()
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
    dropping, adding, extra = [], [], set()
    for container in _containers(spec):
        capabilities = _context(container).get("capabilities") or {}
        if "ALL" not in capabilities.get("drop", ()):
            dropping.append(container["name"])
        added = set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}
        if added:
            adding.append(container["name"])
            extra |= added
    found = []
    if dropping:
        found.append(f'{_named(dropping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = ", ".join(_quote(name) for name in sorted(extra))
        found.append(f"{_named(adding)} must not include {listed} in securityContext.capabilities.add")
    return f"unrestricted capabilities ({'; '.join(found)})" if found else ""


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
    given = (spec.get("securityContext") or {}).get("sysctls", ())
    names = sorted({item["name"] for item in given} - _SAFE_SYSCTLS)
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
    found = []
    if pod and pod.get("type") not in good:
        found.append(f"pod must not set securityContext.seccompProfile.type to {_quote(pod.get('type', ''))}")
    unset, wrong = [], []
    for container in _containers(spec):
        profile = _context(container).get("seccompProfile") or {}
        if profile and profile.get("type") not in good:
            wrong.append(container["name"])
        elif not profile and pod.get("type") not in good:
            unset.append(container["name"])
    if wrong:
        found.append(f'{_named(wrong)} must not set securityContext.seccompProfile.type to "Unconfined"')
    if unset:
        text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        found.append(f"pod or {_named(unset)} {text}")
    return f"seccompProfile ({'; '.join(found)})" if found else ""


def _privilege_escalation(spec: Spec) -> str:
    names = _where(spec, lambda context: context.get("allowPrivilegeEscalation") is not False)
    if not names:
        return ""
    text = "must set securityContext.allowPrivilegeEscalation=false"
    return f"allowPrivilegeEscalation != false ({_named(names)} {text})"


def _restricted_volumes(spec: Spec) -> str:
    names, kinds = [], set()
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
    found = ["pod must not set securityContext.runAsNonRoot=false"] if pod is False else []
    wrong = _where(spec, lambda context: context.get("runAsNonRoot") is False)
    unset = _where(spec, lambda context: context.get("runAsNonRoot") is None and not pod)
    if wrong:
        found.append(f"{_named(wrong)} must not set securityContext.runAsNonRoot=false")
    if unset and pod is not False:
        found.append(f"pod or {_named(unset)} must set securityContext.runAsNonRoot=true")
    return f"runAsNonRoot != true ({'; '.join(found)})" if found else ""


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
