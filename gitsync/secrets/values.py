"""
Single values as SOPS writes them: ``ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]``, bound to their path.

Source: the SOPS documentation, "Encryption Protocol", and its behaviour: the additional data is the keys on the way,
each followed by a colon; places in a list do not count.
"""

from __future__ import annotations

import base64
import binascii
import re
from decimal import Decimal
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SEALED = re.compile(
    r"ENC\[AES256_GCM,data:([A-Za-z0-9+/=]*),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z0-9]+)\]", re.ASCII
)
_TRUE, _FALSE = "true", "false"


class DecryptionFailed(Exception):
    """A value is damaged, was moved to another place, or belongs to another key."""


def is_sealed(value: object) -> bool:
    """Return whether a value is encrypted."""
    return isinstance(value, str) and value.startswith("ENC[AES256_GCM,")


def open_value(text: str, key: bytes, bound_to: str) -> Any:
    """Return the value of an encrypted text; raise NotOpened, which quotes nothing of it."""
    match = _SEALED.fullmatch(text)
    if match is None:
        raise DecryptionFailed
    *parts, kind = match.groups()
    try:
        data, nonce, tag = (base64.b64decode(part, validate=True) for part in parts)
        plain = AESGCM(key).decrypt(nonce, data + tag, bound_to.encode())
        return _typed(plain, kind)
    except (InvalidTag, binascii.Error, ValueError):
        raise DecryptionFailed from None


def _typed(plain: bytes, kind: str) -> Any:
    text = plain.decode()
    match kind:
        case "str" | "bytes" | "time":
            return text
        case "int" | "int64":
            return int(text)
        case "float":
            return float(text)
        case "bool" if text.lower() in (_TRUE, _FALSE):
            return text.lower() == _TRUE
    raise DecryptionFailed


def bytes_of(value: Any) -> bytes:
    """Return a value as it counts in the checksum of a file."""
    if isinstance(value, bool):
        return b"True" if value else b"False"
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    return str(value).encode()
