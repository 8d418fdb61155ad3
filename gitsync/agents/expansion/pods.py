"""The Pod template of an Agent, and its containers."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.election import mounts_token, service_account_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.variables import user_variables, variables
from gitsync.agents.expansion.volumes import mounts, pod_volumes
from gitsync.agents.keys import AGENT_LABEL, REFERENCES_ANNOTATION, RESTARTED_AT, compact, labels_for
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.runtime import DrainCall, InitStep, Probe, Resources, Sidecar
from gitsync.agents.model.tools import ModelCache
from gitsync.objects.manifest import Manifest

_KILL_DELAY = 10
"""Seconds between the end of a drain and the end of the Pod."""
_TOPOLOGY = {"Host": "kubernetes.io/hostname", "Zone": "topology.kubernetes.io/zone"}


def pod_template(agent: Agent, facts: Facts, config: str) -> Manifest:
    """Return the template of Pods with the configuration of this name; its revision and track are added later."""
    marks = {REFERENCES_ANNOTATION: facts.references, RESTARTED_AT: facts.restarted_at}
    return {
        "metadata": compact({"labels": labels_for(agent), "annotations": compact(marks)}),
        "spec": _spec(agent, facts, config),
    }


def _spec(agent: Agent, facts: Facts, config: str) -> dict[str, Any]:
    runtime = agent.spec.runtime
    # Before Kubernetes 1.29 an init container with restartPolicy Always would block the start.
    beside = [] if facts.has_native_sidecars else sidecars(agent, facts)
    return {
        **compact(
            {
                "serviceAccountName": service_account_name(agent),
                "imagePullSecrets": [{"name": secret.name} for secret in runtime.image_pull_secrets],
                "runtimeClassName": runtime.runtime_class_name,
                "priorityClassName": runtime.priority_class_name,
                "nodeSelector": dict(runtime.node_selector),
                "tolerations": [
                    toleration.model_dump(mode="json", by_alias=True, exclude_none=True)
                    for toleration in runtime.tolerations
                ],
                "topologySpreadConstraints": _spread(agent),
                "terminationGracePeriodSeconds": grace_period(
                    agent.spec.lifecycle.drain if agent.spec.lifecycle else None
                ),
                "securityContext": _security(agent),
                "initContainers": first_containers(agent, facts),
                "containers": [agent_container(agent, facts), *beside],
                "volumes": pod_volumes(agent, facts, config),
            }
        ),
        # Outside compact: false has to be written, since the default of the API server is true.
        "automountServiceAccountToken": mounts_token(agent),
    }


def _spread(agent: Agent) -> list[dict[str, Any]]:
    # Topologies by the well-known labels of nodes (kubernetes.io, "Well-Known Labels").
    key = _TOPOLOGY.get(agent.spec.runtime.topology_spread)
    if key is None:
        return []
    selector = {"matchLabels": {AGENT_LABEL: agent.name}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]


def grace_period(drain: DrainCall | None) -> int | None:
    """Return the seconds that a Pod has to end, None for the default of the API server."""
    # The grace period includes the preStop hook; without more time the process gets no SIGTERM of its own.
    return drain.timeout_seconds + _KILL_DELAY if drain else None


def _security(agent: Agent) -> dict[str, Any] | None:
    profile = agent.spec.runtime.security_context.profile
    # No security context at all: the defaults of the cluster apply.
    if profile == "Privileged":
        return None
    # Baseline does not demand another user than root, and many images have none.
    restricted = {"runAsNonRoot": True} if profile == "Restricted" else {}
    return {**restricted, "seccompProfile": {"type": "RuntimeDefault"}}


Container = dict[str, Any]

_DOWNLOADS = {
    "oci": 'oras blob fetch --output "$TARGET/.download" "${SOURCE#oci://}@sha256:$SHA256"',
    "s3": 'rclone copyto ":s3:${SOURCE#s3://}" "$TARGET/.download" --s3-env-auth',
    "gs": 'rclone copyto ":gcs:${SOURCE#gs://}" "$TARGET/.download" --gcs-env-auth',
}
# --fail: an error page would otherwise be checked as a download, and its digest reported.
_HTTP = 'curl --fail --location --silent --show-error --output "$TARGET/.download" "$SOURCE"'
_SCRIPT = """set -eu
[ -e "$TARGET/.$SHA256" ] && exit 0
{download}
echo "$SHA256  $TARGET/.download" | sha256sum -c -
mv "$TARGET/.download" "$TARGET/{file}"
touch "$TARGET/.$SHA256"
"""


def agent_container(agent: Agent, facts: Facts) -> Container:
    """Return the container of the agent itself."""
    runtime = agent.spec.runtime
    lifecycle = agent.spec.lifecycle
    drain = lifecycle.drain if lifecycle else None
    return compact(
        {
            "name": "agent",
            "image": runtime.image,
            "imagePullPolicy": runtime.image_pull_policy,
            "command": list(runtime.command),
            "args": list(runtime.args),
            "ports": _ports(agent),
            "env": variables(agent, facts),
            "resources": resources(runtime.resources),
            **_probes(agent),
            "lifecycle": {"preStop": pre_stop(drain, runtime.port)} if drain else None,
            "securityContext": security(agent),
            "volumeMounts": mounts(agent, facts),
        }
    )


def first_containers(agent: Agent, facts: Facts) -> list[Container]:
    """Return the init containers in order: the model cache, the steps of the spec, and native sidecars."""
    containers = []
    if agent.spec.model.cache is not None:
        containers.append(_model_cache(agent, agent.spec.model.cache, facts))
    if agent.spec.lifecycle is not None:
        containers += [_init(agent, step, facts) for step in agent.spec.lifecycle.init]
    if facts.has_native_sidecars:
        containers += [{**sidecar, "restartPolicy": "Always"} for sidecar in sidecars(agent, facts)]
    return containers


def sidecars(agent: Agent, facts: Facts) -> list[Container]:
    """Return the containers beside the agent's."""
    containers = [_sidecar(agent, sidecar) for sidecar in agent.spec.runtime.sidecars]
    tracing = agent.spec.observability.tracing
    if tracing is not None and tracing.injection == "Sidecar":
        containers.append(_collector(agent, tracing.endpoint, facts))
    return containers


