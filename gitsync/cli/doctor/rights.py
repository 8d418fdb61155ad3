"""Checks of rights: each verb that the controller needs, by access reviews of the API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gitsync.cli.doctor.finding import Finding, missing, ok
from gitsync.cluster.client import Client
from gitsync.crds import definitions
from gitsync.objects.keys import APPLICATION

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
READ = ("get", "list", "watch")
WRITE = ("get", "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on a resource, in all namespaces where ``namespace`` is empty."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        full = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{full} {self.name}".strip() + (f" in {self.namespace}" if self.namespace else "")

    @property
    def rule(self) -> str:
        """The rule of a role that grants it."""
        return f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: [{", ".join(self.verbs)}]}}'


def controller_needs(namespaces: Iterable[str], install_crds: bool, leases_in: str) -> Iterator[Need]:
    """Yield what the controller needs for its own work; ``leases_in`` is empty without replicas."""
    for namespace in namespaces or ("",):
        yield Need(APPLICATION.group, "applications", (*READ, "create", "patch", "update", "delete"), namespace)
        yield Need(APPLICATION.group, "applicationsets", (*READ, "patch"), namespace)
        yield Need(APPLICATION.group, "applicationsets/finalizers", ("update",), namespace)
        for kind in ("applications", "applicationsets"):
            yield Need(APPLICATION.group, f"{kind}/status", ("patch", "update"), namespace)
    for definition in definitions() if install_crds else ():
        name = definition["metadata"]["name"]
        yield Need("apiextensions.k8s.io", "customresourcedefinitions", ("get", "create", "patch"), name=name)
    if leases_in:
        yield Need("coordination.k8s.io", "leases", ("get", "list", "create", "update", "delete"), leases_in)


class Rights:
    """Ask the API server what the caller, or a user that it impersonates, may do; each answer is kept."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[Need, str], tuple[str, ...]] = {}

    def finding(self, need: Need, check: str, *, user: str = "") -> Finding:
        """Return whether all verbs are allowed, with the rule that is missing."""
        denied = self.denied(need, user)
        who = f" for {user}" if user else ""
        if not denied:
            return ok(check, f"{need}{who}")
        role = "Role" if need.namespace else "ClusterRole"
        fix = f"grant it by a {role} with {Need(need.group, need.resource, denied).rule}, or apply `gitsync install`"
        return missing(check, f"may not {', '.join(denied)} {need}{who}", fix)

    def denied(self, need: Need, user: str = "") -> tuple[str, ...]:
        """Return the verbs that are not allowed."""
        if (need, user) not in self._known:
            self._known[need, user] = tuple(verb for verb in need.verbs if not self._may(verb, need, user))
        return self._known[need, user]

    def _may(self, verb: str, need: Need, user: str) -> bool:
        resource, _, subresource = need.resource.partition("/")
        attributes = {
            "verb": verb,
            "group": need.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": need.namespace,
            "name": need.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        return bool(self._client.send("POST", _REVIEWS, review, user=user)["status"].get("allowed"))
