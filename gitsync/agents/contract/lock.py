"""
``contracts.lock``: the tools, peers, models and image that agents depend on, as they were when they were reviewed.

Definitions are stored in full, beside their digests, so that a reviewer reads in a pull request what a model will read.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from gitsync.agents.contract.canonical import digest_of
from gitsync.agents.contract.schemas import in_order
from gitsync.errors import InvalidInput
from gitsync.kube.model import FreeForm
from gitsync.objects.parsing import Section, parse_spec

LOCK_FILE: Final = "contracts.lock"
_HINT: Final = "gitsync agent lock writes it"
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]

_VOLATILE: Final = frozenset({"created", "permission", "permissions"})
"""Members of a model in ``/v1/models`` that a restart changes: vLLM and llama.cpp set them again."""


class ToolContract(Section):
    """A tool of an MCP server: what a model reads about it."""

    digest: Digest
    title: str = ""
    description: str = ""
    input_schema: FreeForm = Field(default_factory=dict)
    output_schema: FreeForm | None = None
    annotations: FreeForm = Field(default_factory=dict)

    @property
    def definition(self) -> dict[str, Any]:
        """What the digest is of, besides the name."""
        return {
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
        }


class ServerContract(Section):
    """An MCP server: its address, what it tells models in general, and its tools by name."""

    url: str
    name: str = ""
    instructions: str = ""
    tools: dict[str, ToolContract] = Field(default_factory=dict)


class PeerContract(Section):
    """Another agent: its address and its A2A card."""

    url: str
    digest: Digest
    card: FreeForm


class ModelContract(Section):
    """
    What identifies a model behind an OpenAI-compatible endpoint.

    ``entry`` is its entry in ``/v1/models`` without what a restart changes, ``served`` the model that a completion
    names, ``fingerprint`` its ``system_fingerprint``, and ``reply`` the members of a completion.
    """

    id: str
    endpoint: str = ""
    entry: FreeForm = Field(default_factory=dict)
    served: str = ""
    fingerprint: str = ""
    reply: Annotated[tuple[str, ...], Field(strict=False)] = ()


class AgentContract(Section):
    """What one agent depends on, by the names that its spec has for them."""

    image: str = ""
    servers: dict[str, ServerContract] = Field(default_factory=dict)
    peers: dict[str, PeerContract] = Field(default_factory=dict)
    models: dict[str, ModelContract] = Field(default_factory=dict)


class ContractLock(Section):
    """The contracts of the agents of a folder, by ``namespace/name``."""

    version: Literal[1] = 1
    agents: dict[str, AgentContract] = Field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return the members of the file; what is not set is absent."""
        document: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return {"version": self.version, **document}


def parse_lock(document: object, place: str) -> ContractLock:
    """Return the lock of a document; raise InvalidInput for one that is not valid, or whose digests do not match."""
    if not isinstance(document, dict):
        raise InvalidInput("not a lock of contracts", location=place, hint=_HINT)
    lock = parse_spec(ContractLock, document, place)
    for agent, contract in lock.agents.items():
        for server_name, server in contract.servers.items():
            for name, tool in server.tools.items():
                # Without this, a definition could be edited while the digest looks as it was reviewed.
                if tool.digest != digest_of({"name": name, **tool.definition}):
                    where = f"{place}: agents.{agent}.servers.{server_name}.tools.{name}"
                    raise InvalidInput("the digest is not that of the definition", location=where, hint=_HINT)
        for name, peer in contract.peers.items():
            if peer.digest != digest_of(peer.card):
                where = f"{place}: agents.{agent}.peers.{name}"
                raise InvalidInput("the digest is not that of the card", location=where, hint=_HINT)
    return lock


def locked_tool(listed: dict[str, Any]) -> tuple[str, ToolContract]:
    """Return name and contract of a tool as an MCP server lists it; raise InvalidInput where it is not one."""
    name = listed.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput("a tool has no name")
    members = {
        "title": str(listed.get("title") or ""),
        "description": str(listed.get("description") or ""),
        # Without the order of what is a set, so that the digest is the same after a harmless re-ordering.
        "inputSchema": in_order(listed.get("inputSchema") or {}),
        "outputSchema": in_order(listed["outputSchema"]) if listed.get("outputSchema") is not None else None,
        "annotations": listed.get("annotations") or {},
    }
    return name, parse_spec(ToolContract, {**members, "digest": digest_of({"name": name, **members})}, f"tool {name}")


def locked_card(url: str, card: dict[str, Any]) -> PeerContract:
    """Return the contract of a peer with this card."""
    # Signatures have a time, and are renewed by each deployment.
    content = {name: value for name, value in card.items() if name != "signatures"}
    return PeerContract(url=url, digest=digest_of(content), card=content)


def identity_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of ``/v1/models`` without what a restart changes."""
    return {name: value for name, value in entry.items() if name not in _VOLATILE}
