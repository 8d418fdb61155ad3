"""The credentials of a Git server, from the Secret that an Application names."""

from __future__ import annotations

import base64
import binascii

from gitsync.errors import InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest
from gitsync.ports import Cluster, Credentials, Live

_FIRST_LIST = 30.0


def credentials_of(app: Application, cluster: Cluster, live: Live) -> Credentials:
    """
    Return the credentials of the Secret beside the Application, none when it names none.

    Members are ``username`` and ``password``, or ``ssh-privatekey`` and ``known_hosts``. The Secret is followed by a
    watch, so an unchanged one costs no request and a rotated one is used at once.
    """
    name = app.source.credentials
    if not name:
        return Credentials()
    where = "spec.source.credentials.secretRef.name"
    resource = cluster.resource("", "v1", "Secret")
    if resource is None:
        raise InvalidInput("the cluster serves no Secrets", where=where)
    live.follow([resource], _FIRST_LIST)
    secret = live.get(resource, app.namespace, name)
    if secret is None:
        raise InvalidInput(f"Secret {app.namespace}/{name} does not exist", where=where, cure="create it")
    return Credentials(
        username=_text(secret, "username"),
        password=_text(secret, "password"),
        ssh_key=_text(secret, "ssh-privatekey") or _text(secret, "identity"),
        known_hosts=_text(secret, "known_hosts"),
    )


def _text(secret: Manifest, key: str) -> str:
    encoded = (secret.get("data") or {}).get(key)
    if not encoded:
        return ""
    try:
        return base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidInput(f"Secret {secret['metadata']['name']}: {key} is no text") from error
