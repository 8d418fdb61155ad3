"""The chain of admission plugins: mutating, then validating, in the order of the API server."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission import (
    claims,
    limit_ranger,
    nodes,
    pod_security,
    pods,
    policies,
    quota,
    warnings,
    webhooks,
)
from gitsync.sandbox.admission.attributes import Attributes
from gitsync.sandbox.admission.lifecycle import check_namespace
from gitsync.sandbox.admission.pod_security_labels import check_labels
from gitsync.sandbox.admission.runtime_class import with_runtime_class
from gitsync.sandbox.admission.webhooks import Caller
from gitsync.sandbox.controllers.client import ControllerClient, Strategy

StrategyOf = Callable[[Any], Strategy]


class Plugins:
    """
    Admit requests by the objects that ``api`` holds: quotas, limits, policies, webhook configurations.

    ``strategy_of`` gives the strategy of a resource: what a webhook changed is defaulted again. ``call`` sends
    a review to a webhook.
    """

    def __init__(self, api: ControllerClient, strategy_of: StrategyOf, call: Caller = webhooks.call_over_https) -> None:
        self._api = api
        self._strategy_of = strategy_of
        self._call = call
        self._rng = random.Random()

    def admit(self, operation: str, obj: Manifest | None, old: Manifest | None, request: Mapping[str, Any]) -> Manifest:
        """Return the object, perhaps changed; raise ApiError to refuse."""
        attributes = Attributes.of(operation, obj, old, request)
        check_namespace(self._api, attributes)
        if attributes.is_new("", "Pod") and attributes.obj is not None:
            changed = limit_ranger.with_defaults(self._api, attributes.obj, attributes)
            changed = pods.with_service_account(self._api, changed, attributes, self._rng)
            changed = pods.with_priority(self._api, changed, attributes)
            attributes = attributes.changed(with_runtime_class(self._api, changed, attributes))
        if attributes.is_of("", "Pod") and attributes.obj is not None and not attributes.subresource:
            attributes = attributes.changed(pods.with_tolerations(attributes.obj))
        if attributes.is_new("", "Node") and attributes.obj is not None:
            attributes = attributes.changed(nodes.with_taint(attributes.obj))
        if attributes.is_new("", "PersistentVolumeClaim") and attributes.obj is not None:
            attributes = attributes.changed(claims.with_default_class(self._api, attributes.obj))
        attributes = self._mutate(attributes)
        claims.check_growth(self._api, attributes)
        check_labels(self._api, attributes)
        if attributes.obj is not None:
            limit_ranger.check(self._api, attributes.obj, attributes)
            pod_security.check(self._api, attributes.obj, attributes)
            warnings.warn(attributes)
        policies.check(self._api, attributes)
        webhooks.validate(self._api, attributes, self._call)
        if attributes.obj is not None:
            quota.charge(self._api, attributes.obj, attributes)
        return attributes.subject

    def _mutate(self, attributes: Attributes) -> Attributes:
        changed = webhooks.mutate(self._api, attributes, self._call)
        if changed is None or changed is attributes.obj:
            return attributes
        strategy = self._strategy_of(attributes.resource)
        return attributes.changed(strategy.default(strategy.prune(changed)))
