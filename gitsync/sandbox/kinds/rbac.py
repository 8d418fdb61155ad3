"""Validation of roles and their bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import invalid, not_supported, required
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import dns_subdomain, path_segment

_GROUP = "rbac.authorization.k8s.io"


def validate_role(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a Role."""
    return _rules(new.get("rules") or (), namespaced=True)


def validate_cluster_role(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ClusterRole."""
    causes = _rules(new.get("rules") or (), namespaced=False)
    aggregation = new.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            causes.append(
                required(
                    "aggregationRule.clusterRoleSelectors",
                    "at least one clusterRoleSelector required if aggregationRule is non-nil",
                )
            )
        for index, selector in enumerate(selectors):
            causes += validate_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")
    return causes


def _rules(rules: Any, *, namespaced: bool) -> list[StatusCause]:
    causes = []
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"rules[{index}]", namespaced)
    return causes


def _rule(rule: Mapping[str, Any], field: str, namespaced: bool) -> list[StatusCause]:
    causes = []
    if not rule.get("verbs"):
        causes.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        path = f"{field}.nonResourceURLs"
        # URLs such as /healthz belong to no namespace.
        if namespaced:
            causes.append(invalid(path, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(path, urls, text))
        # A rule about URLs needs no groups and resources.
        return causes
    if not rule.get("apiGroups"):
        causes.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return causes


def validate_role_binding(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a RoleBinding."""
    return _binding(new, old, ("ClusterRole", "Role"), namespaced=True)


def validate_cluster_role_binding(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ClusterRoleBinding."""
    return _binding(new, old, ("ClusterRole",), namespaced=False)


def _binding(new: Manifest, old: Manifest | None, kinds: tuple[str, ...], *, namespaced: bool) -> list[StatusCause]:
    role = new["roleRef"]
    causes = []
    if role.get("apiGroup") != _GROUP:
        causes.append(not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (_GROUP,)))
    if role.get("kind") not in kinds:
        causes.append(not_supported("roleRef.kind", role.get("kind", ""), kinds))
    name = role.get("name", "")
    if not name:
        causes.append(required("roleRef.name"))
    else:
        causes += [invalid("roleRef.name", name, text) for text in path_segment(name)]
    for index, subject in enumerate(new.get("subjects", ())):
        causes += _subject(subject, f"subjects[{index}]", namespaced)
    # Rebinding would let a user who may only change subjects grant another role.
    if old is not None and role != old["roleRef"]:
        causes.append(invalid("roleRef", _role_shown(role), "cannot change roleRef"))
    return causes


def _role_shown(role: Mapping[str, Any]) -> dict[str, Any]:
    return {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}


def _subject(subject: Mapping[str, Any], field: str, namespaced: bool) -> list[StatusCause]:
    """Check a subject (pkg/apis/rbac/validation: ValidateRoleBindingSubject); users and groups may name a namespace."""
    name = subject.get("name", "")
    kind = subject.get("kind", "")
    group = subject.get("apiGroup", "")
    causes = [] if name else [required(f"{field}.name")]
    if kind == "ServiceAccount":
        if name:
            causes += [invalid(f"{field}.name", name, text) for text in dns_subdomain(name)]
        if group:
            causes.append(not_supported(f"{field}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            causes.append(required(f"{field}.namespace"))
    # Names of users and groups come from outside the cluster, so their form is free.
    elif kind in ("User", "Group"):
        if group != _GROUP:
            causes.append(not_supported(f"{field}.apiGroup", group, (_GROUP,)))
    else:
        causes.append(not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group")))
    return causes
