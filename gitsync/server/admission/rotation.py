"""Keep the certificate of the admission webhook valid, trusted by the API server, and then served."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from gitsync.errors import Conflict, GitsyncError
from gitsync.server.admission.certificates import KeyPair, is_due, make_pair

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
        self._store, self._names, self._now = store, names, now
        self._served: KeyPair | None = None
        self._context: ssl.SSLContext | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    def context(self) -> ssl.SSLContext:
        """Return a context whose connections use the certificate of their time; ``check`` has been called."""
        if self._served is None:
            raise ValueError("no certificate is stored")
        first = self._served.context()
        first.sni_callback = self._choose
        return first

    def start(self) -> None:
        """Check at once, raising what goes wrong, and then from time to time."""
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
        if pair != self._served and (self._served is None or not is_new_to_server):
            self._context, self._served = pair.context(), pair

    def _current(self) -> KeyPair:
        """Return the stored certificate, renewed where that is due."""
        data, version = self._store.read()
        pair, now = KeyPair.of_secret(data), self._now()
        if pair is not None and not is_due(pair, self._names, now):
            return pair
        try:
            made = make_pair(self._names, now, pair.certificate if pair else "")
            self._store.write(made.to_secret(), version)
        except Conflict:
            _LOG.info("another replica renewed the certificate")
        stored = KeyPair.of_secret(self._store.read()[0])
        if stored is None:
            raise Conflict("the Secret of the certificate was deleted", hint="it is created again")
        return stored

    def _run(self) -> None:
        while not self._stopped.wait(_PERIOD):
            try:
                self.check()
            except GitsyncError as error:
                _LOG.warning("the certificate was not checked", extra={"reason": str(error)})

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Serve a new connection with the newest certificate."""
        if self._context is not None:
            connection.context = self._context
