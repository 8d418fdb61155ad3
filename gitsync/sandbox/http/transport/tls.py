"""A self-signed certificate per sandbox: kubectl sends no token over plain HTTP."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
# The last is the cluster IP of the Service kubernetes, which pods read in KUBERNETES_SERVICE_HOST.
_ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM text: the authority clients trust, the server's certificate signed by it, and its key."""

    authority: str
    certificate: str
    key: str

    def server_context(self) -> ssl.SSLContext:
        """Return the context to serve with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Serve new connections of a context with this certificate, in the place of the one it had."""
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
            file = Path(folder) / "server.pem"
            file.touch(mode=0o600)
            file.write_text(self.certificate + self.key, encoding="ascii")
            context.load_cert_chain(file)


def make_certificate(now: datetime | None = None) -> Certificate:
    """Make a new authority and a server certificate for loopback."""
    # late: cryptography takes longer to import than everything else here, and not every start makes one
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    # Clocks of clients may be behind.
    start = (now or datetime.now(UTC)) - timedelta(hours=1)

    def builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    def usage(*, signs: bool) -> x509.KeyUsage:
        return x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=signs,
            crl_sign=signs,
            encipher_only=False,
            decipher_only=False,
        )

    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority = (
        builder("gitsync-sandbox-ca", "gitsync-sandbox-ca", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES]
    server = (
        builder("gitsync-sandbox", "gitsync-sandbox-ca", server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(authority.public_bytes(pem).decode(), server.public_bytes(pem).decode(), key.decode())
