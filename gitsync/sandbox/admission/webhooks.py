"""Admission webhooks, called over HTTPS: send reviews, apply verdicts and patches."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from gitsync.errors import InvalidInput
from gitsync.merge.values import json_patch
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.admission.attributes import AdmissionAttributes
from gitsync.sandbox.admission.matching import ConditionError, hold, namespace_of, request_of, rule_matches, selected
from gitsync.sandbox.connections import Review, WebhookError, post_review, webhook_url
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.contract import ControllerClient

GROUP = "admissionregistration.k8s.io"
# A webhook that refuses everything could otherwise not be removed any more.
_NEVER_ASKED = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})

Hook = Mapping[str, Any]
Caller = Callable[[Hook, str, Review], Review]
"""Send a review to a webhook at a URL and return the answer; raise CallError."""


class CallError(Exception):
    """A webhook that could not be asked, or gave no usable answer."""


def mutate(api: ControllerClient, attributes: AdmissionAttributes, call: Caller) -> Manifest | None:
    """Return the object after all mutating webhooks; ask those again that want to see later changes."""
    asked = list(_hooks(api, "MutatingWebhookConfiguration", attributes))
    changed_by: list[int] = []
    for position, hook in enumerate(asked):
        previous = attributes.obj
        attributes = _mutated(api, hook, attributes, call)
        if attributes.obj is not previous:
            changed_by.append(position)
    for position, hook in enumerate(asked):
        # Once at most, and only when a later webhook changed the object.
        if hook.get("reinvocationPolicy") == "IfNeeded" and any(later > position for later in changed_by):
            attributes = _mutated(api, hook, attributes, call)
    return attributes.obj


def _mutated(api: ControllerClient, hook: Hook, attributes: AdmissionAttributes, call: Caller) -> AdmissionAttributes:
    response = _ask(api, hook, attributes, call)
    if response is None or not response.get("patch") or attributes.obj is None:
        return attributes
    try:
        operations = orjson.loads(base64.b64decode(response["patch"]))
        patched = json_patch(attributes.obj, operations)
    except (ValueError, InvalidInput) as error:
        raise _internal(hook, str(error)) from error
    return attributes if patched == attributes.obj else attributes.changed(patched)


def validate(api: ControllerClient, attributes: AdmissionAttributes, call: Caller) -> None:
    """Ask all validating webhooks; raise the first refusal."""
    for hook in _hooks(api, "ValidatingWebhookConfiguration", attributes):
        _ask(api, hook, attributes, call)


def _hooks(api: ControllerClient, kind: str, attributes: AdmissionAttributes) -> Iterator[Hook]:
    """Yield the webhooks that match the request, by the names of their configurations."""
    if attributes.resource.group == GROUP and attributes.resource.kind in _NEVER_ASKED:
        return
    # By name, as the real server sorts them; a user can order webhooks that way.
    configurations = sorted(api.list(GROUP, kind), key=lambda config: str(metadata_of(config)["name"]))
    for configuration in configurations:
        for hook in configuration.get("webhooks", ()):
            any_version = hook.get("matchPolicy", "Equivalent") == "Equivalent"
            rules = hook.get("rules", ())
            if any(rule_matches(rule, attributes, any_version=any_version) for rule in rules) and selected(
                api, hook, attributes
            ):
                yield hook


def _ask(api: ControllerClient, hook: Hook, attributes: AdmissionAttributes, call: Caller) -> Review | None:
    """Return the response of a webhook that allows the request, None where it was not asked or may be ignored."""
    # A dry run must not cause anything outside of the cluster.
    if attributes.dry_run and hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
        text = f'admission webhook "{hook["name"]}" does not support dry run'
        raise ApiError(400, "BadRequest", text)
    tolerant = hook.get("failurePolicy", "Fail") == "Ignore"
    request = request_of(attributes, str(uuid.uuid4()))
    data = {
        "object": attributes.obj,
        "oldObject": attributes.old,
        "request": request,
        "namespaceObject": namespace_of(api, attributes),
        "params": None,
        "variables": {},
    }
    try:
        if not hold(hook.get("matchConditions", ()), data):
            return None
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        response = _response(call(hook, _url(api, hook), review), request["uid"])
    except (CallError, ConditionError) as error:
        if tolerant:
            return None
        raise _internal(hook, str(error)) from error
    attributes.warnings.extend(response.get("warnings") or ())
    if not response.get("allowed"):
        raise _denied(hook, response.get("status") or {})
    return response


def _internal(hook: Hook, why: str) -> ApiError:
    text = f'failed calling webhook "{hook["name"]}": {why}'
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})


def _denied(hook: Hook, status: Mapping[str, Any]) -> ApiError:
    denied = f'admission webhook "{hook["name"]}" denied the request'
    why = status.get("message") or status.get("reason")
    # A refusal with a code of success would be read as one.
    code = max(int(status.get("code") or 0), 400)
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    return ApiError(code, str(status.get("reason") or ""), message, dict(status.get("details") or {}))


def _response(review: Review, uid: str) -> Review:
    response = review.get("response")
    if not isinstance(response, dict):
        raise CallError("failed to call webhook: expected response.uid to be set, got no response")
    if response.get("uid") != uid:
        shown = response.get("uid", "")
        raise CallError(f'received invalid webhook response: expected response.uid="{uid}", got "{shown}"')
    return response


def _url(api: ControllerClient, hook: Hook) -> str:
    def has_service(namespace: str, name: str) -> bool:
        return api.get("", "Service", namespace, name) is not None

    try:
        return webhook_url(hook["clientConfig"], hook.get("timeoutSeconds", 10), has_service)
    except WebhookError as error:
        raise CallError(f"failed to call webhook: {error}") from error


def call_over_https(hook: Hook, url: str, review: Review) -> Review:
    """Send a review by POST; the certificate must be signed by the hook's ``caBundle``."""
    try:
        return post_review(hook["clientConfig"], url, review, hook.get("timeoutSeconds", 10))
    except WebhookError as error:
        raise CallError(f"failed to call webhook: {error}") from error
