"""ConfigMaps and Secrets made from literals, files and env files, and the hash of their content."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resources.resource import Resource
from gitsync.render.yaml.scalar_types import is_plain, plain, settled, text_of

_BASE64_LINE: Final = 70
_UNREADABLE: Final = "[\x7f-\x84\x86-\x9f\ufffe\uffff]"
BEHAVIORS: Final = ("", "create", "replace", "merge")


def config_map(arguments: Mapping[str, Any], read: Callable[[str], bytes]) -> Manifest:
    """Return the ConfigMap of a generator; what is not text goes to binaryData."""
    manifest = _object("ConfigMap", arguments)
    for key, content in _data(arguments, read):
        try:
            manifest.setdefault("data", {})[key] = _readable(content.decode("utf-8"), key)
        except UnicodeDecodeError:
            manifest.setdefault("binaryData", {})[key] = _base64(content)
    if not manifest.get("data"):
        manifest.pop("data", None)
    return _finish(manifest, arguments)


def _readable(text: str, key: str) -> str:
    """Return the text as a member; refuse what no YAML file may hold, for Kustomize cannot hand it on."""
    # go-yaml writes a block with an indentation hint that it cannot read again.
    if text.startswith("\t") and "\n" in text:
        raise InvalidInput(
            f"the value of {key} begins with a tab, which Kustomize cannot write as a block of lines",
            hint="begin it with another line, or keep it in a Secret",
        )
    unreadable = re.search(_UNREADABLE, text)
    if unreadable:
        raise InvalidInput(
            f"the value of {key} holds the control character U+{ord(unreadable[0]):04X}",
            hint="remove it, or keep the value in a Secret",
        )
    return settled(text)


def secret(arguments: Mapping[str, Any], read: Callable[[str], bytes]) -> Manifest:
    """Return the Secret of a generator."""
    manifest = _object("Secret", arguments)
    manifest["data"] = {key: _base64(content) for key, content in _data(arguments, read)}
    manifest["type"] = arguments.get("type") or "Opaque"
    return _finish(manifest, arguments)


def with_options(arguments: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generator's arguments with ``generatorOptions`` merged under its own options."""
    own = arguments.get("options") or {}
    options: dict[str, Any] = {}
    for member in ("labels", "annotations"):
        values = {**(common.get(member) or {}), **(own.get(member) or {})}
        if values:
            options[member] = values
    # A flag can be switched on by either, and off by neither: Go cannot tell false from absent.
    for flag in ("disableNameSuffixHash", "immutable"):
        options[flag] = bool(own.get(flag) or common.get(flag))
    return {**arguments, "options": options}


def take_over(made: Resource, old: Resource) -> None:
    """Give a generated resource the identity of the one it merges with or replaces, and merge their data."""
    manifest = made.manifest
    for member in ("labels", "annotations"):
        values = {**old.labels(member), **made.labels(member)}
        if values:
            manifest["metadata"][member] = values
    if made.behavior == "merge":
        for member in ("data", "binaryData"):
            merged = {**(old.manifest.get(member) or {}), **(manifest.get(member) or {})}
            if merged:
                manifest[member] = merged
            else:
                manifest.pop(member, None)
    made.set_meta("name", old.name)
    made.set_meta("namespace", old.namespace)
    made.previous = old.previous
    made.prefixes = old.prefixes
    made.suffixes = old.suffixes
    made.behavior = old.behavior
    made.variables = old.variables
    made.steps = old.steps
    # ``disableNameSuffixHash`` of the base holds for what merges into it.
    made.needs_hash = made.needs_hash and old.needs_hash


_LARGE: Final = 1e21
"""Go writes integers from here on with an exponent."""


def name_hash(manifest: Manifest) -> str:
    """Return the ten-letter hash of the content of a ConfigMap, a Secret or any other object."""
    if not is_plain(manifest):
        manifest = plain(manifest)  # Kustomize hashes what it writes
    kind = manifest.get("kind")
    if kind == "ConfigMap":
        content: dict[str, Any] = {"kind": kind, "name": "", "data": _hashed(manifest, "data")}
        optional = "binaryData"
    elif kind == "Secret":
        content = {
            "kind": kind,
            "type": text_of(manifest.get("type")),
            "name": "",
            "data": _hashed(manifest, "data"),
        }
        optional = "stringData"
    else:
        content = manifest
        optional = ""
    if isinstance(manifest.get(optional), dict):
        content[optional] = manifest[optional]
    import hashlib  # late: it loads OpenSSL

    digest = hashlib.sha256(_go_json(content)).hexdigest()[:10]
    # Kustomize avoids vowels and look-alikes: ``hasher.Encode``.
    return digest.translate(str.maketrans("013ae", "ghkmt"))