def security(agent: Agent) -> dict[str, Any] | None:
    """Return the security context of a container, as its pod security standard demands."""
    if agent.spec.runtime.security_context.profile != "Restricted":
        return None
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def resources(wanted: Resources) -> dict[str, Any]:
    """Return resources as a container has them."""
    return compact({"requests": dict(wanted.requests), "limits": dict(wanted.limits)})


def pre_stop(drain: DrainCall, port: int) -> dict[str, Any] | None:
    """
    Return the hook that drains a Pod.

    A hook of Kubernetes sends GET requests only; another method is named by the header that web frameworks read for it.
    """
    if drain.exec is not None:
        return {"exec": {"command": list(drain.exec.command)}}
    if drain.http is None:
        # The sleep action needs Kubernetes 1.30 and no shell in the image.
        return {"sleep": {"seconds": drain.timeout_seconds}}
    headers = [{"name": "X-HTTP-Method-Override", "value": drain.http.method}]
    return {
        "httpGet": compact(
            {"path": drain.http.path, "port": port, "httpHeaders": headers if drain.http.method != "GET" else None}
        )
    }


def _ports(agent: Agent) -> list[dict[str, Any]]:
    port = agent.spec.runtime.port
    metrics = agent.spec.observability.metrics
    ports: list[dict[str, Any]] = [{"name": "http", "containerPort": port, "protocol": "TCP"}]
    # Two container ports with one number are refused by some admission controllers.
    if metrics is not None and metrics.port != port:
        ports.append({"name": "metrics", "containerPort": metrics.port, "protocol": "TCP"})
    return ports


def _probes(agent: Agent) -> dict[str, Any]:
    probes = agent.spec.runtime.probes
    port = agent.spec.runtime.port
    by_field = {"startupProbe": probes.startup, "readinessProbe": probes.readiness, "livenessProbe": probes.liveness}
    return {name: _probe(probe, port) for name, probe in by_field.items() if probe is not None}


def _probe(probe: Probe, port: int) -> dict[str, Any]:
    members = probe.model_dump(mode="json", by_alias=True, exclude_none=True)
    if probe.http_get is not None:
        members["httpGet"] = {"path": probe.http_get.path, "port": probe.http_get.port or port}
    return members


def _model_cache(agent: Agent, cache: ModelCache, facts: Facts) -> Container:
    scheme = cache.source.partition("://")[0]
    file = cache.source.rpartition("/")[2].partition(":")[0]
    images = {"oci": facts.images.oci, "s3": facts.images.buckets, "gs": facts.images.buckets}
    script = _SCRIPT.format(download=_DOWNLOADS.get(scheme, _HTTP), file=file)
    variables = {"SOURCE": cache.source, "SHA256": cache.sha256, "TARGET": cache.mount_path}
    if scheme == "oci" and ":" in cache.source.rpartition("/")[2]:
        variables["SOURCE"] = cache.source.rpartition(":")[0]  # the digest names the content, whatever the tag
    return compact(
        {
            "name": "model-cache",
            "image": images.get(scheme, facts.images.http),
            # The timeout of coreutils and busybox; init containers have no deadline of their own.
            "command": ["timeout", str(cache.timeout_seconds), "sh", "-c", script],
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "securityContext": security(agent),
            "volumeMounts": [{"name": cache.volume, "mountPath": cache.mount_path}],
        }
    )


def _init(agent: Agent, step: InitStep, facts: Facts) -> Container:
    return compact(
        {
            "name": step.name,
            "image": step.image or agent.spec.runtime.image,
            "command": [*(["timeout", str(step.timeout_seconds)] if step.timeout_seconds else []), *step.command],
            "env": variables(agent, facts) + user_variables(step.env),
            "securityContext": security(agent),
            "volumeMounts": mounts(agent, facts),
        }
    )


def _sidecar(agent: Agent, sidecar: Sidecar) -> Container:
    return compact(
        {
            "name": sidecar.name,
            "image": sidecar.image,
            "command": list(sidecar.command),
            "args": list(sidecar.args),
            "env": user_variables(sidecar.env),
            "ports": [{"containerPort": port, "protocol": "TCP"} for port in sidecar.ports],
            "resources": resources(sidecar.resources),
            "securityContext": security(agent),
        }
    )


def _collector(agent: Agent, endpoint: str, facts: Facts) -> Container:
    config = (
        "receivers: {otlp: {protocols: {grpc: {endpoint: localhost:4317}}}}\n"
        f"exporters: {{otlp: {{endpoint: '{endpoint}'}}}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp]}}}\n"
    )
    return compact(
        {
            "name": "otel-collector",
            "image": facts.images.collector,
            # The collector reads its configuration from a variable, so it needs no ConfigMap.
            "args": ["--config=env:COLLECTOR_CONFIG"],
            "env": [{"name": "COLLECTOR_CONFIG", "value": config}],
            "securityContext": security(agent),
        }
    )
