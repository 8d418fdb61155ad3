"""What an Agent asks, calls and remembers: its model and prompt, its tools, and its memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gitsync.agents.model.base import (
    HOST_AND_PORT,
    ConfigMapKeyRef,
    LocalRef,
    Name,
    ObjectName,
    Port,
    Seconds,
    SecretKeyRef,
    readable_url,
)
from gitsync.kube.model import Rule, Ruled
from gitsync.objects.parsing import Section, Text

Provider = Literal["OpenAI", "Anthropic", "AzureOpenAI", "Bedrock", "VertexAI", "OpenAICompatible"]

Endpoint = Annotated[
    str, Field(max_length=1024, pattern=rf"^https?://{HOST_AND_PORT}([/?#]\S*)?$"), AfterValidator(readable_url)
]
"""An http(s) URL without user information."""

_NEEDS_ENDPOINT = Rule(
    "self.provider != 'OpenAICompatible' || has(self.endpoint)",
    "provider OpenAICompatible needs the endpoint of the service",
    "endpoint",
)


class ModelCredentials(Section):
    """How the Agent signs in at the model service."""

    secret_key_ref: SecretKeyRef = Field(
        description="Secret member with the API key; it becomes `AGENT_MODEL_API_KEY`."
    )


class Fallback(Ruled):
    """A model that is asked when the ones before it fail."""

    RULES = (_NEEDS_ENDPOINT,)

    provider: Provider = Field(description="The API of the service.")
    id: Annotated[Text, Field(max_length=256)] = Field(description="The model, as the provider names it.")
    endpoint: Endpoint | None = Field(None, description="Base URL of the service; absent: the provider's own.")
    parameters: Annotated[dict[str, str], Field(max_length=32)] = Field(
        default_factory=dict, description='Request parameters, as strings, such as `temperature: "0.2"`.'
    )
    credentials: ModelCredentials | None = Field(None, description="How the Agent signs in at the service.")


class ModelCache(Section):
    """Model files that are downloaded before anything else starts."""

    source: Annotated[
        str,
        Field(max_length=2048, pattern=rf"^(oci|https?|s3|gs)://([^@/?#\s]*@)?{HOST_AND_PORT}([/?#]\S*)?$"),
        AfterValidator(readable_url),
    ] = Field(description="Where the files are: `oci://`, `https://`, `s3://` or `gs://`.")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="Digest of the download in hex; other content is not used."
    )
    volume: Name = Field(description="Name of the entry of `state.volumes` that holds the files.")
    mount_path: Annotated[str, Field(max_length=512, pattern=r"^/[^:]*$")] = Field(
        "/models", description="Where the runtime finds them."
    )
    timeout_seconds: Seconds = Field(900, description="How long the download may take.")


class Model(Fallback):
    """The model that an Agent asks."""

    fallbacks: Annotated[tuple[Fallback, ...], Field(strict=False, max_length=8)] = Field(
        (), description="Models that are asked, in order, when this one fails."
    )
    cache: ModelCache | None = Field(None, description="Model files that are downloaded before anything else starts.")


class Prompt(Ruled):
    """The system prompt: its text, or a member of a ConfigMap."""

    RULES = (Rule("has(self.text) != has(self.configMapKeyRef)", "set either text or configMapKeyRef"),)

    text: Annotated[str, Field(min_length=1, max_length=262144)] | None = Field(None, description="The prompt itself.")
    config_map_key_ref: ConfigMapKeyRef | None = Field(
        None,
        description="ConfigMap member with the prompt; its text is copied into the configuration of a revision, so that"
        " a changed prompt is a new revision.",
    )


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


class ConversationStore(Section):
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

    session: ConversationStore | None = Field(None, description="Where conversations are kept; absent: not kept.")
    long_term: LongTerm | None = Field(None, description="Where knowledge is kept; absent: none.")
