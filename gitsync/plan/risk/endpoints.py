"""Risk rules for where prompts and data are sent: model endpoints, provider keys and proxies, added or changed."""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from gitsync.kube.kinds import NAMESPACE
from gitsync.objects.application import Application
from gitsync.objects.change import Change
from gitsync.objects.keys import GROUP
from gitsync.objects.manifest import Manifest, at, content_hash, group_of
from gitsync.objects.ref import GroupKind, ObjectRef

Setting = tuple[str, str]
"""The name of a setting without case and separators, and its value or a hash of its reference."""

_MODEL = "MODEL|LLM|OPENAI|ANTHROPIC|CLAUDE|GEMINI|BEDROCK|VERTEX|MISTRAL|COHERE|GROQ|OLLAMA|AZURE|HUGGINGFACE|DEEPSEEK"
_SENDS = re.compile(
    rf"BASEUR[LI]|APIBASE|APIURL|INFERENCEURL|(?:HTTPS?|ALL|NO|SOCKS)PROXY|^PROXY(?:URL)?$"
    rf"|(?:{_MODEL}).*(?:ENDPOINT|PROVIDER|HOST|URL|PROXY|KEY$|TOKEN$)|^(?:ENDPOINT|PROVIDER)$",
)
_ASSIGNMENT = re.compile(
    r"""(?<![\w.-])(?:--?)?([A-Za-z][\w.-]{2,80}+)["']?(?=\s{0,9}[=:\s]\s{0,9}["']?([^\s"',}]{1,512}))"""
)
"""A name and what follows it, which may be the next name; bounded, since authors of commits write the text."""
_MEMBERS = frozenset({"endpoint", "baseUrl", "baseURL", "base_url", "apiBase", "provider", "proxyUrl", "proxyURL"})
"""Members of custom resources that name where data is sent, as Agent, kagent, ARK and KServe spell them."""
_UNRELATED = frozenset({("autoscaling", "provider")})
"""Members with such a name, by what they are in, that send nothing: what scales an Agent."""
_HOST = re.compile(r"^(?:(?:[a-z][a-z0-9+.-]*:)?//)?(?:[^/@]*@)?|(?::[0-9]*)?(?:[/?#].*)?$")
"""What is around the host in an address in lower case."""
_INSIDE = re.compile(r"(?!\d+$|0x)[a-z0-9-]*|[a-z0-9.-]+\.(?:svc|cluster\.local|localhost)\.?|127\.[0-9.]+", re.ASCII)
"""
A host of the cluster or the Pod, as far as its text tells, a hash of a source of variables, or no host.

A number is an address, and what refers to something else may be any.
"""
_NO_HOST = ("NOPROXY", "KEY", "TOKEN")
"""Ends of the names of settings that name no host to send to."""
_SEPARATORS = re.compile(r"[^A-Z0-9]")
_HASH = re.compile(r"-[a-z0-9]{10}$", re.ASCII)
_CONFIGURATION = ("ConfigMap", "Secret")
_NESTING = frozenset({dict, list})
"""Types of values that may have settings in them."""


def endpoint_set(change: Change) -> str | None:
    """Match an object that sets another endpoint, provider key or proxy than before, or refers to another one."""
    if change.live is None or change.desired is None:
        return None
    settings = _settings(change.desired)
    # most objects have none, and to read those of the live object takes as long again
    return _first_name(settings - _settings(change.live)) if settings else None


