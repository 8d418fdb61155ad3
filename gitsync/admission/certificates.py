"""Certificates of the admission webhook: each is its own trust anchor, so no key of an authority is kept."""

from __future__ import annotations

import ipaddress
import logging
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gitsync.errors import Conflict, GitsyncError

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
        files = {"tls.crt": self.certificate, "tls.key": self.key}
        return files | ({"previous.crt": self.previous} if self.previous else {})

    @property
    def bundle(self) -> str:
        """What clients trust: during a rotation some replicas serve the previous one."""
        # a PEM bundle may hold several certificates: each is a trust anchor
        return self.certificate + self.previous

    def context(self) -> ssl.SSLContext:
        """Return the context to serve with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads keys from files only
            file = Path(folder) / "server.pem"
            # before the content is written: the key is never readable for others
            file.touch(mode=0o600)
            file.write_text(self.certificate + self.key, encoding="ascii")
            context.load_cert_chain(file)
        return context


def make_pair(names: Sequence[str], now: datetime, previous: str = "") -> KeyPair:
    """Return a new self-signed certificate of a server with these DNS names and addresses."""
    # a new key for each certificate: none is in use for longer than LIFETIME
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
        # its key can sign no other certificate, although clients have it as a trust anchor
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # Go's TLS client, which the API server is, ignores the common name
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    # not encrypted: its password would have to be stored beside it, in the same Secret
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(pem).decode(), text.decode(), previous)


def is_due(pair: KeyPair, names: Sequence[str], now: datetime) -> bool:
    """Whether a certificate has to be replaced: two thirds of its lifetime have passed, or it is for other names."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    # an unreadable certificate is replaced
    except (ValueError, x509.ExtensionNotFound):
        return True
    is_other = set(covered) != {_general_name(name) for name in names}
    return is_other or now >= certificate.not_valid_after_utc - LIFETIME / 3


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    # Go compares addresses with the IP entries only, names with the DNS entries only
    except ValueError:
        return x509.DNSName(name)


_LOG = logging.getLogger(__name__)
_PERIOD = 10.0
"""Seconds between two checks."""


class CertificateStore(Protocol):
    """Where replicas share their certificate, and where the API server reads what to trust."""

    def read(self) -> tuple[dict[str, str], str]:
        """Return what is stored with its version; both are empty where nothing is."""
        ...

    def write(self, data: Mapping[str, str], version: str) -> None:
        """Store a certificate; raise Conflict when another one was stored since this version was read."""
        ...

    def trust(self, bundle: str) -> bool:
        """Let the API server trust these certificates; return whether it did not yet."""
        ...


class CertificateRotation:
    """
    Renew the certificate of all replicas, and serve it once the API server trusts it.

    A replica serves a new certificate one period after it was made trusted: an API server reads that from a watch.
    """

    def __init__(self, store: CertificateStore, names: Sequence[str], now: Callable[[], datetime]) -> None:
        self._store = store
        self._names = names
        self._now = now
        self._served: KeyPair | None = None
        self._context: ssl.SSLContext | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    def context(self) -> ssl.SSLContext:
        """Return a context whose connections use the certificate of their time; ``check`` has been called."""
        if self._served is None:
            raise ValueError("no certificate is stored")
        first = self._served.context()
        # the SSLContext of a listening socket cannot be replaced: SNI chooses another one for each connection
        first.sni_callback = self._choose
        return first

    def start(self) -> None:
        """Check at once, raising what goes wrong, and then from time to time."""
        # the first check raises: without any certificate there is nothing to serve
        self.check()
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._stopped.set()
        self._thread.join()

    def check(self) -> None:
        """Renew the certificate where that is due, and serve what the API server trusts."""
        pair = self._current()
        is_new_to_server = self._store.trust(pair.bundle)
        # the first check has none that could be served in the meantime
        if pair != self._served and (self._served is None or not is_new_to_server):
            self._context = pair.context()
            self._served = pair

    def _current(self) -> KeyPair:
        """Return the stored certificate, renewed where that is due."""
        data, version = self._store.read()
        pair = KeyPair.of_secret(data)
        now = self._now()
        if pair is not None and not is_due(pair, self._names, now):
            return pair
        try:
            # the served one remains trusted until every replica serves the new one
            made = make_pair(self._names, now, pair.certificate if pair else "")
            self._store.write(made.to_secret(), version)
        # the other replica's is as good: it is read below
        except Conflict:
            _LOG.info("another replica renewed the certificate")
        # read again: which of two replicas was first is known to the API server only
        stored = KeyPair.of_secret(self._store.read()[0])
        if stored is None:
            raise Conflict("the Secret of the certificate was deleted", hint="it is created again")
        return stored

    def _run(self) -> None:
        while not self._stopped.wait(_PERIOD):
            try:
                self.check()
            # the served certificate is valid for weeks: the next check tries again
            except GitsyncError as error:
                _LOG.warning("the certificate was not checked", extra={"reason": str(error)})

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Serve a new connection with the newest certificate."""
        # without SNI the callback is called too, with no name
        if self._context is not None:
            connection.context = self._context
