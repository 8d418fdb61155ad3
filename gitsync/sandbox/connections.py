"""Connections that the API server opens itself: calls of webhooks, whom they trust, and failures in the words of Go."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

# Bytes of an answer, far above any object with its patch.
_LIMIT = 16 * 1024 * 1024

Review = dict[str, Any]
"""What a webhook is sent, and what it answers: an AdmissionReview or a ConversionReview."""


class WebhookError(Exception):
    """A webhook that could not be called, or gave no usable answer; the text is the API server's."""


def webhook_url(client: Mapping[str, Any], seconds: int, has_service: Callable[[str, str], bool]) -> str:
    """
    Return the URL of a webhook's ``clientConfig`` with its timeout; raise WebhookError for a Service.

    Simulated pods answer nothing, so a Service is never reached; ``has_service`` only decides about the reason.
    """
    timeout = f"timeout={seconds}s"
    if client.get("url"):
        url = str(client["url"])
        return f"{url}{'&' if '?' in url else '?'}{timeout}"
    service = client["service"]
    path = str(service.get("path") or "/").lstrip("/")
    host = f"{service['name']}.{service['namespace']}.svc"
    url = f"https://{host}:{service.get('port', 443)}/{path}?{timeout}"
    if not has_service(service["namespace"], service["name"]):
        raise WebhookError(f'Post "{url}": service "{service["name"]}" not found')
    raise WebhookError(f'Post "{url}": no endpoints available for service "{service["name"]}"')


def post_review(client: Mapping[str, Any], url: str, review: Review, seconds: float) -> Review:
    """
    Send a review by POST and return the answer; raise WebhookError.

    The certificate must be signed by the ``caBundle``. The sandbox answers no other request meanwhile.
    """
    parts = urlsplit(url)
    port = parts.port or 443
    try:
        context = client_context(client.get("caBundle") or "")
    except ssl.SSLError as error:
        raise WebhookError("unable to load root certificates") from error
    connection = http.client.HTTPSConnection(parts.hostname or "", port, timeout=seconds, context=context)
    try:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        connection.request("POST", f"{parts.path or '/'}?{parts.query}", orjson.dumps(review), headers)
        with connection.getresponse() as answer:  # closes the socket also where the body is not read to its end
            body = answer.read(_LIMIT)
    except (OSError, http.client.HTTPException) as error:
        raise WebhookError(f'Post "{url}": {go_text(error, parts.hostname, port)}') from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise WebhookError(_status_text(answer.status, body))
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise WebhookError("invalid character in the answer") from error
    if not isinstance(decoded, dict):
        raise WebhookError("the answer is not a review")
    return decoded


def _status_text(status: int, body: bytes) -> str:
    """Return what client-go makes of an answer that is an error (NewGenericServerResponse)."""
    if status >= 500:
        return 'an error on the server ("unknown") has prevented the request from succeeding'
    if status == 404:
        return "the server could not find the requested resource"
    text = body.decode("utf-8", "replace").strip()
    return f"the server rejected our request for an unknown reason: {text[:200]}"


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
