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
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any, Final

import re2

from gitsync.errors import GitsyncError, InvalidInput
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


AGE: Final = "age"
MASTER_KEYS: Final = {
    AGE: "age",
    "pgp": "OpenPGP",
    "kms": "AWS KMS",
    "gcp_kms": "GCP KMS",
    "azure_kv": "Azure Key Vault",
    "hc_vault": "Vault",
}
"""The members of ``sops`` with master keys, those first that need no request, and what users call them."""
_MOST_MASTER_KEYS: Final = 64
"""Entries of one file that are tried: its authors choose how many there are, and each may be a request."""

AGE_SUFFIX: Final = ".agekey"
PGP_SUFFIX: Final = ".asc"
AWS_MEMBER: Final = "sops.aws-kms"
GCP_MEMBER: Final = "sops.gcp-kms"
AZURE_MEMBER: Final = "sops.azure-kv"
VAULT_TOKEN: Final = "sops.vault-token"
VAULT_ADDRESS: Final = "sops.vault-address"
VAULT_AUTHORITIES: Final = "sops.vault-ca.crt"
_MEMBERS: Final = frozenset({AWS_MEMBER, GCP_MEMBER, AZURE_MEMBER, VAULT_TOKEN, VAULT_ADDRESS, VAULT_AUTHORITIES})


def is_key_member(name: str) -> bool:
    """Return whether a member of a Secret has keys or credentials that decrypt, by the names that Flux gives them."""
    return name.endswith((AGE_SUFFIX, PGP_SUFFIX)) or name in _MEMBERS


