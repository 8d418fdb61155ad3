"""The certificate of the admission webhook in a Secret, and what the API server trusts in its configuration."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from gitsync.cluster.client import Client, segment
from gitsync.errors import Conflict, InvalidInput, Rejected
from gitsync.objects.manifest import Manifest, at, metadata_of, resource_version_of

_MANAGER = "gitsync-webhook"
_KIND = "ValidatingWebhookConfiguration"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class WebhookCertificates:
    """A Secret that the replicas of the webhook share, and the configuration that names their service."""

    def __init__(self, client: Client, namespace: str, secret: str, configuration: str) -> None:
        self._client = client
        self._metadata = {"name": secret, "namespace": namespace}
        self._secrets = f"/api/v1/namespaces/{segment(namespace)}/secrets"
        self._name = configuration

    def read(self) -> tuple[dict[str, str], str]:
        """Return the members of the Secret and its version, both empty where it does not exist."""
        secret = _existing(self._client, f"{self._secrets}/{segment(self._metadata['name'])}")
        data = {name: base64.b64decode(value).decode() for name, value in (secret.get("data") or {}).items()}
        return data, resource_version_of(secret) if secret else ""

    def write(self, data: Mapping[str, str], version: str) -> None:
        """Create the Secret, or replace it where it still has this version; raise Conflict otherwise."""
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {**self._metadata, **({"resourceVersion": version} if version else {})},
            "data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()},
        }
        query = {"fieldManager": _MANAGER}
        if not version:
            self._client.send("POST", self._secrets, body, query)
            return
        try:
            self._client.send("PUT", f"{self._secrets}/{segment(self._metadata['name'])}", body, query)
        except Rejected as error:
            if error.code != 404:
                raise
            raise Conflict("the Secret of the certificate is gone") from error

    def trust(self, bundle: str) -> bool:
        """Let the API server trust these certificates; return whether it did not yet."""
        path = f"{_CONFIGURATIONS}/{segment(self._name)}"
        configuration = _existing(self._client, path)
        encoded = base64.b64encode(bundle.encode()).decode()
        if not configuration:
            hint = "apply the output of: gitsync install --component webhook"
            raise InvalidInput("does not exist", object=f"{_KIND} {self._name}", hint=hint)
        hooks = configuration.get("webhooks") or []
        if all(at(hook, "clientConfig", "caBundle") == encoded for hook in hooks):
            return False
        trusted = [{"name": hook["name"], "clientConfig": {"caBundle": encoded}} for hook in hooks]
        metadata = {"name": metadata_of(configuration)["name"]}
        body = {"apiVersion": configuration["apiVersion"], "kind": _KIND, "metadata": metadata}
        self._client.apply(path, {**body, "webhooks": trusted}, {"fieldManager": _MANAGER, "force": "true"})
        return True


def _existing(client: Client, path: str) -> Manifest:
    """Return an object, empty where it does not exist."""
    try:
        existing: Manifest = client.get(path)
    except Rejected as error:
        if error.code != 404:
            raise
        return {}
    return existing
