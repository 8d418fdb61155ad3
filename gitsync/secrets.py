"""
SOPS: which manifests are encrypted, whether their file is as it was written, and what they say.

The checksum covers a file as it is in Git, while a render may add labels or a namespace. So the file is checked as it
was committed, and the values are opened where the render left them; each is bound to its path.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import re2

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ObjectRef

if TYPE_CHECKING:
    from pyrage.x25519 import Identity

MEMBER = "sops"
_SEED = hashlib.sha256(b"sops").digest()
"""What a checksum over encrypted values only begins with, so that it differs from one over all."""
_DEFAULT_SUFFIX = "_unencrypted"
_COMMENT_RULES = ("encrypted_comment_regex", "unencrypted_comment_regex")

Path = tuple[str, ...]
Rule = Callable[[Path], bool]
# A value is ``ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]``. Source: the SOPS documentation, "Encryption Protocol",
# and its behaviour: the additional data is the keys on the way, each with a colon behind it; indexes do not count.
_SEALED = re.compile(
    r"ENC\[AES256_GCM,data:([A-Za-z0-9+/=]*),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z0-9]+)\]", re.ASCII
)
_TRUE = "true"
_FALSE = "false"


@dataclass(frozen=True, slots=True)
class AgeKeys:
    """
    The age key files of an Application, as text.

    With ``is_shared``, other teams may have encrypted files to them: a Secret is only decrypted where its file names
    the namespace and name that it gets.
    """

    texts: tuple[str, ...] = ()
    is_shared: bool = False


class DecryptionFailed(Exception):
    """A value is damaged, was moved to another place, or belongs to another key."""


def identities_of(text: str, location: str) -> tuple[Identity, ...]:
    """Return the keys of an age key file; raise InvalidInput, with none of its text, when it is none."""
    # late, as cryptography below: both take 8 MiB in each process, and few of them decrypt
    from pyrage import IdentityError
    from pyrage.x25519 import Identity

    lines = [line.strip() for line in text.splitlines()]
    try:
        return tuple(Identity.from_str(line) for line in lines if line and not line.startswith("#"))
    except IdentityError:
        raise InvalidInput("is not an age key file", location=location, hint="put in what age-keygen writes") from None


def is_encrypted(manifest: Manifest) -> bool:
    """Return whether a manifest is marked as encrypted by SOPS."""
    metadata = manifest.get(MEMBER)
    return isinstance(metadata, dict) and isinstance(metadata.get("mac"), str)


def decrypt(
    manifest: Manifest, documents: Iterable[Any], identities: Sequence[Identity], *, location: str, subject: str
) -> Manifest:
    """
    Return a rendered manifest with its values in the clear and without its ``sops`` member.

    ``documents`` are those of the file that it comes from, as committed. Raise InvalidInput, which names ``location``
    and ``subject`` and never a value, when no key fits, or the file or a value was tampered with.
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
        together = [
            _content(document)
            for document in documents
            if isinstance(document, dict) and _is_together(document, metadata)
        ]
        checksum = _checksum(together, key, encrypts, only_encrypted=_is_true(metadata.get("mac_only_encrypted")))
        written = _open_value(str(metadata["mac"]), key, str(metadata.get("lastmodified", "")))
        # In constant time, as for any comparison of a MAC.
        if not hmac.compare_digest(checksum, str(written)):
            raise wrong("was changed after SOPS encrypted it: its MAC does not fit", "edit it with sops")
        result: Manifest = _decrypted(_content(manifest), (), key)
    except DecryptionFailed:
        raise wrong(
            "has an encrypted value that is damaged or was moved from another place", "edit it with sops"
        ) from None
    except re2.error:
        raise wrong("has a sops member with an invalid regular expression", "correct it") from None
    return result


def check_binding(
    manifest: Manifest, documents: Iterable[Any], target: ObjectRef, *, is_shared: bool, location: str
) -> None:
    """
    Raise InvalidInput unless a manifest may become ``target``: its file names that namespace, or names none.

    The MAC covers the namespace and name of a file: with a key that several teams have, a copy of it in another
    repository would otherwise show the Secret of another team. With a shared key the file has to name both.
    """
    together = [item for item in documents if isinstance(item, dict) and _is_together(item, manifest[MEMBER])]
    metadata = [metadata_of(document) for document in together]
    namespaces = {str(name) for item in metadata if (name := item.get("namespace"))}
    if namespaces and target.namespace not in namespaces:
        raise InvalidInput(
            f"was encrypted for namespace {', '.join(sorted(namespaces))}, and would be decrypted in"
            f" {target.namespace}",
            location=location,
            object=str(target),
            hint="encrypt a file of its own for this namespace, or one that names none",
        )
    # A MAC over encrypted values alone lets everyone write another namespace or name into the file.
    is_covered = not _is_true(manifest[MEMBER].get("mac_only_encrypted"))
    names = {(item.get("namespace"), item.get("name")) for item in metadata} if is_covered else set()
    if is_shared and (target.namespace, target.name) not in names:
        raise InvalidInput(
            "is encrypted to keys that other teams may use, and its file does not name"
            f" {target.namespace}/{target.name}",
            location=location,
            object=str(target),
            hint="encrypt it with metadata.namespace and metadata.name, without mac_only_encrypted; or set"
            " decryption.ownKey in the Tenant where only it has the keys",
        )


def _data_key(metadata: Mapping[str, Any], identities: Sequence[Identity]) -> bytes | None:
    recipients = metadata.get("age")
    entries = recipients if isinstance(recipients, list) else []
    key = _opened((str(entry.get("enc", "")) for entry in entries if isinstance(entry, dict)), identities)
    return key if key is not None and len(key) == 32 else None


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != MEMBER}


def _is_together(document: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Return whether a document of the file was encrypted together with the one that has this metadata."""
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
            # SOPS leaves an empty text as it is.
            if is_hidden and value != "":
                if not isinstance(value, str):
                    raise DecryptionFailed
                value = _open_value(value, key, _bound_to(path))
            if is_hidden or not only_encrypted:
                digest.update(_bytes_of(value))
    return digest.hexdigest().upper()


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list):
        # SOPS binds a value to the keys on its way; indexes of lists do not count.
        for item in value:
            yield from _leaves(item, path)
    elif value is not None:
        yield path, value


def _decrypted(value: Any, path: Path, key: bytes) -> Any:
    if isinstance(value, dict):
        return {name: _decrypted(item, (*path, name), key) for name, item in value.items()}
    if isinstance(value, list):
        return [_decrypted(item, path, key) for item in value]
    return _open_value(value, key, _bound_to(path)) if _is_sealed(value) else value


def _bound_to(path: Path) -> str:
    return "".join(f"{part}:" for part in path)


def _opened(armored: Iterable[str], identities: Sequence[Identity]) -> bytes | None:
    """Return what the first of these messages says that one of the keys opens; None when none does."""
    from pyrage import DecryptError
    from pyrage import decrypt as open_message

    for message in armored:
        try:
            return bytes(open_message(message.encode(), identities))
        except DecryptError:
            continue
    return None


def _is_sealed(value: object) -> bool:
    """Return whether a value is encrypted."""
    return isinstance(value, str) and value.startswith("ENC[AES256_GCM,")


def _open_value(text: str, key: bytes, bound_to: str) -> Any:
    """Return the value of an encrypted text; raise DecryptionFailed, which quotes nothing of it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

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


def _bytes_of(value: Any) -> bytes:
    """Return a value as it counts in the checksum of a file."""
    if isinstance(value, bool):
        return b"True" if value else b"False"
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    return str(value).encode()
