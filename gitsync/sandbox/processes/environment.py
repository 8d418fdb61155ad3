"""How a container runs as a process: which images do, by the images table, and the command and environment of each."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from gitsync.errors import InvalidInput
from gitsync.kube.quantity import parse
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.sandbox.controllers.nodes.runtime import is_simulated, tag_of
from gitsync.sandbox.processes.volumes import Get, Mount, translate

_MEMBERS = frozenset({"command", "args", "env"})


@dataclass(frozen=True, slots=True)
class Image:
    """What an image contains for the sandbox: the program, its default arguments, and variables."""

    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


Images = Mapping[str, Image]
"""Images by reference, by repository, or by a pattern of one, such as ``registry.example.com/support/*``."""


def find_image(images: Images, reference: str) -> Image | None:
    """Return the image that runs for a reference, None where it is simulated; a tag such as ``crash`` always is."""
    if is_simulated(reference):
        return None
    name = reference.partition("@")[0]
    tag = tag_of(reference)
    repository = name.removesuffix(f":{tag}") if tag else name
    for wanted in (name, repository):
        if wanted in images:
            return images[wanted]
    return next((image for pattern, image in images.items() if fnmatchcase(repository, pattern)), None)


def read_images(path: Path) -> Images:
    """Return the table of a YAML file: image → command, args and env; raise InvalidInput when it is not one."""
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"cannot read the images table {path}: {error}") from error
    if not isinstance(table, dict):
        raise InvalidInput(f"{path} is not a table of images", hint="write IMAGE: {command: [PROGRAM, ARGUMENT]}")
    return {str(name): _image(entry, f"{path}: {name}") for name, entry in table.items()}


def _image(entry: Any, place: str) -> Image:
    if not isinstance(entry, dict) or set(entry) - _MEMBERS or not entry.get("command"):
        raise InvalidInput(f"{place} needs command, and may have args and env", hint="command: [PROGRAM, ARGUMENT]")
    lists = [entry["command"], entry.get("args") or []]
    if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists):
        raise InvalidInput(f"{place}: command and args are lists of strings")
    env = entry.get("env") or {}
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise InvalidInput(f"{place}: env maps names to strings")
    return Image(tuple(lists[0]), tuple(lists[1]), env)


# Nothing else: a token or proxy of the user's shell must not reach the container.
_PASSED_ON = ("LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
_REFERENCE = re.compile(r"\$(\$|\([A-Za-z_.\-][A-Za-z0-9_.\-]*\))")
_MEMBER = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def command_of(container: Manifest, image: Image, env: Mapping[str, str], mounts: list[Mount]) -> list[str]:
    """Return the program and its arguments, with references to variables and mount paths replaced."""
    command: Sequence[str] = container.get("command") or ()
    # A command of its own drops the arguments of the image, as in Kubernetes.
    args = container.get("args") or (() if command else image.args)
    return [translate(_expand(text, env), mounts) for text in (*(command or image.command), *args)]


def environment_of(
    pod: Manifest, container: Manifest, defaults: Mapping[str, str], mounts: list[Mount], get: Get
) -> dict[str, str]:
    """Return the environment: what every process needs, the defaults of its image, and what the container asks for."""
    variables = _basic(pod) | dict(defaults)
    # Variables of the container come after and win.
    variables |= _from_objects(pod, container, get)
    for variable in container.get("env") or ():
        value = _value(variable, pod, container, get, variables)
        if value is not None:
            variables[variable["name"]] = value
    return {name: translate(value, mounts) for name, value in variables.items()}


def proxy_variables(namespace: str, proxy: str) -> dict[str, str]:
    """Return the variables by which HTTP clients find the proxy to Services."""
    url = f"http://{namespace}@{proxy}"
    direct = "localhost,127.0.0.1"
    return {"HTTP_PROXY": url, "http_proxy": url, "NO_PROXY": direct, "no_proxy": direct}


def _basic(pod: Manifest) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # So that python in a command is the one with the project's packages.
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return passed | {
        "PATH": os.pathsep.join(programs),
        "HOSTNAME": pod["metadata"]["name"],
        "POD_IP": at(pod, "status", "podIP", default=""),
    }


def _from_objects(pod: Manifest, container: Manifest, get: Get) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        for member, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if member in source:
                source_object = get("", kind, pod["metadata"]["namespace"], source[member]["name"])
                for key in at(source_object, "data") or {}:
                    yield source.get("prefix", "") + key, _text(source_object, key) or ""


def _value(variable: Manifest, pod: Manifest, container: Manifest, get: Get, env: Mapping[str, str]) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return _expand(variable.get("value") or "", env)
    for member, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if member in source:
            source_object = get("", kind, pod["metadata"]["namespace"], source[member]["name"])
            return _text(source_object, source[member]["key"])
    if "resourceFieldRef" in source:
        return _resource(container, source["resourceFieldRef"])
    return _field(pod, at(source, "fieldRef", "fieldPath", default=""))


def _text(source: Manifest | None, key: str) -> str | None:
    """Return one value of a ConfigMap or Secret, None where it is absent."""
    value = at(source, "data", key) if source else None
    if value is None or source is None:
        return None
    return base64.b64decode(value).decode(errors="replace") if source["kind"] == "Secret" else str(value)


def _field(pod: Manifest, path: str) -> str:
    member = _MEMBER.fullmatch(path)
    if member is not None:
        return (labels_of(pod) if member[1] == "labels" else annotations_of(pod)).get(member[2], "")
    return str(at(pod, *path.split("."), default=""))


def _resource(container: Manifest, reference: Manifest) -> str:
    """Return an amount in units of its divisor, rounded up; 0 where the container names none."""
    section, _, name = reference["resource"].partition(".")
    amount = parse(at(container, "resources", section, name, default="0")).nanos
    divisor = parse(str(reference.get("divisor") or "0")).nanos or parse("1").nanos
    # Division rounds down in Python; twice negated it rounds up.
    return str(-(-amount // divisor))


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by a variable that is set before; ``$$`` is a dollar sign."""

    def replacement(reference: re.Match[str]) -> str:
        return "$" if reference[1] == "$" else env.get(reference[1][1:-1], reference[0])

    return _REFERENCE.sub(replacement, text)
