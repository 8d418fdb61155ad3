"""The model that an Agent asks, and its prompt."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gitsync.agents.model.base import HOST_AND_PORT, ConfigMapKeyRef, Name, Seconds, SecretKeyRef, readable_url
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
