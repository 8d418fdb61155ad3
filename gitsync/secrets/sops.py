"""
SOPS: which manifests are encrypted, whether their file is as it was written, and what they say.

The checksum covers a file as it is in Git, while a render may add labels or a namespace. So the file is checked as it
was committed, and the values are opened where the render left them; each is bound to its path.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import re2
from pyrage.x25519 import Identity

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.secrets.age import opened
from gitsync.secrets.values import DecryptionFailed, bytes_of, is_sealed, open_value

MEMBER = "sops"
_SEED = hashlib.sha256(b"sops").digest()
"""What a checksum over encrypted values only begins with, so that it differs from one over all."""
_DEFAULT_SUFFIX = "_unencrypted"
_COMMENT_RULES = ("encrypted_comment_regex", "unencrypted_comment_regex")

Path = tuple[str, ...]
Rule = Callable[[Path], bool]


def is_encrypted(manifest: Manifest) -> bool:
    """Return whether a manifest is marked as encrypted by SOPS."""
    metadata = manifest.get(MEMBER)
    return isinstance(metadata, dict) and isinstance(metadata.get("mac"), str)


def decrypt(
    manifest: Manifest, documents: Iterable[Any], identities: Sequence[Identity], *, location: str, subject: str
) -> Manifest:
    """
    Return a rendered manifest with its values in the clear and without its ``sops`` member.

    ``documents`` are those of the file that it comes from, as committed. Raise InvalidInput, which names ``where`` and
    ``subject`` and never a value, when no key fits, or the file or a value was tampered with.
    """
    metadata: Mapping[str, Any] = manifest[MEMBER]

    def wrong(what: str, hint: str) -> InvalidInput:
        return InvalidInput(what, location=location, object=subject, hint=hint)

    if any(metadata.get(name) for name in _COMMENT_RULES):
        raise wrong("is encrypted by a rule on comments, which no render keeps", "use encrypted_regex")
    key = _data_key(metadata, identities)
    if key is None:
        raise wrong("is encrypted by SOPS to none of the age keys given", "encrypt it to one of them: sops updatekeys")
    try:
        encrypts = _rule(metadata)
        together = [_content(one) for one in documents if isinstance(one, dict) and _is_together(one, metadata)]
        found = _checksum(together, key, encrypts, only_encrypted=_is_true(metadata.get("mac_only_encrypted")))
        written = open_value(str(metadata["mac"]), key, str(metadata.get("lastmodified", "")))
        if not hmac.compare_digest(found, str(written)):
            raise wrong("was changed after SOPS encrypted it: its MAC does not fit", "edit it with sops")
        result: Manifest = _decrypted(_content(manifest), (), key)
    except DecryptionFailed:
        raise wrong(
            "has an encrypted value that is damaged or was moved from another place", "edit it with sops"
        ) from None
    except re2.error:
        raise wrong("has a sops member with an invalid regular expression", "correct it") from None
    return result


def _data_key(metadata: Mapping[str, Any], identities: Sequence[Identity]) -> bytes | None:
    recipients = metadata.get("age")
    entries = recipients if isinstance(recipients, list) else []
    key = opened((str(entry.get("enc", "")) for entry in entries if isinstance(entry, dict)), identities)
    return key if key is not None and len(key) == 32 else None


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != MEMBER}


def _is_together(document: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a document of the file was encrypted together with the one that has this metadata."""
    other = document.get(MEMBER)
    return isinstance(other, dict) and other.get("mac") == metadata["mac"]


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "t", "1")


def _rule(metadata: Mapping[str, Any]) -> Rule:
    """Return which paths are encrypted."""
    for name, is_inside in (("encrypted_regex", True), ("unencrypted_regex", False)):
        if metadata.get(name):
            pattern = re2.compile(str(metadata[name]))
            return lambda path: any(pattern.search(part) for part in path) is is_inside
    if metadata.get("encrypted_suffix"):
        suffix = str(metadata["encrypted_suffix"])
        return lambda path: any(part.endswith(suffix) for part in path)
    without = str(metadata.get("unencrypted_suffix") or _DEFAULT_SUFFIX)
    return lambda path: not any(part.endswith(without) for part in path)


def _checksum(documents: Iterable[Mapping[str, Any]], key: bytes, encrypts: Rule, *, only_encrypted: bool) -> str:
    """Return the checksum of documents as SOPS makes it: SHA-512 over their values in the order of the file."""
    digest = hashlib.sha512(_SEED if only_encrypted else b"")
    for document in documents:
        for path, value in _leaves(document, ()):
            is_hidden = encrypts(path)
            if is_hidden and value != "":
                if not isinstance(value, str):
                    raise DecryptionFailed
                value = open_value(value, key, _bound_to(path))
            if is_hidden or not only_encrypted:
                digest.update(bytes_of(value))
    return digest.hexdigest().upper()


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, path)
    elif value is not None:
        yield path, value


def _decrypted(value: Any, path: Path, key: bytes) -> Any:
    if isinstance(value, dict):
        return {name: _decrypted(item, (*path, name), key) for name, item in value.items()}
    if isinstance(value, list):
        return [_decrypted(item, path, key) for item in value]
    return open_value(value, key, _bound_to(path)) if is_sealed(value) else value


def _bound_to(path: Path) -> str:
    return "".join(f"{part}:" for part in path)
