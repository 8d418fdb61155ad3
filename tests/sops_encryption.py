"""The other side of SOPS, for tests: encrypt documents as its format describes, to an age key."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from typing import Any

import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyrage import encrypt
from pyrage.x25519 import Identity, Recipient

STAMP = "2026-01-02T03:04:05Z"
KINDS = {str: "str", bool: "bool", int: "int", float: "float"}


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    return f"{value:g}" if isinstance(value, float) else str(value)


def seal(value: Any, key: bytes, bound_to: str) -> str:
    if value == "":
        return ""
    nonce = os.urandom(32)
    sealed = AESGCM(key).encrypt(nonce, text_of(value).encode(), bound_to.encode())
    data, iv, tag = (base64.b64encode(part).decode() for part in (sealed[:-16], nonce, sealed[-16:]))
    return f"ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{KINDS[type(value)]}]"


class Sealer:
    """Encrypts what stands under some top-level keys, or all but what ends in ``_unencrypted``."""

    def __init__(self, recipient: Recipient, under: Sequence[str] = (), *, mac_only_encrypted: bool = False) -> None:
        self._recipient = recipient
        self._under = under
        self._only = mac_only_encrypted
        self._key = os.urandom(32)
        self._digest = hashlib.sha512(hashlib.sha256(b"sops").digest() if mac_only_encrypted else b"")

    def _sealed(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {name: self._sealed(item, (*path, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [self._sealed(item, path) for item in value]
        if value is None:
            return None
        hides = path[0] in self._under if self._under else not any(part.endswith("_unencrypted") for part in path)
        if hides or not self._only:
            self._digest.update(text_of(value).encode())
        return seal(value, self._key, ":".join(path) + ":") if hides else value

    def file(self, *documents: dict[str, Any]) -> str:
        """Return the text of a file with these documents, encrypted together."""
        sealed = [self._sealed(document, ()) for document in documents]
        rule = {"encrypted_regex": f"^({'|'.join(self._under)})$"} if self._under else {}
        metadata = {
            "age": [
                {"recipient": str(self._recipient), "enc": encrypt(self._key, [self._recipient], armored=True).decode()}
            ],
            "lastmodified": STAMP,
            "mac": seal(self._digest.hexdigest().upper(), self._key, STAMP),
            **rule,
            **({"mac_only_encrypted": True} if self._only else {}),
            "version": "3.11.0",
        }
        return "---\n".join(yaml.safe_dump({**one, "sops": metadata}, sort_keys=False) for one in sealed)


def new_key() -> tuple[Identity, str]:
    """Return a key and the text of its key file."""
    identity = Identity.generate()
    return identity, f"# created: today\n# public key: {identity.to_public()}\n{identity}\n"
