"""The other side of SOPS, for tests: encrypt documents as its format describes, to an age key or another master key."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
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

    def __init__(
        self,
        recipient: Recipient | None,
        under: Sequence[str] = (),
        *,
        mac_only_encrypted: bool = False,
        wrap: Callable[[bytes], dict[str, Any]] | None = None,
    ) -> None:
        """``wrap`` returns the members of ``sops`` with the encrypted data key, else it is encrypted to an age key."""
        self._wrap = wrap or (lambda key: {"age": [wrapped_by_age(key, recipient)]})
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
            **self._wrap(self._key),
            "lastmodified": STAMP,
            "mac": seal(self._digest.hexdigest().upper(), self._key, STAMP),
            **rule,
            **({"mac_only_encrypted": True} if self._only else {}),
            "version": "3.11.0",
        }
        return "---\n".join(yaml.safe_dump({**one, "sops": metadata}, sort_keys=False) for one in sealed)


def wrapped_by_age(key: bytes, recipient: Recipient) -> dict[str, str]:
    return {"recipient": str(recipient), "enc": encrypt(key, [recipient], armored=True).decode()}


def shares_of(secret: bytes, count: int, threshold: int) -> list[bytes]:
    """Divide a secret by Shamir's scheme over GF(2^8), as SOPS does for key groups; the last byte is the x."""
    polynomials = [[byte, *os.urandom(threshold - 1)] for byte in secret]
    return [bytes([*(_value_at(x, terms) for terms in polynomials), x]) for x in range(1, count + 1)]


def _value_at(x: int, terms: Sequence[int]) -> int:
    value = 0
    for term in reversed(terms):
        value = _product(value, x) ^ term
    return value


def _product(left: int, right: int) -> int:
    """Multiply as polynomials, then reduce by that of AES: another way than the one that is tested."""
    product = 0
    for bit in range(8):
        product ^= (left << bit) * (right >> bit & 1)
    for bit in range(15, 7, -1):
        product ^= (0x11B << (bit - 8)) * (product >> bit & 1)
    return product


def new_key() -> tuple[Identity, str]:
    """Return a key and the text of its key file."""
    identity = Identity.generate()
    return identity, f"# created: today\n# public key: {identity.to_public()}\n{identity}\n"
