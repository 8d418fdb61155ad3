"""The request that an aggregated API server has to answer: the discovery of its group version."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.connections import client_context, go_text

_TIMEOUT = 1.0
"""Seconds for an answer on loopback; the sandbox waits meanwhile."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine; a sandbox connects to nothing else."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def discovery_error(spec: Manifest, host: str, port: int) -> str:
    """Request the discovery of an APIService's group version; return why that failed, empty where it did not."""
    path = f"/apis/{spec['group']}/{spec['version']}"
    url = f"https://{host}:{port}{path}"
    if not is_loopback(host):
        return f'failing or missing response from {url}: Get "{url}": dial tcp: lookup {host}: no such host'
    address = "127.0.0.1" if host == "localhost" else host
    try:
        status = _get(spec, (address, port), path)
    except (OSError, http.client.HTTPException) as error:
        return f'failing or missing response from {url}: Get "{url}": {go_text(error, address, port)}'
    return "" if 200 <= status < 300 else f"failing or missing response from {url}: bad status from {url}: {status}"


def _get(spec: Manifest, address: tuple[str, int], path: str) -> int:
    """Send a GET request and return its status; the certificate is checked for the DNS name of the Service."""
    service = spec["service"]
    context = client_context(spec.get("caBundle") or "")
    if spec.get("insecureSkipTLSVerify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, _TIMEOUT) as plain:
        name = f"{service['name']}.{service['namespace']}.svc"
        with context.wrap_socket(plain, server_hostname=name) as secured:
            connection = http.client.HTTPConnection(*address)
            connection.sock = secured
            connection.request("GET", path, headers={"Connection": "close"})
            return connection.getresponse().status
