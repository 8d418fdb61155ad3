"""Connections that the API server opens itself: whom they trust, and their failures in the words of Go."""

from __future__ import annotations

import base64
import ssl


def client_context(bundle: str) -> ssl.SSLContext:
    """Return the context that trusts a ``caBundle``, or the system's authorities where it is empty; raise SSLError."""
    text = base64.b64decode(bundle).decode("ascii", "backslashreplace")  # anything but PEM is an SSLError
    context = ssl.create_default_context(cadata=text or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the bundle may be the server's own certificate
    return context


def go_text(error: Exception, host: str | None, port: int) -> str:
    """Return what Go says of a failed connection."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {host}:{port}: connect: connection refused"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(error, ConnectionResetError):
        return "EOF"
    return str(error)
