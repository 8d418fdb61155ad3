"""Conversion of custom resources between versions by a webhook (apiextensions-apiserver/pkg/apiserver/conversion)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.connections import Review, WebhookError, post_review, webhook_url
from gitsync.sandbox.errors import internal

HasService = Callable[[str, str], bool]
"""Whether a Service exists, by namespace and name."""
_GROUP = "apiextensions.k8s.io"
# A real server waits 30 s. Here every other request waits meanwhile.
_SECONDS = 5.0
_SHOWN_SECONDS = 30


def webhook_conversion(spec: Manifest, version: str, has_service: HasService) -> Callable[[Manifest], Manifest] | None:
    """
    Return the conversion of objects to a version of a definition; None where its strategy is not Webhook.

    As a real server does, it calls the webhook for each object alone, also in lists, and raises the 500 of a webhook
    that fails.
    """
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    webhook = conversion["webhook"]
    api_version = f"{spec['group']}/{version}"

    def convert(obj: Manifest) -> Manifest:
        if obj["apiVersion"] == api_version:
            return obj
        prefix = f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']}"
        try:
            converted = _call(webhook, obj, api_version, has_service)
        except WebhookError as error:
            raise internal(f"{prefix} failed: {error}") from None
        return _checked(converted, obj, api_version, prefix)

    return convert


def _call(webhook: Mapping[str, Any], obj: Manifest, api_version: str, has_service: HasService) -> list[Any]:
    """Return the objects in a webhook's answer; raise WebhookError."""
    client = webhook["clientConfig"]
    # The first version that the server knows too, in the order of the definition.
    form = next(name for name in webhook["conversionReviewVersions"] if name in ("v1", "v1beta1"))
    uid = str(uuid.uuid4())
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": [obj]}
    review: Review = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{form}", "request": request}
    url = webhook_url(client, _SHOWN_SECONDS, has_service)
    response = post_review(client, url, review, _SECONDS).get("response")
    if not isinstance(response, dict):
        raise WebhookError("no response provided")
    if response.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    status = result.get("status", "")
    if status != "Success":
        raise WebhookError(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return response.get("convertedObjects") or []


def _checked(converted: list[Any], obj: Manifest, api_version: str, prefix: str) -> Manifest:
    """Return the converted object with the metadata of the original; raise the 500 for one that is another object."""
    if len(converted) != 1:
        raise internal(f"{prefix} returned {len(converted)} objects, expected 1")
    new = converted[0] if isinstance(converted[0], dict) else {}
    problem = _other_type(new, obj, api_version) or _other_identity(metadata_of(new), metadata_of(obj))
    if problem:
        raise internal(f"{prefix} returned invalid object{problem}")
    metadata = {key: value for key, value in metadata_of(obj).items() if key not in ("labels", "annotations")}
    # A webhook may change labels and annotations, in which it keeps what the other version has no members for.
    for member in ("labels", "annotations"):
        if metadata_of(new).get(member):
            metadata[member] = metadata_of(new)[member]
    return {**new, "metadata": metadata}


def _other_type(new: Manifest, obj: Manifest, api_version: str) -> str:
    if new.get("kind") != obj["kind"]:
        return f" at index 0: invalid kind (expected {obj['kind']}, received {new.get('kind', '')})"
    if new.get("apiVersion") != api_version:
        version = new.get("apiVersion", "")
        return f" at index 0: invalid groupVersion (expected {api_version}, received {version})"
    return ""


def _other_identity(new: Manifest, old: Manifest) -> str:
    for member, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if new.get(member) != old.get(member):
            return f": must have the same {word}: {old.get(member, '')} != {new.get(member, '')}"
    return ""
