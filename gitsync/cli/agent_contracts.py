"""Lock what the agents of a folder depend on, and compare it with the lock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from gitsync.agents.contract.dependencies import Dependencies, dependencies
from gitsync.agents.contract.differences import ContractDifference, DriftKind, differences, drift_report
from gitsync.agents.contract.lock import LOCK_FILE, AgentContract, ContractLock, parse_lock
from gitsync.agents.contract.series import ProbeResult
from gitsync.agents.expansion.config import config_data
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.model.system import parse_system
from gitsync.agents.systems.expansion import member_agent
from gitsync.cli.builds import BuildOptions
from gitsync.cli.output import Exit, Format, say, show
from gitsync.errors import InvalidInput
from gitsync.files import PUBLIC, write_file
from gitsync.integrations.contract_probe import ContractObservation, probe
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write
from gitsync.source.local import open_path
from gitsync.workers import protocol

_COLUMNS: Final = ("agent", "place", "class", "difference", "details")
_SUMMARY_BYTES: Final = 4000
"""Kubernetes keeps 4096 bytes of a termination message."""


@dataclass(frozen=True, slots=True)
class DependentAgent:
    """An agent as ``namespace/name``, what it depends on, and its image."""

    key: str
    needed: Dependencies
    image: str = ""


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """The observation of one agent, and how it differs from the lock."""

    agent: DependentAgent
    observation: ContractObservation
    differences: tuple[ContractDifference, ...] = field(default=())


def agents_of_folder(path: str, name: str, namespace: str) -> list[DependentAgent]:
    """Return the Agents that a folder renders to, members of systems too; raise InvalidInput where there is none."""
    rendered = BuildOptions().render(open_path(path)).manifests
    agents = list(agents_of([in_namespace(protocol.as_received(manifest), namespace) for manifest in rendered]))
    ports = {agent.name: agent.spec.runtime.port for agent in agents}
    chosen = [_dependent(agent, ports) for agent in agents if name in ("", agent.name)]
    if not chosen:
        raise InvalidInput(f"no Agent{f' {name}' if name else ''}", location=path, hint="name a folder with Agents")
    return chosen


def agent_of_config(config: Path, key: str) -> DependentAgent:
    """Return the agent of a configuration, as its Pods have it."""
    return DependentAgent(key, dependencies(json.loads(config.read_text(encoding="utf-8"))))


def read_lock(file: Path) -> ContractLock:
    """Return the lock of a file, an empty one where it does not exist."""
    if not file.exists():
        return ContractLock()
    documents = list(read_all(file.read_text(encoding="utf-8"), str(file)))
    return parse_lock(documents[0] if len(documents) == 1 else None, str(file))


def lock_file(path: str) -> Path:
    """Return the lock beside the manifests of a folder."""
    return Path(path) / LOCK_FILE


def observe(agents: Sequence[DependentAgent], lock: ContractLock, urls: Mapping[str, str]) -> list[ContractCheck]:
    """Return what the agents depend on now, and how it differs from the lock."""
    checks = []
    for agent in agents:
        observation = probe(agent.needed, os.environ, agent.image, urls)
        locked = lock.agents.get(agent.key, AgentContract())
        checks.append(ContractCheck(agent, observation, differences(locked, observation.contract, agent.needed)))
    return checks


def write_lock(file: Path, lock: ContractLock, checks: Sequence[ContractCheck], *, is_whole: bool) -> Exit:
    """
    Write what was observed; what did not answer keeps its entry.

    With ``is_whole`` the checks are of all agents of the folder, and entries of others go.
    """
    observed = {check.agent.key: _kept(lock.agents.get(check.agent.key), check.observation) for check in checks}
    updated = ContractLock(agents=observed if is_whole else {**lock.agents, **observed})
    write_file(file, write(updated.to_document()).encode(), PUBLIC)
    count = sum(len(contract.servers) + len(contract.peers) + len(contract.models) for contract in observed.values())
    say(f"{file}: agents: {len(observed)}, dependencies: {count}")
    # No lock can end this one: the name in the spec has to change.
    for check in checks:
        for difference in check.differences:
            if difference.kind is DriftKind.TOOL_ABSENT:
                say(f"{check.agent.key}: {difference}", is_warning=True)
    return _report_unreachable(checks)


def report_check(checks: Sequence[ContractCheck], output: Format) -> Exit:
    """Print the differences from the lock, the most dangerous first."""
    rows = [{"agent": check.agent.key, **difference.to_row()} for check in checks for difference in check.differences]
    show(rows, _COLUMNS, output, key=("agent", "place"))
    unreachable = _report_unreachable(checks)
    # A difference is certain, and what did not answer does not hide it.
    return Exit.DIFFERENT if rows else unreachable


def show_contract(agent: Manifest, output: Format) -> Exit:
    """Print the last comparison in the status of an Agent; raise InvalidInput for one that has none."""
    compared = at(agent, "status", "contract", default={})
    if not compared:
        hint = "set spec.contract, see docs/contracts.md"
        raise InvalidInput("has not been compared with a lock", object=str(ref_of(agent)), hint=hint)
    show(compared.get("differences") or (), _COLUMNS[1:], output, key="place")
    if output is Format.TABLE:
        hidden = int(compared.get("count", 0)) - len(compared.get("differences") or ())
        more = f", {hidden} more differences are not stored" if hidden else ""
        say(f"{compared['result']} at {compared['finishedAt']}{more}")
    for place in compared.get("unreachable") or ():
        say(f"no answer: {place}", is_warning=True)
    return Exit.DIFFERENT if compared.get("result") == ProbeResult.DRIFTED.value else Exit.OK


def write_summary(file: Path, check: ContractCheck) -> None:
    """Write the report of one agent as JSON, as a termination message."""
    # In place: the termination log of a Pod is a mounted file, which no rename can replace.
    file.write_bytes(orjson.dumps(drift_report(check.differences, check.observation.unreachable, _SUMMARY_BYTES)))


def _report_unreachable(checks: Sequence[ContractCheck]) -> Exit:
    failures = [(check.agent.key, *item) for check in checks for item in check.observation.unreachable.items()]
    for key, place, message in failures:
        say(f"{key}: {place}: {message}", is_warning=True)
    return Exit.UNAVAILABLE if failures else Exit.OK


def _kept(locked: AgentContract | None, observation: ContractObservation) -> AgentContract:
    """Return an observation with the locked entries of what did not answer."""
    if locked is None:
        return observation.contract
    observed = observation.contract

    def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: old[name] for name in old if name in observation.unreachable}, **new}

    return AgentContract(
        image=observed.image,
        servers=merged(locked.servers, observed.servers),
        peers=merged(locked.peers, observed.peers),
        models=merged(locked.models, observed.models),
    )


def agents_of(manifests: Sequence[Manifest]) -> Iterator[Agent]:
    """Yield the Agents among manifests, inline members of systems too."""
    for manifest in manifests:
        if manifest.get("kind") == "Agent":
            yield parse_agent(manifest)
        elif manifest.get("kind") == "MultiAgentSystem":
            system = parse_system(manifest)
            yield from (parse_agent(member_agent(system, member)) for member in system.spec.agents if member.template)


def in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """Return a manifest in its own namespace, or in this one where it declares none."""
    metadata = metadata_of(manifest)
    return manifest if metadata.get("namespace") else {**manifest, "metadata": {**metadata, "namespace": namespace}}


def _dependent(agent: Agent, ports: Mapping[str, int]) -> DependentAgent:
    config = json.loads(config_data(agent, Facts(ports=ports))["agent.json"])
    image, _, digest = agent.spec.runtime.image.partition("@")
    return DependentAgent(
        f"{agent.namespace}/{agent.name}", dependencies(config), f"{image}@{digest}" if digest else ""
    )