class LiveSettings:
    """The settings of the live objects of an Application, read once, when the first rule needs them."""

    def __init__(self, app: Application, live: Mapping[ObjectRef, Manifest]) -> None:
        self._app = app
        self._live = live

    @cached_property
    def may_move(self) -> bool:
        """
        Whether what is sent now may go elsewhere: some object exists.

        The children of an Agent name what the Agent names, which has rules of its own.
        """
        return not self._app.owns_by_reference and any(ref.of != NAMESPACE for ref in self._live)

    @cached_property
    def by_family(self) -> Mapping[tuple[GroupKind, str], Sequence[frozenset[Setting]]]:
        """The settings of each object, by kind and by name without hash."""
        settings = defaultdict[tuple[GroupKind, str], list[frozenset[Setting]]](list)
        for ref, manifest in self._live.items():
            settings[ref.of, _family(ref.name)].append(_settings(manifest))
        return dict(settings)

    @cached_property
    def known(self) -> frozenset[Setting]:
        """All settings."""
        return frozenset[Setting]().union(*(settings for family in self.by_family.values() for settings in family))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all settings."""
        return frozenset(name for name, _ in self.known)


def endpoint_introduced(change: Change, live: LiveSettings) -> str | None:
    """
    Match a new object that sets what its Application sets otherwise in an object that exists, or a new way out.

    A new name must not hide a change: neither of a workload, nor of a ConfigMap whose name ends in a hash. Nor must a
    commit that deletes an object before another one creates it with a destination that the Application never had.
    """
    if change.live is not None or change.desired is None:
        return None
    settings = _settings(change.desired)
    if not settings:
        return None
    for live_settings in live.by_family.get((change.ref.of, _family(change.ref.name)), ()):
        if settings - live_settings:
            return _first_name(settings - live_settings)
    introduced = settings - live.known
    return _first_name(
        setting for setting in introduced if setting[0] in live.names or (live.may_move and _leaves_cluster(*setting))
    )


def _leaves_cluster(name: str, value: str) -> bool:
    """Return whether a setting may send to a host outside the cluster."""
    return not name.endswith(_NO_HOST) and not _INSIDE.fullmatch(_HOST.sub("", value.strip().lower()))


def _first_name(settings: Iterable[Setting]) -> str | None:
    return min((name for name, _ in settings), default=None)


def _settings(manifest: Manifest) -> frozenset[Setting]:
    if manifest.get("kind") in _CONFIGURATION and "/" not in str(manifest.get("apiVersion")):
        return frozenset(_of_data(manifest))
    if group_of(str(manifest.get("apiVersion"))) == GROUP:  # Applications have rules of their own
        return frozenset()
    return frozenset(_of_value(manifest.get("spec")))


def _of_data(manifest: Manifest) -> Iterator[Setting]:
    """Yield the settings of a ConfigMap or Secret: its keys, and assignments inside of its files."""
    is_secret = manifest.get("kind") == "Secret"
    for members in ("data", "stringData", "binaryData"):
        values = at(manifest, members)
        is_encoded = members == "binaryData" or (is_secret and members == "data")
        for key, value in values.items() if isinstance(values, dict) else ():
            yield from _named(str(key), value)
            yield from _of_text(_decoded(str(value)) if is_encoded else str(value))


def _decoded(text: str) -> str:
    """Return the text of a value in base64; nothing where it is not valid."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):  # the API server rejects it
        return ""


def _of_value(value: Any, member: str = "") -> Iterator[Setting]:
    """Yield the settings of environments and arguments at any depth: kinds differ in where their containers are."""
    if isinstance(value, dict):
        for key, inner in value.items():
            # Of agents and model services of any platform.
            if isinstance(inner, str) and key in _MEMBERS and (member, key) not in _UNRELATED:
                yield from _named(key, inner)
            # most members are scalars, and a generator for each would take longer than all else here
            if type(inner) in _NESTING:
                yield from _of_value(inner, key)
    # Joined: a flag and its value may be two items.
    elif isinstance(value, list) and member in ("args", "command"):
        yield from _of_text(" ".join(map(str, value)))
    elif isinstance(value, list):
        for item in value:
            if member == "env" and isinstance(item, dict):
                yield from _named(str(item.get("name")), item.get("value") or _stable(item.get("valueFrom")))
            elif member == "envFrom" and isinstance(item, dict):
                # All variables of the reference may be settings; which ones is known only where it leads.
                # With a prefix, also which ones: a key of the reference is a part of the name only.
                reference = _stable(item)
                yield "ENVFROM", _reference(reference) if "prefix" in item else content_hash(reference)
            else:
                yield from _of_value(item)


def _of_text(text: str) -> Iterator[Setting]:
    for match in _ASSIGNMENT.finditer(text):
        yield from _named(match[1], match[2])


def _named(name: str, value: Any) -> Iterator[Setting]:
    if squeezed := _sending_name(name):
        yield squeezed, value if isinstance(value, str) else _reference(value) if value else ""


def _reference(value: Any) -> str:
    """Return a text for a reference, which is the text of no host: where it leads is not known here."""
    return f"reference {content_hash(value)}"


@lru_cache(maxsize=4096)  # texts repeat their words
def _sending_name(name: str) -> str:
    """Return the name of a setting without case and separators, empty where it does not say where data is sent."""
    squeezed = _SEPARATORS.sub("", name.upper())
    return squeezed if _SENDS.search(squeezed) else ""


def _stable(reference: Any) -> Any:
    """Return a reference with names free of the hash that a generator appends: the object itself is judged."""
    if isinstance(reference, dict):
        # Otherwise each changed ConfigMap of a generator would look like another reference.
        return {key: _family(item) if key == "name" else _stable(item) for key, item in reference.items()}
    return reference


def _family(name: Any) -> str:
    return _HASH.sub("", str(name))
