"""Pod Security labels of a namespace: validate them, and warn about existing pods that violate them."""

from __future__ import annotations

import re

from gitsync.objects.manifest import Manifest, labels_of, metadata_of
from gitsync.sandbox import errors
from gitsync.sandbox.admission.attributes import CREATE, UPDATE, Attributes
from gitsync.sandbox.admission.pod_security import LEVELS, PREFIX, violations
from gitsync.sandbox.controllers.client import ControllerClient
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import invalid

_MODES = ("audit", "enforce", "warn")
_VERSION = re.compile(r"latest|v1\.\d+")
_REASON = re.compile(r" \([^()]*(?:\([^()]*\)[^()]*)*\)")


def check_labels(api: ControllerClient, attributes: Attributes) -> None:
    """Refuse labels that name no standard; warn of pods below the one that is newly enforced."""
    if not attributes.is_of("", "Namespace") or attributes.subresource or attributes.obj is None:
        return
    if attributes.operation not in (CREATE, UPDATE):
        return
    labels = labels_of(attributes.obj)
    before = labels_of(attributes.old) if attributes.old is not None else {}
    changed = {name for name in labels if name.startswith(PREFIX) and labels[name] != before.get(name)}
    causes = [cause for name in sorted(changed) for cause in _problems(name, labels[name])]
    if causes:
        raise errors.invalid("Namespace", "", attributes.name, causes)
    if attributes.operation == UPDATE and f"{PREFIX}enforce" in changed:
        _warn_of_pods(api, attributes, labels)


def _problems(label: str, value: str) -> list[Cause]:
    mode, _, version = label.removeprefix(PREFIX).partition("-")
    field = f"metadata.labels[{label}]"
    if mode not in _MODES:
        return []
    if not version:
        return [] if value in LEVELS else [invalid(field, value, f"must be one of {', '.join(LEVELS)}")]
    return [] if _VERSION.fullmatch(value) else [invalid(field, value, 'must be "latest" or "v1.x"')]


def _warn_of_pods(api: ControllerClient, attributes: Attributes, labels: dict[str, str]) -> None:
    level = labels[f"{PREFIX}enforce"]
    found: dict[str, list[str]] = {}
    for pod in api.list("", "Pod", attributes.name):
        text = _REASON.sub("", violations(level, pod["spec"]))
        if text:
            found.setdefault(text, []).append(_name(pod))
    if not found:
        return
    version = labels.get(f"{PREFIX}enforce-version", "latest")
    attributes.warnings.append(
        f'existing pods in namespace "{attributes.name}" violate the new PodSecurity enforce level "{level}:{version}"'
    )
    for text, names in found.items():
        others = len(names) - 1
        more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
        attributes.warnings.append(f"{sorted(names)[0]}{more}: {text}")


def _name(pod: Manifest) -> str:
    return str(metadata_of(pod)["name"])
