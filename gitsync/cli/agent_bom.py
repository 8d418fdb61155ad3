"""The bill of materials of the agents of a folder: image, model, prompt, tools and contract, as Git declares them."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gitsync.agents.contract.canonical import digest_of
from gitsync.agents.contract.lock import LOCK_FILE, AgentContract, ContractLock, parse_lock
from gitsync.agents.expansion.config import tool_url
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.keys import SYSTEM_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.cli.agent_contracts import agents_of, in_namespace
from gitsync.cli.builds import BuildOptions
from gitsync.cli.output import Format, show
from gitsync.errors import InvalidInput
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.tree import Entry
from gitsync.render.build import Build
from gitsync.render.provenance.trace import place, trace
from gitsync.render.yaml.reader import read_all
from gitsync.source.local import LocalTarget, last_commit, open_path, repository_of
from gitsync.workers import protocol

_COLUMNS: Final = ("agent", "image", "digest", "model", "prompt", "commit", "tools", "contract")
_SHOWN: Final = 12
"""Characters of a digest or commit in a table, as in other tables."""


@dataclass(frozen=True, slots=True)
class _Materials:
    """What a folder declares: its build, ConfigMaps, lock and path in the tree, and the Git folder if there is one."""

    build: Build
    folder: str
    git_dir: Path | None
    lock: ContractLock
    agents: tuple[Agent, ...]
    config_maps: Mapping[ObjectRef, Manifest] = field(default_factory=dict)


def bom_rows(path: str, name: str, namespace: str) -> list[dict[str, Any]]:
    """
    Return a row for each Agent of a folder, members of systems too; raise InvalidInput where there is none.

    In Git it is what HEAD has, so that texts and their commits agree; elsewhere what is on disk, without commits.
    """
    materials = _read(path, namespace)
    rows = [_row(agent, materials) for agent in materials.agents if name in ("", agent.name)]
    if not rows:
        raise InvalidInput(f"no Agent{f' {name}' if name else ''}", location=path, hint="name a folder with Agents")
    return rows


def show_bom(rows: Sequence[Mapping[str, Any]], output: Format) -> None:
    """Print the rows; JSON and YAML have all of them, a table short digests and names."""
    is_document = output in (Format.JSON, Format.YAML)
    show(rows if is_document else map(_cells, rows), _COLUMNS, output, key="agent")


def _read(path: str, namespace: str) -> _Materials:
    git_dir = repository_of(Path(path))[1]
    target = open_path(path, "HEAD" if git_dir else "")
    build = BuildOptions().render(target, provenance=True)
    manifests = [in_namespace(protocol.as_received(manifest), namespace) for manifest in build.manifests]
    return _Materials(
        build,
        target.path,
        git_dir,
        _lock(target),
        tuple(agents_of(manifests)),
        {ref_of(manifest): manifest for manifest in manifests if manifest.get("kind") == "ConfigMap"},
    )


def _lock(target: LocalTarget) -> ContractLock:
    file = posixpath.join(target.path, LOCK_FILE)
    if target.tree.entry(file) is not Entry.FILE:
        return ContractLock()
    documents = list(read_all(target.tree.read(file), file))
    return parse_lock(documents[0] if len(documents) == 1 else None, file)


def _row(agent: Agent, materials: _Materials) -> dict[str, Any]:
    key = f"{agent.namespace}/{agent.name}"
    image, _, digest = agent.spec.runtime.image.partition("@")
    models = (agent.spec.model, *agent.spec.model.fallbacks)
    return {
        "agent": key,
        "image": image,
        "digest": digest,
        "models": [{"provider": model.provider, "id": model.id, "endpoint": model.endpoint or ""} for model in models],
        "prompt": _prompt(agent, materials),
        "tools": [
            {
                "name": tool.name,
                "type": tool.type,
                "url": tool_url(agent, tool, Facts()),
                # None: all that the server has
                "allow": None if tool.allow is None else sorted(tool.allow),
            }
            for tool in agent.spec.tools
        ],
        "contract": list(_contract(materials.lock.agents.get(key, AgentContract()))),
    }


def _prompt(agent: Agent, materials: _Materials) -> dict[str, str]:
    """Return the digest of a prompt, its file, and the commit that changed the file last; empty without a prompt."""
    prompt = agent.spec.prompt
    if prompt is None:
        return {}
    text = prompt.text
    ref = agent.ref
    path = ".spec.prompt.text"
    if prompt.config_map_key_ref is not None:
        source = prompt.config_map_key_ref
        ref = ObjectRef("", "ConfigMap", agent.namespace, source.name)
        path = f'.data["{source.key}"]'
        text = at(materials.config_maps.get(ref), "data", source.key)
    elif system := agent.labels.get(SYSTEM_LABEL):
        # The member may have it from the defaults, so the object as a whole is what declares it.
        ref = ObjectRef(AGENTS_GROUP, "MultiAgentSystem", agent.namespace, system)
        path = ""
    if not isinstance(text, str):
        # The folder does not have it, such as a prompt that is written in the cluster.
        return {"source": str(ref)}
    where = place(trace(materials.build, {ref: [path]}).get(ref, {}).get(path, ()))
    file = where.rpartition(":")[0] or where
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    if materials.git_dir is None:
        # The tree is the whole disk there, and its paths are of no use to others.
        return {"digest": digest, "file": posixpath.relpath(file, materials.folder) if file else "", "commit": ""}
    return {"digest": digest, "file": file, "commit": last_commit(materials.git_dir, file) if file else ""}


def _contract(contract: AgentContract) -> Iterator[dict[str, str]]:
    """Yield the digest of each dependency in the lock."""
    for kind, parts in (("server", contract.servers), ("peer", contract.peers), ("model", contract.models)):
        for name, part in parts.items():
            yield {"kind": kind, "name": name, "digest": digest_of(part.model_dump(mode="json", by_alias=True))}


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    prompt = row["prompt"]
    return {
        "agent": row["agent"],
        "image": row["image"],
        "digest": _short(row["digest"]),
        "model": [model["id"] for model in row["models"]],
        "prompt": _short(prompt.get("digest", "")) or prompt.get("source", ""),
        "commit": prompt.get("commit", "")[:_SHOWN],
        "tools": [tool["name"] for tool in row["tools"]],
        "contract": [f"{part['name']} {_short(part['digest'])}" for part in row["contract"]],
    }


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_SHOWN]
