"""The images table: which images run as processes, and the command of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from gitsync.errors import InvalidInput
from gitsync.sandbox.controllers.nodes.runtime import is_simulated, tag_of

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
