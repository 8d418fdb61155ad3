"""What an agent asks with: model, endpoint, prompts and tools, read from its object and its ConfigMaps. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.server.rows.relations.references import references

_MODEL: Final = ("AGENT_MODEL_ID", "MODEL_ID", "MODEL_NAME", "MODEL", "OPENAI_MODEL")
_ENDPOINT: Final = ("AGENT_MODEL_ENDPOINT", "MODEL_ENDPOINT", "MODEL_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
_TOOLS: Final = ("AGENT_TOOLS", "TOOLS", "MCP_SERVERS")
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


class Prompt(NamedTuple):
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
    prompts: tuple[Prompt, ...] = ()
    tools: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The revision of the prompts: a digest of their texts, equal for equal texts, empty without a prompt."""
        texts = "\0".join(one.text for one in self.prompts)
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
        if any(one.get("name") in _ASKS for one in container.get("env") or ()):
            return True
        for source in container.get("envFrom") or ():
            prefix = source.get("prefix") or ""
            if any(f"{prefix}{key}" in _ASKS for key in _keys(manifest, at(source, "configMapRef", "name"), read)):
                return True
    return any(_is_prompt(name, key) for name in _config_maps(manifest) for key in _keys(manifest, name, read))


def containers(manifest: Manifest) -> list[Mapping[str, Any]]:
    """Return the containers of a workload's Pods."""
    return [one for one in at(manifest, "spec", "template", "spec", "containers") or () if isinstance(one, dict)]


def _declared(manifest: Manifest, paths: Iterable[tuple[str, ...]]) -> str:
    found = (at(manifest, *path) for path in paths)
    return next((value for value in found if isinstance(value, str) and value), "")


def _first(variables: Mapping[str, str], names: Iterable[str]) -> str:
    return next((variables[name] for name in names if variables.get(name)), "")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for one in text.split(",") if (name := one.strip()))


def _declared_tools(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of declared tools: ours, and MCP servers and agents of kagent."""
    tools = at(manifest, "spec", "tools") or at(manifest, "spec", "declarative", "tools") or ()
    paths = (("name",), ("mcpServer", "name"), ("agent", "name"))
    return tuple(_declared(one, paths) for one in tools if isinstance(one, dict))


def _variables(manifest: Manifest, read: Read) -> dict[str, str]:
    """Return the environment of all containers; as in Kubernetes, ``env`` wins over ``envFrom``."""
    found: dict[str, str] = {}
    for container in containers(manifest):
        for source in container.get("envFrom") or ():
            name, prefix = at(source, "configMapRef", "name"), source.get("prefix") or ""
            found |= {f"{prefix}{key}": text for key, text in _data(manifest, name, read).items()}
        for one in container.get("env") or ():
            key = at(one, "valueFrom", "configMapKeyRef") or {}
            value = _data(manifest, key.get("name"), read).get(str(key.get("key"))) if key else one.get("value")
            found |= {str(one.get("name")): str(value)} if value is not None else {}
    return found


def _data(manifest: Manifest, name: Any, read: Read) -> dict[str, str]:
    return {key: str(text) for key, text in _content(manifest, name, read).items()}


def _keys(manifest: Manifest, name: Any, read: Read) -> Iterable[str]:
    return _content(manifest, name, read).keys()


def _content(manifest: Manifest, name: Any, read: Read) -> Mapping[str, Any]:
    config = read(ObjectRef("", "ConfigMap", ref_of(manifest).namespace, str(name))) if name else None
    return (config or {}).get("data") or {}


def _prompts(manifest: Manifest, read: Read) -> Iterator[Prompt]:
    ref = ref_of(manifest)
    path = next((path for path in _PROMPT_TEXTS if _declared(manifest, (path,))), ())
    if path:
        yield Prompt("prompt", str(at(manifest, *path)), ref, "." + ".".join(path))
    key = at(manifest, "spec", "prompt", "configMapKeyRef") if ref.group == AGENTS_GROUP else None
    if key:
        member = str(key.get("key") or "prompt.md")
        yield from (one for one in _texts(manifest, key.get("name"), read) if one.name == member)
    for other in references(ref, manifest):
        for one in _texts(manifest, other.ref.name, read) if other.ref.kind == "ConfigMap" else ():
            if _is_prompt(other.ref.name, one.name):
                yield one


def _texts(manifest: Manifest, name: Any, read: Read) -> Iterator[Prompt]:
    ref = ObjectRef("", "ConfigMap", ref_of(manifest).namespace, str(name))
    for key, text in _data(manifest, name, read).items():
        yield Prompt(key, text, ref, f".data.{key}")


def _is_prompt(config: str, key: str) -> bool:
    return "prompt" in key.lower() or ("prompt" in config and key.endswith((".md", ".txt")))


def _config_maps(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the ConfigMaps that a workload mounts, and those of single variables."""
    for volume in at(manifest, "spec", "template", "spec", "volumes") or ():
        yield str(at(volume, "configMap", "name") or "")
        for source in at(volume, "projected", "sources") or ():
            yield str(at(source, "configMap", "name") or "")
    for container in containers(manifest):
        for one in container.get("env") or ():
            yield str(at(one, "valueFrom", "configMapKeyRef", "name") or "")
