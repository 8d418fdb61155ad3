"""Explain an answer of 403: which right is missing to whom, or which admission rule an object violates."""

from __future__ import annotations

import re

_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_ACCOUNT = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")
_READS = ("get", "list", "watch")
_WRITES = ("create", "delete", "get", "patch")
"""The verbs of one purpose are granted together: an apply creates or patches, and a later commit deletes."""
_ADMISSION = (
    (re.compile(r"exceeded quota: (?P<name>[^,\s]+)"), "raise the ResourceQuota {name}, or request less"),
    (
        re.compile(r"failed quota: (?P<name>[^:\s]+): must specify"),
        "set the resources that the ResourceQuota {name} counts",
    ),
    (
        re.compile(r'violates PodSecurity "(?P<name>[^"]+)"'),
        "change the pod as listed, or the label pod-security.kubernetes.io/enforce of its namespace",
    ),
    (
        re.compile(r"is attempting to grant RBAC permissions not currently held"),
        "give the user these permissions too, or the verbs escalate and bind on roles",
    ),
    (
        re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request'),
        "change the object as the admission webhook {name} requires",
    ),
    (
        re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"),
        "change the object as the ValidatingAdmissionPolicy {name} requires",
    ),
    (
        re.compile(r"(?:minimum|maximum) \S+ usage per|limit to request ratio per"),
        "change the resources, or the LimitRange of the namespace",
    ),
)


def forbidden_hint(message: str) -> str:
    """
    Return how to allow what an API server forbade, empty where its message says everything that is known.

    The messages are those of the authorizer and of the built-in admission plugins.
    """
    denied = _DENIED.search(message)
    if denied is not None:
        return _rule(denied)
    for pattern, hint in _ADMISSION:
        if found := pattern.search(message):
            return hint.format(**found.groupdict())
    return ""


def _rule(denied: re.Match[str]) -> str:
    """Return the RBAC rule for a denied request, and where it belongs."""
    verb, namespace = denied["verb"], denied["namespace"]
    verbs = next((group for group in (_READS, _WRITES) if verb in group), (verb,))
    rule = f'{{apiGroups: ["{denied["group"]}"], resources: ["{denied["resource"]}"], verbs: [{", ".join(verbs)}]}}'
    place = f"a Role of namespace {namespace}" if namespace else "a ClusterRole"
    who = _subject(denied["user"])
    return f"{verb} on {denied['resource']} is denied to {who}; add the rule {rule} to {place} that is bound to it"


def _subject(user: str) -> str:
    account = _ACCOUNT.fullmatch(user)
    return f"ServiceAccount {account['namespace']}/{account['name']}" if account else f"user {user}"
