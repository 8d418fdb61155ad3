"""What cosign writes into a registry: signatures of artifacts by keys of each kind, in each layout."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gitsync.integrations.registry import OCI_MANIFEST, digest_of
from gitsync.ports.source import ArtifactSignature
from tests.fakes.artifacts import ArtifactWeb

SIMPLE_SIGNING: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGNATURE_ARTIFACT: Final = "application/vnd.dev.cosign.artifact.sig.v1+json"
STATEMENT: Final = "application/vnd.in-toto+json"
SIGN: Final = "https://sigstore.dev/cosign/sign/v1"

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
KEYS: Final[dict[str, PrivateKey]] = {
    "ecdsa": ec.generate_private_key(ec.SECP256R1()),
    "rsa": rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}
ANN: Final = KEYS["ecdsa"]
BOB: Final = ec.generate_private_key(ec.SECP256R1())


def public(key: PrivateKey = ANN) -> str:
    """Return the text of ``cosign.pub``."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def signed_by(key: PrivateKey, message: bytes) -> bytes:
    """Return the signature of a message."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, padding.PKCS1v15(), SHA256())
    return key.sign(message)


def simple_statement(digest: str) -> bytes:
    """Return the payload of simple signing."""
    critical = {
        "identity": {"docker-reference": "r.example.com/team/web"},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def signature(digest: str, key: PrivateKey = ANN) -> ArtifactSignature:
    """Return a signature by simple signing."""
    statement = simple_statement(digest)
    return ArtifactSignature(statement, signed_by(key, statement))


def envelope(digest: str, key: PrivateKey = ANN, predicate: str = SIGN, kind: str = STATEMENT) -> ArtifactSignature:
    """Return a signature of a statement in a DSSE envelope."""
    subject = {"digest": {"sha256": digest.removeprefix("sha256:")}}
    statement = json.dumps(
        {"_type": "https://in-toto.io/Statement/v1", "subject": [subject], "predicateType": predicate}
    )
    encoded = f"DSSEv1 {len(kind)} {kind} {len(statement)} {statement}".encode()
    return ArtifactSignature(statement.encode(), signed_by(key, encoded), kind)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def simple_layer(signed: ArtifactSignature) -> tuple[bytes, dict[str, Any]]:
    """Return the blob of a signature, and its descriptor in the manifest."""
    notes = {"dev.cosignproject.cosign/signature": _text(signed.signature)}
    return signed.statement, {"mediaType": SIMPLE_SIGNING, "annotations": notes}


def bundle_layer(signed: ArtifactSignature) -> tuple[bytes, dict[str, Any]]:
    """Return the blob of a bundle, and its descriptor in the manifest."""
    content = {
        "mediaType": BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": {
            "payload": _text(signed.statement),
            "payloadType": signed.payload_type,
            "signatures": [{"sig": _text(signed.signature)}],
        },
    }
    return json.dumps(content).encode(), {"mediaType": BUNDLE}


def put_manifest(web: ArtifactWeb, *layers: tuple[bytes, dict[str, Any]], tag: str = "") -> str:
    """Have ``team/web`` have a manifest of layers, and return its digest."""
    listed = []
    for content, descriptor in layers:
        web.put(f"/v2/team/web/blobs/{digest_of(content)}", content)
        listed.append({**descriptor, "digest": digest_of(content), "size": len(content)})
    manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": listed}).encode()
    for reference in {tag, digest_of(manifest)} - {""}:
        web.put(f"/v2/team/web/manifests/{reference}", manifest)
    return digest_of(manifest)


def sign_by_tag(web: ArtifactWeb, digest: str, *signatures: ArtifactSignature) -> None:
    """Sign as ``cosign sign`` did until version 2: the signatures are layers of a tag that is made from the digest."""
    put_manifest(web, *map(simple_layer, signatures), tag=f"{digest.replace(':', '-')}.sig")


def refer(web: ArtifactWeb, digest: str, *referrers: tuple[str, str], has_api: bool = True) -> None:
    """Have manifests refer to an artifact, each with its type, by the API or by the tag in its place."""
    descriptors = [{"artifactType": kind, "digest": manifest} for kind, manifest in referrers]
    place = f"referrers/{digest}" if has_api else f"manifests/{digest.replace(':', '-')}"
    web.put(f"/v2/team/web/{place}", json.dumps({"schemaVersion": 2, "manifests": descriptors}))
