"""Validation of ConfigMaps and Secrets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from gitsync.objects.manifest import Manifest, annotations_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import forbidden, immutable, invalid, required, too_long
from gitsync.sandbox.validation.names import config_key

# pkg/apis/core: MaxSecretSize, also for ConfigMaps. etcd stores values of up to 1.5 MiB, so an object has to fit with
# its metadata.
_LIMIT = 1024 * 1024
# A Secret of these types is read by kubelets or controllers, which expect the keys (pkg/apis/core: SecretType…).
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_config_map(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a ConfigMap."""
    # Labels and annotations of an immutable ConfigMap stay free.
    causes = [] if old is None else _frozen(new, old, ("data", "binaryData"))
    data = new.get("data", {})
    binary = new.get("binaryData", {})
    for key in data:
        causes += _key(key, f"data[{key}]")
        if key in binary:
            # Both maps become files of one folder in a volume.
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        causes += _key(key, f"binaryData[{key}]")
    # Go counts bytes. ASCII is tested first because it is the rule and needs no copy of a large value.
    size = sum(len(value) if value.isascii() else len(value.encode()) for value in data.values())
    if size + sum(_decoded_size(value) for value in binary.values()) > _LIMIT:
        # The path of the cause is really "[]": the server builds it from an empty field path.
        causes.append(too_long("[]", _LIMIT))
    return causes


def _key(key: str, field: str) -> list[StatusCause]:
    return [invalid(field, key, text) for text in config_key(key)]


def _decoded_size(text: str) -> int:
    # The size of base64 without decoding it: each write of a large Secret would pay for that.
    return len(text) * 3 // 4 - text.count("=", -2)


def _frozen(new: Manifest, old: Manifest, members: tuple[str, ...]) -> list[StatusCause]:
    """Return the causes of a change of what ``immutable`` protects."""
    # What counts is the stored object: the write that sets the member may still change the data.
    if not old.get("immutable"):
        return []
    causes = []
    if not new.get("immutable"):
        # Protection cannot be taken off again, except by deleting the object.
        causes.append(forbidden("immutable", _IMMUTABLE))
    for member in members:
        if new.get(member) != old.get(member):
            causes.append(forbidden(member, _IMMUTABLE))
    return causes


def validate_secret(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a Secret."""
    causes = []
    if old is not None:
        # Controllers select Secrets by their type in watches, so the type never changes.
        causes += immutable("type", new.get("type"), old.get("type"))
        causes += _frozen(new, old, ("data",))
    data: Mapping[str, Any] = new.get("data", {})
    for key in data:
        causes += _key(key, f"data[{key}]")
    if sum(_decoded_size(value) for value in data.values()) > _LIMIT:
        causes.append(too_long("data", _LIMIT))
    return causes + _by_type(new, data)


def _by_type(secret: Manifest, data: Mapping[str, Any]) -> list[StatusCause]:
    kind = secret.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        # The token itself is written later, by the controller of tokens.
        if annotations_of(secret).get("kubernetes.io/service-account.name"):
            return []
        return [required("metadata.annotations[kubernetes.io/service-account.name]")]
    if kind == "kubernetes.io/basic-auth":
        if "username" in data or "password" in data:
            return []
        return [required("data[username]"), required("data[password]")]
    causes = []
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            causes.append(required(f"data[{key}]"))
        elif key in _JSON_KEYS and (problem := _json_problem(data[key])):
            # Causes reach logs and audits, so the server never repeats the value of a Secret.
            causes.append(invalid(f"data[{key}]", "<secret contents redacted>", problem))
    return causes


def _json_problem(text: str) -> str:
    try:
        value = orjson.loads(base64.b64decode(text))
    except orjson.JSONDecodeError:
        # Only the two most frequent errors of Go's decoder are imitated: an empty text, and one that does not begin as
        # JSON.
        raw = base64.b64decode(text).decode("utf-8", "replace").strip()
        if not raw:
            return "unexpected end of JSON input"
        return f"invalid character '{raw[0]}' looking for beginning of value"
    return "" if isinstance(value, dict) else "json: cannot unmarshal into Go value of type map[string]interface {}"