@dataclass(frozen=True, slots=True)
class DecryptionKeys:
    """
    What decrypts the files of an Application: the members of its Secrets that have keys or credentials, as text.

    With ``is_shared``, other teams may have encrypted files to them: a Secret is only decrypted where its file names
    the namespace and name that it gets.
    """

    secrets: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    is_shared: bool = False

    @property
    def age_files(self) -> tuple[str, ...]:
        """The age key files."""
        return tuple(text for secret in self.secrets for name, text in secret.items() if name.endswith(AGE_SUFFIX))


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """
    A data key, or a share of one, as a master key encrypted it: an entry of ``sops``, in its words.

    ``kind`` is one of MASTER_KEYS. Authors of commits write the entry, so it is not where credentials may be sent to.
    """

    kind: str
    entry: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a member of the entry, empty where it has none that is a text."""
        value = self.entry.get(name)
        return value if isinstance(value, str) else ""


OpenKey = Callable[[WrappedKey], bytes | None]
"""Return a data key, or a share of one, in the clear; None where no key or credential for it was given."""


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
    manifest: Manifest, documents: Iterable[Any], open_key: OpenKey, *, location: str, subject: str
) -> Manifest:
    """
    Return a rendered manifest with its values in the clear and without its ``sops`` member.

    ``documents`` are those of the file that it comes from, as committed. Raise InvalidInput, which names ``location``
    and ``subject`` and never a value, when no key fits, or the file or a value was tampered with; and what ``open_key``
    raises, where no other key fits.
    """
    metadata: Mapping[str, Any] = manifest[MEMBER]

    def wrong(what: str, hint: str) -> InvalidInput:
        return InvalidInput(what, location=location, object=subject, hint=hint)

    if any(metadata.get(name) for name in _COMMENT_RULES):
        raise wrong("is encrypted by a rule on comments, which no render keeps", "use encrypted_regex")
    groups = _key_groups(metadata)
    if sum(map(len, groups)) > _MOST_MASTER_KEYS:
        raise wrong(f"is encrypted by SOPS to more than {_MOST_MASTER_KEYS} keys", "remove some: sops updatekeys")
    try:
        key = _data_key(groups, metadata, open_key)
    except GitsyncError as error:
        error.location = location
        error.object = subject
        raise
    if key is None:
        kinds = dict.fromkeys(MASTER_KEYS[wrapped.kind] for group in groups for wrapped in group)
        raise wrong(
            f"is encrypted by SOPS for {', '.join(kinds) or 'no key'}, and none of the keys given opens it",
            "encrypt it to one of them: sops updatekeys",
        )
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


def _key_groups(metadata: Mapping[str, Any]) -> tuple[tuple[WrappedKey, ...], ...]:
    """Return the master keys of a file: one of a group opens its share of the data key, or all of it if it is alone."""
    # as SOPS reads it: groups count only where the file has no keys beside them
    alone = _master_keys(metadata)
    groups = metadata.get("key_groups")
    if alone or not isinstance(groups, list):
        return (alone,) if alone else ()
    return tuple(_master_keys(group) for group in groups if isinstance(group, dict))


def _master_keys(group: Mapping[str, Any]) -> tuple[WrappedKey, ...]:
    lists = ((kind, group.get(kind)) for kind in MASTER_KEYS)
    return tuple(
        WrappedKey(kind, entry)
        for kind, entries in lists
        if isinstance(entries, list)
        for entry in entries
        if isinstance(entry, dict)
    )


def _data_key(groups: Sequence[Sequence[WrappedKey]], metadata: Mapping[str, Any], open_key: OpenKey) -> bytes | None:
    """Return the data key of a file, None where too few groups have a key that fits."""
    threshold = len(groups)
    if len(groups) > 1 and isinstance(written := metadata.get("shamir_threshold"), int):
        threshold = min(max(written, 2), len(groups))
    shares: list[bytes] = []
    failure: GitsyncError | None = None
    for group in groups:
        try:
            share = _share(group, open_key)
        except GitsyncError as error:
            failure = failure or error
            continue
        if share is not None:
            shares.append(share)
        if len(shares) == threshold:
            break
    if not shares or len(shares) < threshold:
        if failure is not None:
            raise failure
        return None
    key = shares[0] if len(groups) == 1 else _combined(shares)
    return key if len(key) == 32 else None


def _share(group: Sequence[WrappedKey], open_key: OpenKey) -> bytes | None:
    """Return what the first master key of a group opens; raise why one failed where none does."""
    failure: GitsyncError | None = None
    for wrapped in group:
        try:
            share = open_key(wrapped)
        except GitsyncError as error:
            failure = failure or error
            continue
        if share is not None:
            return share
    if failure is not None:
        raise failure
    return None


def _combined(shares: Sequence[bytes]) -> bytes:
    """
    Return what was divided by Shamir's scheme, each byte by a polynomial over GF(2^8); empty for shares that fit not.

    The last byte of a share is its x. Source: the package ``shamir`` of SOPS; the field is the one of AES.
    """
    xs = [share[-1] for share in shares if share]
    if len({len(share) for share in shares}) != 1 or len(set(xs)) != len(shares):
        return b""
    # Lagrange at 0, where subtraction is xor: the product of x_j / (x_i - x_j)
    weights = [reduce(_times, (_times(other, _inverse(x ^ other)) for other in xs if other != x), 1) for x in xs]
    return bytes(
        reduce(xor, (_times(weight, share[index]) for weight, share in zip(weights, shares, strict=True)))
        for index in range(len(shares[0]) - 1)
    )


def _times(left: int, right: int) -> int:
    product = 0
    while right:
        if right & 1:
            product ^= left
        left <<= 1
        if left & 0x100:
            left ^= 0x11B  # the polynomial of AES
        right >>= 1
    return product


def _inverse(value: int) -> int:
    return reduce(_times, [value] * 254, 1)  # the group of the field has 255 members


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


def open_by_age(wrapped: WrappedKey, identities: Sequence[Identity]) -> bytes | None:
    """Return the data key that one of the age keys opens, None when none does."""
    from pyrage import DecryptError
    from pyrage import decrypt as open_message

    try:
        return bytes(open_message(wrapped.text("enc").encode(), identities))
    except DecryptError:
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
