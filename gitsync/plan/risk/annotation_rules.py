"""Risk rules for annotations by which other controllers grant rights, reroute requests or stop what runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gitsync.objects.application import Application
from gitsync.objects.change import Change
from gitsync.objects.keys import MASKED_FIELDS
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.plan.risk.privileges import pod_templates


@dataclass(frozen=True, slots=True)
class AnnotationRule:
    """A pattern of annotations, what setting or changing one does, and the source of that."""

    pattern: str
    effect: str
    source: str


SETS = (
    AnnotationRule(
        "eks.amazonaws.com/role-arn",
        "gives pods an IAM role",
        "https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html",
    ),
    AnnotationRule(
        "iam.gke.io/gcp-service-account",
        "gives pods a Google service account",
        "https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity",
    ),
    AnnotationRule(
        "azure.workload.identity/*",
        "gives pods an Azure identity",
        "https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html",
    ),
    AnnotationRule(
        "*.ingress.kubernetes.io/*-snippet",
        "adds configuration to the ingress controller, which reads every Secret (CVE-2021-25742)",
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/",
    ),
    AnnotationRule(
        "*.ingress.kubernetes.io/mirror-target",
        "copies requests to another host",
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/",
    ),
    AnnotationRule(
        "*.ingress.kubernetes.io/auth-*",
        "changes who may send requests",
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/",
    ),
    AnnotationRule(
        "*.ingress.kubernetes.io/*-redirect",
        "sends requests to another host",
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/",
    ),
    AnnotationRule(
        "autoscaling.keda.sh/paused*",
        "stops scaling, at zero replicas too",
        "https://keda.sh/docs/latest/concepts/scaling-deployments/",
    ),
    AnnotationRule(
        "external-dns.alpha.kubernetes.io/*",
        "publishes names in DNS",
        "https://kubernetes-sigs.github.io/external-dns/latest/docs/annotations/annotations/",
    ),
    AnnotationRule(
        "cert-manager.io/inject-*",
        "lets another certificate authority be trusted",
        "https://cert-manager.io/docs/concepts/ca-injector/",
    ),
    AnnotationRule(
        "service.beta.kubernetes.io/aws-load-balancer-scheme",
        "decides whether a load balancer is public",
        "https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/annotations/",
    ),
    AnnotationRule(
        "service.beta.kubernetes.io/aws-load-balancer-internal",
        "decides whether a load balancer is public",
        "https://kubernetes.io/docs/concepts/services-networking/service/#internal-load-balancer",
    ),
    AnnotationRule(
        "alb.ingress.kubernetes.io/scheme",
        "decides whether a load balancer is public",
        "https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/",
    ),
    AnnotationRule(
        "container.apparmor.security.beta.kubernetes.io/*",
        "changes the AppArmor profile of a container",
        "https://kubernetes.io/docs/tutorials/security/apparmor/",
    ),
    AnnotationRule(
        "sidecar.istio.io/inject",
        "decides whether the mesh's proxy enforces its policies",
        "https://istio.io/latest/docs/reference/config/annotations/",
    ),
    AnnotationRule(
        "traffic.sidecar.istio.io/*",
        "takes traffic out of the mesh's policies",
        "https://istio.io/latest/docs/reference/config/annotations/",
    ),
)

REMOVES = (
    AnnotationRule(
        "service.beta.kubernetes.io/azure-load-balancer-internal",
        "makes a load balancer public",
        "https://kubernetes.io/docs/concepts/services-networking/service/#internal-load-balancer",
    ),
    AnnotationRule(
        "networking.gke.io/load-balancer-type",
        "makes a load balancer public",
        "https://kubernetes.io/docs/concepts/services-networking/service/#internal-load-balancer",
    ),
    AnnotationRule(
        "service.beta.kubernetes.io/aws-load-balancer-internal",
        "makes a load balancer public",
        "https://kubernetes.io/docs/concepts/services-networking/service/#internal-load-balancer",
    ),
    AnnotationRule(
        "*.ingress.kubernetes.io/auth-*",
        "changes who may send requests",
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/",
    ),
    AnnotationRule(
        "*.ingress.kubernetes.io/whitelist-source-range",
        "lets other addresses send requests",
        "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/",
    ),
    AnnotationRule(
        "sidecar.istio.io/inject",
        "decides whether the mesh's proxy enforces its policies",
        "https://istio.io/latest/docs/reference/config/annotations/",
    ),
)
"""Annotations and labels whose removal, or another value, takes a protection away."""


def annotation_acts(change: Change) -> str | None:
    """Match an annotation or label of another controller that is set, changed or removed, also in pod templates."""
    if change.desired is None:
        return None
    # Compared live with declared, not by ``differences``, which a new object does not have.
    return _first_other(change.desired, change.live, _setting) or _first_other(change.live, change.desired, _removal)


def hides_fields(change: Change, app: Application) -> str | None:
    """
    Match fields that a commit hides from those who review it, by the annotation for secret values.

    Not of an Application whose chart reads a Secret: what is rendered with its values gets the annotation by itself.
    """
    if change.desired is None or any(ref.kind == "Secret" for part in app.source.parts for ref in part.values_from):
        return None
    declared, known = (
        set(str(annotations_of(manifest or {}).get(MASKED_FIELDS) or "").split())
        for manifest in (change.desired, change.live)
    )
    return ", ".join(sorted(declared - known)) or None


def _first_other(
    manifest: Manifest | None, other: Manifest | None, rule_of: Callable[[str], AnnotationRule | None]
) -> str | None:
    """Return the first mark with a rule that another manifest has not, or has with another value, and its effect."""
    ruled = _by_mark((place, marks) for place, marks in _marks(manifest) if any(rule_of(str(name)) for name in marks))
    if not ruled:  # as nearly always
        return None
    others = _by_mark(_marks(other))
    for mark, value in sorted(ruled.items()):
        name = mark[1]
        if others.get(mark) != value and (rule := rule_of(name)) is not None:
            return f"{name} {rule.effect}"
    return None


def _by_mark(marks: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[tuple[str, str], str]:
    """Return values by place and name."""
    return {(place, str(name)): str(value) for place, members in marks for name, value in members.items()}


# Labels and annotations have few names, which recur in each object of each plan.
@functools.lru_cache(maxsize=4096)
def _setting(name: str) -> AnnotationRule | None:
    return _first(SETS, name)


@functools.lru_cache(maxsize=4096)
def _removal(name: str) -> AnnotationRule | None:
    return _first(REMOVES, name)


def _first(rules: tuple[AnnotationRule, ...], name: str) -> AnnotationRule | None:
    return next((rule for rule in rules if fnmatchcase(name, rule.pattern)), None)


def _marks(manifest: Manifest | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield annotations and labels by their place: those of the object, and those of its pod templates."""
    if manifest is None:
        return
    for place, item in {"": manifest, **pod_templates(manifest)}.items():
        # both: Istio and Azure moved theirs from annotations to labels
        yield place, annotations_of(item)
        yield place, labels_of(item)
    yield ".spec.infrastructure", at(manifest, "spec", "infrastructure", "annotations", default={}) or {}