def _hashed(manifest: Manifest, member: str) -> Any:
    value = manifest.get(member)
    return {key: _in_json(item) for key, item in value.items()} if isinstance(value, dict) else text_of(value)


def _in_json(value: Any) -> Any:
    """Return a value as Go reads it from JSON, where each number is a float of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < _LARGE else number


def _go_json(value: Any) -> bytes:
    """Return the value as Go's encoder writes it: sorted, compact, and safe inside HTML."""
    import json  # late: only names with a hash need it

    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # encoding/json escapes them, so that HTML can contain JSON.
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "surrogatepass")


def _object(kind: str, arguments: Mapping[str, Any]) -> Manifest:
    name = arguments.get("name")
    if not name:
        raise InvalidInput(f"a {kind} generator has no name", hint="add a name")
    meta: dict[str, Any] = {"name": name}
    if arguments.get("namespace"):
        meta["namespace"] = arguments["namespace"]
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}


def _finish(manifest: Manifest, arguments: Mapping[str, Any]) -> Manifest:
    options = arguments.get("options") or {}
    for member in ("labels", "annotations"):
        if options.get(member):
            manifest["metadata"][member] = {key: settled(text_of(value)) for key, value in options[member].items()}
    if options.get("immutable"):
        manifest["immutable"] = True
    return manifest


def _data(arguments: Mapping[str, Any], read: Callable[[str], bytes]) -> list[tuple[str, bytes]]:
    name = arguments["name"]
    pairs: dict[str, bytes] = {}
    for key, content in _pairs(arguments, read):
        if not key:  # Kustomize loses a value without a name
            continue
        if key in pairs:
            raise InvalidInput(f"the generator {name} repeats the key {key!r}", hint="remove one of them")
        pairs[key] = content
    return sorted(pairs.items())


def _pairs(arguments: Mapping[str, Any], read: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    env = [arguments["env"]] if arguments.get("env") else []
    # Env files, literals, files: the order decides which key is reported as repeated.
    for path in (*(arguments.get("envs") or ()), *env):
        yield from _env_lines(read(path), path)
    for number, literal in enumerate(arguments.get("literals") or (), 1):
        yield _literal(literal, number)
    for source in arguments.get("files") or ():
        key, path = _file_source(source)
        yield key, read(path)


def places(
    arguments: Mapping[str, Any], row: Callable[[int], str], find: Callable[[str], str], read: Callable[[str], bytes]
) -> dict[str, str]:
    """
    Return where the value of each key is written: the line of a literal or of an env file, or the first of a file.

    ``row`` gives the place of a literal, ``find`` the real path of a file. The arguments are those of an object made.
    """
    places_by_key = {
        _literal(literal, number)[0]: row(number) for number, literal in enumerate(arguments.get("literals") or ())
    }
    for path in (*(arguments.get("envs") or ()), *filter(None, [arguments.get("env")])):
        for number, line in enumerate(read(path).splitlines(keepends=True), 1):
            places_by_key |= dict.fromkeys((key for key, _ in _env_lines(line, path)), f"{find(path)}:{number}")
    for source in arguments.get("files") or ():
        key, path = _file_source(source)
        places_by_key[key] = f"{find(path)}:1"
    return places_by_key


def _literal(literal: str, number: int) -> tuple[str, bytes]:
    key, equals, value = literal.partition("=")
    if not key or not equals:
        # Not quoted: it may be a secret.
        raise InvalidInput(f"literal {number} is not of the form key=value", hint="write key=value")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return key, value.encode()


def _file_source(source: str) -> tuple[str, str]:
    key, equals, path = source.partition("=")
    if not equals:
        return source.rstrip("/").rpartition("/")[2], source
    if not key or not path or "=" in path:
        raise InvalidInput(
            f"the file {source!r} is neither a path nor of the form key=path", hint="write path or key=path"
        )
    return key, path


def _env_lines(content: bytes, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the pairs of an env file; a key without a value is empty and never read from our environment."""
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.removesuffix(b"\r").decode("utf-8").lstrip()
        except UnicodeDecodeError:
            raise InvalidInput("the line is not UTF-8", location=f"{path}:{number}") from None
        # No quotes, no export, no expansion: Kustomize reads an env file as docker does.
        if not text or text.startswith("#"):
            continue
        key, _, value = text.partition("=")
        yield key, value.encode()


def _base64(content: bytes) -> str:
    """Return base64 in lines of 70 letters where it does not fit one line."""
    text = binascii.b2a_base64(content, newline=False).decode()
    # ``encodeBase64`` of Kustomize wraps from exactly this length on.
    if len(text) < _BASE64_LINE:
        return text
    lines = (text[start : start + _BASE64_LINE] for start in range(0, len(text), _BASE64_LINE))
    return "".join(f"{line}\n" for line in lines)
