"""Defaults of pods and pod templates. Every function changes the private copy it is given."""

from __future__ import annotations

import re
from typing import Any

from gitsync.objects.manifest import Manifest

_VOLUME_SOURCES_WITH_MODE = ("configMap", "secret", "downwardAPI", "projected")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?"
# github.com/distribution/reference: a reference is a domain, path parts, a tag and a digest.
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z0-9+._-]+:[0-9a-fA-F]{{32,}})?"
)
# distribution/reference: NameTotalLengthMax, without tag and digest.
_LONGEST_NAME = 255
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod_spec(spec: dict[str, Any]) -> None:
    """Fill in what every pod spec gets, in a template or not."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    # Templates get it too, so a Deployment read back differs from what was applied.
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    _mirror_service_account(spec)
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            _default_container(container)
    for volume in spec.get("volumes", ()):
        default_volume(volume)


def default_template(template: dict[str, Any]) -> None:
    """Fill in a pod template."""
    default_pod_spec(template.setdefault("spec", {}))


def default_pod(pod: Manifest) -> None:
    """Fill in a Pod: a template's defaults, and those that only pods get."""
    spec = pod.setdefault("spec", {})
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or ():
            # Requests come from limits in a Pod, never in a template (SetDefaults_Pod).
            resources = container.get("resources", {})
            limits = resources.get("limits")
            if limits:
                requests = resources.setdefault("requests", {})
                for resource, quantity in limits.items():
                    # Resource by resource: a limit of memory leaves a given request of cpu alone.
                    requests.setdefault(resource, quantity)
            if spec.get("hostNetwork"):
                # With the node's network the container port is the host port.
                for port in container.get("ports", ()):
                    port.setdefault("hostPort", port["containerPort"])
    # After the requests: the order is that of the registered defaulting functions.
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)


def _mirror_service_account(spec: dict[str, Any]) -> None:
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        # Old clients read the deprecated name, so both are stored.
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _default_container(container: dict[str, Any]) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    # The policy follows the image only when it is defaulted: a later change of the image keeps it.
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env", ()):
        field = variable.get("valueFrom", {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http(hook["httpGet"])


def _pull_policy(image: str) -> str:
    """Return Always for the tag latest, or without tag and digest; IfNotPresent for an invalid image."""
    # The parser fails for it, and SetDefaults_Container then takes the empty tag as not latest.
    if not _IMAGE.fullmatch(image):
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    repository, _, tag = last.partition(":")
    if len(f"{folder}{slash}{repository}") > _LONGEST_NAME:
        return "IfNotPresent"
    # An image by digest never changes.
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _default_probe(probe: dict[str, Any]) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(action: dict[str, Any]) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def default_volume(volume: dict[str, Any]) -> None:
    """Fill in a volume; one without a source becomes an emptyDir."""
    # Only the name: pods of the first API version had no sources.
    if len(volume) == 1:
        volume["emptyDir"] = {}
        return
    for name in _VOLUME_SOURCES_WITH_MODE:
        if name in volume:
            # 0644 as a decimal, which is what JSON has.
            volume[name].setdefault("defaultMode", 420)
    _default_items(volume.get("downwardAPI", {}))
    for source in volume.get("projected", {}).get("sources", ()):
        _default_items(source.get("downwardAPI", {}))
        if "serviceAccountToken" in source:
            # One hour; kubelets renew tokens at 80 % of their life.
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        if "podCertificate" in source:
            # One day.
            source["podCertificate"].setdefault("maxExpirationSeconds", 86400)
    if "image" in volume and "pullPolicy" not in volume["image"]:
        volume["image"]["pullPolicy"] = _pull_policy(volume["image"].get("reference", ""))
    if "ephemeral" in volume and "volumeClaimTemplate" in volume["ephemeral"]:
        volume["ephemeral"]["volumeClaimTemplate"]["spec"].setdefault("volumeMode", "Filesystem")
    default_host_path(volume)
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")


def default_host_path(source: dict[str, Any]) -> None:
    """Fill in the type of a hostPath, in a volume or a PersistentVolume."""
    if "hostPath" in source:
        source["hostPath"].setdefault("type", "")


def _default_items(source: dict[str, Any]) -> None:
    for item in source.get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
