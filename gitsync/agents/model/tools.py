"""What an Agent may call, and what it remembers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import LocalRef, Name, ObjectName, Port, Seconds, SecretKeyRef
from gitsync.agents.model.llm import Endpoint
from gitsync.kube.model import Rule, Ruled
from gitsync.objects.parsing import Section, Text

ToolNames = Annotated[tuple[Annotated[Text, Field(max_length=128)], ...], Field(strict=False, max_length=256)]


class ServiceAddress(Section):
    """A Service of the same namespace."""

    name: ObjectName = Field(description="Name of the Service.")
    port: Port = Field(description="Its port.")
    path: Annotated[str, Field(max_length=512, pattern=r"^/")] = Field("/", description="Path of the URL.")


class HttpTool(Ruled):
    """A tool behind HTTP."""

    RULES = (Rule("has(self.url) != has(self.serviceRef)", "set either url or serviceRef"),)

    url: Endpoint | None = Field(None, description="URL of the tool outside the namespace.")
    service_ref: ServiceAddress | None = Field(None, description="Service of the tool in the same namespace.")


class McpTool(HttpTool):
    """A server of the Model Context Protocol."""

    transport: Literal["StreamableHTTP", "SSE"] = Field("StreamableHTTP", description="How the server is reached.")


class HeaderFrom(Section):
    """A request header whose value is in a Secret."""

    name: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9-]+$")] = Field(description="Name of the header.")
    secret_key_ref: SecretKeyRef = Field(description="Secret member with the value.")


class Tool(Ruled):
    """A tool that the model may call."""

    RULES = (
        Rule(
            "has(self.mcp) == (self.type == 'MCP') && has(self.http) == (self.type == 'HTTP')"
            " && has(self.agentRef) == (self.type == 'Agent')",
            "set exactly the member of its type: mcp, http or agentRef",
        ),
        Rule(
            "!has(self.requireApproval) || !has(self.allow) || self.requireApproval.all(name, name in self.allow)",
            "each name has to be in allow",
            "requireApproval",
        ),
        Rule(
            "!has(self.headersFrom) || [self.headersFrom.map(header, header.name.lowerAscii())].all(names,"
            " names.all(name, names.exists_one(other, other == name)))",
            "two headers have the same name, in which case does not count",
            "headersFrom",
        ),
    )

    name: Name = Field(description="Name of the tool, unique in the Agent.")
    type: Literal["MCP", "HTTP", "Agent"] = Field(description="What the tool is; the member of that name follows.")
    mcp: McpTool | None = Field(None, description="For type `MCP`: the server.")
    http: HttpTool | None = Field(None, description="For type `HTTP`: the service.")
    agent_ref: LocalRef | None = Field(None, description="For type `Agent`: another Agent, asked by A2A.")
    allow: ToolNames | None = Field(
        None, description="Names that the model may call; absent: all that the server offers."
    )
    require_approval: ToolNames | None = Field(None, description="Names of `allow` that a person has to approve.")
    headers_from: Annotated[tuple[HeaderFrom, ...], Field(strict=False, max_length=16)] = Field(
        (), description="Request headers from Secrets."
    )
    timeout_seconds: Seconds = Field(30, description="How long one call may take.")


class SessionStore(Section):
    """Where conversations are kept."""

    type: Literal["InMemory", "Redis", "PostgreSQL"] = Field(description="The store.")
    database_ref: Name | None = Field(None, description="Name of an entry of `state.databases`.")
    ttl_seconds: Annotated[int, Field(ge=1, le=31536000)] = Field(86400, description="How long a conversation is kept.")


class LongTerm(Section):
    """Where knowledge is kept."""

    type: Literal["PGVector", "Redis", "Qdrant"] = Field(description="The store.")
    database_ref: Name = Field(description="Name of an entry of `state.databases`.")
    collection: Annotated[Text, Field(max_length=128)] = Field(description="Collection or table.")
    embedding_model: Annotated[str, Field(max_length=256)] = Field("", description="Model of the embeddings.")


class AgentMemory(Section):
    """What an Agent remembers."""

    session: SessionStore | None = Field(None, description="Where conversations are kept; absent: not kept.")
    long_term: LongTerm | None = Field(None, description="Where knowledge is kept; absent: none.")
