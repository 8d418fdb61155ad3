"""What an agent asks with: model, endpoint, prompts and tools, read from its object and its ConfigMaps. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from gitsync.kube.references import references
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView

# the most specific name first, as the first one that is set is shown
_MODEL: Final = ("AGENT_MODEL_ID", "MODEL_ID", "MODEL_NAME", "MODEL", "OPENAI_MODEL")
_ENDPOINT: Final = ("AGENT_MODEL_ENDPOINT", "MODEL_ENDPOINT", "MODEL_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
_TOOLS: Final = ("AGENT_TOOLS", "TOOLS", "MCP_SERVERS")
# the first is that of our Agent, the others are those of other platforms, such as kagent
_PROMPT_TEXTS: Final = (
    ("spec", "prompt", "text"),
    ("spec", "prompt"),
    ("spec", "systemMessage"),
    ("spec", "declarative", "systemMessage"),
)
_MODELS: Final = (
    ("spec", "model", "id"),
    ("spec", "modelRef", "name"),
    ("spec", "modelConfig"),
    ("spec", "declarative", "modelConfig"),
)
_ASKS: Final = frozenset({*_MODEL, *_ENDPOINT, "MODEL_PROVIDER", "MODEL_API_KEY"}) - {"MODEL"}
"""Variables by which a workload asks a model; ``MODEL`` alone has other meanings too."""
Read = Callable[[ObjectRef], Manifest | None]


class AgentPrompt(NamedTuple):
    """A prompt of an agent: its name and text, and the object and field that it was read from."""

    name: str
    text: str
    ref: ObjectRef
    field: str


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent, empty where they are not known."""

    model: str = ""
    endpoint: str = ""
    prompts: tuple[AgentPrompt, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The revision of the prompts: a digest of their texts, equal for equal texts, empty without a prompt."""
        # no text of YAML contains NUL: two prompts differ from one that joins them
        texts = "\0".join(prompt.text for prompt in self.prompts)
        return hashlib.sha256(texts.encode()).hexdigest()[:8] if self.prompts else ""


def agent_settings(manifest: Manifest, read: Read) -> AgentSettings:
    """Return the settings of an agent; ``read`` returns the ConfigMaps that it names."""
    variables = _variables(manifest, read)
    return AgentSettings(
        model=_declared(manifest, _MODELS) or _first(variables, _MODEL),
        endpoint=_declared(manifest, (("spec", "model", "endpoint"),)) or _first(variables, _ENDPOINT),
        prompts=tuple(sorted(_prompts(manifest, read))),
        tools=_declared_tools(manifest) or _listed(_first(variables, _TOOLS)),
    )


def asks_a_model(manifest: Manifest, read: Read) -> bool:
    """Return whether a workload has a variable of a model service, or mounts or reads a ConfigMap with a prompt."""
    for container in containers(manifest):
        if any(variable.get("name") in _ASKS for variable in container.get("env") or ()):
            return True
        for source in container.get("envFrom") or ():
            prefix = source.get("prefix") or ""
            if any(f"{prefix}{key}" in _ASKS for key in _keys(manifest, at(source, "configMapRef", "name"), read)):
                return True
    return any(_is_prompt(name, key) for name in _config_maps(manifest) for key in _keys(manifest, name, read))


def containers(manifest: Manifest) -> list[Mapping[str, Any]]:
    """Return the containers of a workload's Pods."""
    return [
        container
        for container in at(manifest, "spec", "template", "spec", "containers") or ()
        if isinstance(container, dict)
    ]


def _declared(manifest: Manifest, paths: Iterable[tuple[str, ...]]) -> str:
    values = (at(manifest, *path) for path in paths)
    return next((value for value in values if isinstance(value, str) and value), "")


def _first(variables: Mapping[str, str], names: Iterable[str]) -> str:
    return next((variables[name] for name in names if variables.get(name)), "")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _declared_tools(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of declared tools: ours, and MCP servers and agents of kagent."""
    tools = at(manifest, "spec", "tools") or at(manifest, "spec", "declarative", "tools") or ()
    paths = (("name",), ("mcpServer", "name"), ("agent", "name"))
    return tuple(_declared(tool, paths) for tool in tools if isinstance(tool, dict))


def _variables(manifest: Manifest, read: Read) -> dict[str, str]:
    """Return the environment of all containers; as in Kubernetes, ``env`` wins over ``envFrom``."""
    variables: dict[str, str] = {}
    for container in containers(manifest):
        for source in container.get("envFrom") or ():
            name = at(source, "configMapRef", "name")
            prefix = source.get("prefix") or ""
            # of two sources with one key the last one wins (Kubernetes API, EnvFromSource)
            variables |= {f"{prefix}{key}": text for key, text in _data(manifest, name, read).items()}
        for variable in container.get("env") or ():
            key = at(variable, "valueFrom", "configMapKeyRef") or {}
            # a variable of a Secret is not read
            value = _data(manifest, key.get("name"), read).get(str(key.get("key"))) if key else variable.get("value")
            variables |= {str(variable.get("name")): str(value)} if value is not None else {}
    return variables


def _data(manifest: Manifest, name: Any, read: Read) -> dict[str, str]:
    return {key: str(text) for key, text in _content(manifest, name, read).items()}


def _keys(manifest: Manifest, name: Any, read: Read) -> Iterable[str]:
    return _content(manifest, name, read).keys()


def _content(manifest: Manifest, name: Any, read: Read) -> Mapping[str, Any]:
    config = read(ObjectRef("", "ConfigMap", ref_of(manifest).namespace, str(name))) if name else None
    return (config or {}).get("data") or {}


def _prompts(manifest: Manifest, read: Read) -> Iterator[AgentPrompt]:
    ref = ref_of(manifest)
    path = next((path for path in _PROMPT_TEXTS if _declared(manifest, (path,))), ())
    if path:
        yield AgentPrompt("prompt", str(at(manifest, *path)), ref, "." + ".".join(path))
    key = at(manifest, "spec", "prompt", "configMapKeyRef") if ref.group == AGENTS_GROUP else None
    if key:
        member = str(key.get("key") or "prompt.md")
        yield from (prompt for prompt in _texts(manifest, key.get("name"), read) if prompt.name == member)
    for other in references(ref, manifest):
        for prompt in _texts(manifest, other.ref.name, read) if other.ref.kind == "ConfigMap" else ():
            if _is_prompt(other.ref.name, prompt.name):
                yield prompt


def _texts(manifest: Manifest, name: Any, read: Read) -> Iterator[AgentPrompt]:
    ref = ObjectRef("", "ConfigMap", ref_of(manifest).namespace, str(name))
    for key, text in _data(manifest, name, read).items():
        yield AgentPrompt(key, text, ref, f".data.{key}")


def _is_prompt(config: str, key: str) -> bool:
    return "prompt" in key.lower() or ("prompt" in config and key.endswith((".md", ".txt")))


def _config_maps(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the ConfigMaps that a workload mounts, and those of single variables."""
    for volume in at(manifest, "spec", "template", "spec", "volumes") or ():
        yield str(at(volume, "configMap", "name") or "")
        for source in at(volume, "projected", "sources") or ():
            yield str(at(source, "configMap", "name") or "")
    for container in containers(manifest):
        for variable in container.get("env") or ():
            yield str(at(variable, "valueFrom", "configMapKeyRef", "name") or "")


ENVIRONMENT: Final = "gitsync.dev/environment"
_FOLDERS: Final = frozenset({"overlays", "environments", "envs", "clusters"})
"""Folders whose subfolders are environments."""
_ORDER: Final = (
    ("dev", "development"),
    ("test", "testing", "qa"),
    ("int", "integration"),
    ("stage", "staging", "uat"),
    ("preprod", "preproduction"),
    ("prod", "production"),
)


@dataclass(frozen=True, slots=True)
class AgentLocation:
    """Where an agent is: its environment, and its family and name there, which are equal in all environments."""

    environment: str = ""
    family: str = ""
    name: str = ""


def placement(view: ApplicationView, manifest: Manifest) -> AgentLocation:
    """
    Return the environment of an agent.

    That is its annotation ``gitsync.dev/environment``, else the folder of its Application below ``overlays``,
    ``environments``, ``envs`` or ``clusters``, else its namespace. Its name is without the environment as a prefix or
    suffix.
    """
    ref = ref_of(manifest)
    source = view.application.source if view.application is not None else None
    parts = PurePosixPath(source.path).parts if source is not None else ()
    # the last folder has none below it that could be an environment
    index = next((n for n, part in enumerate(parts[:-1]) if part in _FOLDERS), None)
    folder = parts[index + 1] if index is not None else ""
    environment = annotations_of(manifest).get(ENVIRONMENT) or folder or ref.namespace
    above = "/".join(parts[:index]) if index is not None else ""
    name = ref.name.removeprefix(f"{environment}-").removesuffix(f"-{environment}")
    return AgentLocation(environment, f"{source.repo_url if source is not None else ''} {above}", name)


def promotion_order(environment: str) -> tuple[int, str]:
    """Return the sort key of an environment: from dev to prod by the words of its name, others at the end."""
    words = set(re.split(r"[-_.]", environment.lower()))
    index = next((n for n, names in enumerate(_ORDER) if words & set(names)), len(_ORDER))
    return index, environment


def is_stage(environment: str) -> bool:
    """Return whether the name of an environment says where it is between dev and prod."""
    return promotion_order(environment)[0] < len(_ORDER)
