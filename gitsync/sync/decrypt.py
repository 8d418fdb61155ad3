"""Decrypt the Secrets of a build, in memory only."""

from __future__ import annotations

from collections.abc import Sequence

from pyrage.x25519 import Identity

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import Tree
from gitsync.plan.mask import is_secret
from gitsync.render.build import Build
from gitsync.render.resources.resource import Origin
from gitsync.render.yaml.reader import read_all
from gitsync.secrets import decrypt, identities_of, is_encrypted

_WHERE = "spec.source.decryption.secretRef.name"


def decrypt_manifests(build: Build, tree: Tree, keys: Sequence[str]) -> tuple[Manifest, ...]:
    """
    Return the manifests of a build with SOPS-encrypted Secrets decrypted; ``tree`` has their files.

    Only Secrets may be encrypted, since the values of other kinds are shown. Raise InvalidInput with file and object
    when one cannot be decrypted.
    """
    identities = tuple(identity for key in keys for identity in identities_of(key, _WHERE))
    pairs = zip(build.manifests, build.sources, strict=True)
    return tuple(
        _decrypted(manifest, origin, tree, identities) if is_encrypted(manifest) else manifest
        for manifest, origin in pairs
    )


def _decrypted(manifest: Manifest, origin: Origin, tree: Tree, identities: Sequence[Identity]) -> Manifest:
    ref = ref_of(manifest)
    if not is_secret(ref):
        raise InvalidInput(
            f"a {ref.kind} is encrypted by SOPS, but its values would be shown in plans and diffs",
            location=origin.file,
            object=str(ref),
            hint="put what is secret into a Secret, and refer to that",
        )
    documents = read_all(tree.read(origin.file), origin.file)
    return decrypt(manifest, documents, identities, location=origin.file, subject=str(ref))
