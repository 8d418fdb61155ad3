"""References of an Agent to Secrets, ConfigMaps and other Agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gitsync.agents.expansion.variables import databases
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.runtime import EnvVar
from gitsync.objects.manifest import Manifest


class Reference(NamedTuple):
    """An object that a spec names: its kind, name and member, and whether its content is copied into a revision."""

    kind: str
    name: str
    key: str = ""
    is_copied: bool = False


def references(agent: Agent) -> tuple[Reference, ...]:
    """Return what the spec names, each once, sorted."""
    return tuple(sorted(set(_all(agent))))


def _all(agent: Agent) -> Iterator[Reference]:
    spec = agent.spec
    for model in (spec.model, *spec.model.fallbacks):
        if model.credentials is not None:
            yield Reference("Secret", model.credentials.secret_key_ref.name, model.credentials.secret_key_ref.key)
    if spec.prompt is not None and (prompt := spec.prompt.config_map_key_ref) is not None:
        yield Reference("ConfigMap", prompt.name, prompt.key, is_copied=True)
    if spec.evaluation is not None:
        # Pods of the agent do not read these: a change of them must not replace Pods.
        yield Reference("ConfigMap", spec.evaluation.cases.name, spec.evaluation.cases.key, is_copied=True)
        if spec.evaluation.judge is not None and (signin := spec.evaluation.judge.credentials) is not None:
            yield Reference("Secret", signin.secret_key_ref.name, signin.secret_key_ref.key, is_copied=True)
    if spec.contract is not None:
        yield Reference("ConfigMap", spec.contract.lock.name, spec.contract.lock.key, is_copied=True)
    if spec.budget is not None and spec.budget.prices is not None:
        yield Reference("ConfigMap", spec.budget.prices.name, spec.budget.prices.key, is_copied=True)
    for tool in spec.tools:
        yield from (
            Reference("Secret", header.secret_key_ref.name, header.secret_key_ref.key) for header in tool.headers_from
        )
        if tool.agent_ref is not None:
            yield Reference("Agent", tool.agent_ref.name)
    for database in databases(agent):
        if database.credentials is not None:
            secret = database.credentials.secret_ref
            yield from (
                Reference("Secret", secret.name, key) for key in (secret.username_key, secret.password_key) if key
            )
        if database.tls is not None and (ca := database.tls.ca_secret_key_ref) is not None:
            yield Reference("Secret", ca.name, ca.key)
    yield from (Reference("Secret", secret.name) for secret in spec.runtime.image_pull_secrets)
    steps = spec.lifecycle.init if spec.lifecycle else ()
    for env_vars in (
        spec.runtime.env,
        *(sidecar.env for sidecar in spec.runtime.sidecars),
        *(step.env for step in steps),
    ):
        yield from (reference for variable in env_vars for reference in _of_variable(variable))


def _of_variable(variable: EnvVar) -> Iterator[Reference]:
    source = variable.value_from
    if source is not None and source.secret_key_ref is not None:
        yield Reference("Secret", source.secret_key_ref.name, source.secret_key_ref.key)
    if source is not None and source.config_map_key_ref is not None:
        yield Reference("ConfigMap", source.config_map_key_ref.name, source.config_map_key_ref.key)


def named_objects(manifest: Manifest) -> frozenset[str]:
    """Return all texts of a spec that may be names of objects; a superset is enough to know whom a change concerns."""
    names: set[str] = set()
    pending: list[Any] = [manifest.get("spec")]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            # Only members called ``name``: a reference has one, whatever its kind.
            if isinstance(name := value.get("name"), str):
                names.add(name)
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return frozenset(names)
