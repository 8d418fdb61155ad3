"""Certificates of the admission webhook: each is its own trust anchor, so no key of an authority is kept."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=90)
_EARLY = timedelta(hours=1)
"""How long before its creation a certificate is valid, for clocks that are behind."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its key, and the certificate that was served before, as PEM."""

    certificate: str
    key: str
    previous: str = ""

    @classmethod
    def of_secret(cls, data: Mapping[str, str]) -> KeyPair | None:
        """Return the pair of the members of a Secret, None where it has none."""
        if not data.get("tls.crt") or not data.get("tls.key"):
            return None
        return cls(data["tls.crt"], data["tls.key"], data.get("previous.crt", ""))

    def to_secret(self) -> dict[str, str]:
        """Return the members of a Secret of type ``kubernetes.io/tls``."""
        found = {"tls.crt": self.certificate, "tls.key": self.key}
        return found | ({"previous.crt": self.previous} if self.previous else {})

    @property
    def bundle(self) -> str:
        """What clients trust: during a rotation some replicas serve the previous one."""
        return self.certificate + self.previous

    def context(self) -> ssl.SSLContext:
        """Return the context to serve with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
            file = Path(folder) / "server.pem"
            file.touch(mode=0o600)
            file.write_text(self.certificate + self.key, encoding="ascii")
            context.load_cert_chain(file)
        return context


def make_pair(names: Sequence[str], now: datetime, previous: str = "") -> KeyPair:
    """Return a new self-signed certificate of a server with these DNS names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gitsync-webhook")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(pem).decode(), text.decode(), previous)


def is_due(pair: KeyPair, names: Sequence[str], now: datetime) -> bool:
    """Whether a certificate has to be replaced: two thirds of its lifetime have passed, or it is for other names."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return True
    is_other = set(found) != {_general_name(name) for name in names}
    return is_other or now >= certificate.not_valid_after_utc - LIFETIME / 3


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
