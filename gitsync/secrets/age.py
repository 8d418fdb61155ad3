"""Decrypt what was encrypted to one of a user's keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyrage import DecryptError, IdentityError, decrypt
from pyrage.x25519 import Identity

from gitsync.errors import InvalidInput


def identities_of(text: str, location: str) -> tuple[Identity, ...]:
    """Return the keys of an age key file; raise InvalidInput, with none of its text, when it is none."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        return tuple(Identity.from_str(line) for line in lines if line and not line.startswith("#"))
    except IdentityError:
        raise InvalidInput("is not an age key file", location=location, hint="put in what age-keygen writes") from None


def opened(armored: Iterable[str], identities: Sequence[Identity]) -> bytes | None:
    """Return what the first of these messages says that one of the keys opens; None when none does."""
    for message in armored:
        try:
            return bytes(decrypt(message.encode(), identities))
        except DecryptError:
            continue
    return None
