"""Checks of the declared objects before anything of them is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.gate.policy import Policy, application_violations, query_violation, server_violations, violations
from gitsync.gate.policy_files import PolicySet, policies_for
from gitsync.gate.validation import check_manifests, check_rules, validate
from gitsync.merge.schema import Schema
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import Plan
from gitsync.objects.keys import AGENTS_GROUP, APPLICATION
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.sync.cache import CheckCache
from gitsync.sync.input import Locator
from gitsync.sync.observe import Observation, created_namespace


def validate_changed(observation: Observation, locate: Locator, cache: CheckCache) -> None:
    """
    Raise InvalidInput for the first declared object that does not match its schema or is always rejected.

    Objects that were valid by the same schema are not validated again: a commit changes few of them.
    """
    desired = observation.desired
    if cache.validated is desired and cache.validated_by is observation.schemas:
        return
    known = cache.validated or {}
    schemas: dict[tuple[str, str], Schema | None] = {}
    for ref, manifest in desired.items():
        kind = (str(manifest.get("apiVersion")), str(manifest.get("kind")))
        if kind not in schemas:
            schemas[kind] = observation.schema_of(manifest)
        schema = schemas[kind]
        # By identity: what Git did not change is the same manifest, and another definition is another schema.
        is_known = known.get(ref) is manifest and kind in cache.schemas and cache.schemas[kind] is schema
        if not is_known:
            _validate(ref, manifest, schema, locate)
    cache.validated = desired
    cache.validated_by = observation.schemas
    cache.schemas = schemas


def _validate(ref: ObjectRef, manifest: Manifest, schema: Schema | None, locate: Locator) -> None:
    for problem in validate(manifest, schema) if schema is not None else ():
        raise InvalidInput(f"{problem.path}: {problem.what}", location=locate(manifest, problem.path), object=str(ref))
    for line in check_manifests([manifest]):
        raise InvalidInput(line, location=locate(manifest, ""))


def policy_violations(
    app: Application,
    plan: Plan,
    policies: PolicySet,
    ancestors: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the violations of policy and operator rules by the objects of a plan, one line each."""
    namespaced = {change.ref.of: bool(change.ref.namespace) for change in plan.changes}
    desired = {change.ref: change.desired for change in plan.changes if change.desired is not None}
    created = created_namespace(app)
    # the namespace of the destination is allowed by itself, unless Git declares something else for it
    desired = {ref: manifest for ref, manifest in desired.items() if created.get(ref) != manifest}
    return (
        *(
            line
            for policy in policies_for(policies.policies, app, ancestors)
            for line in (
                *violations(policy, app, desired, lambda of: namespaced[of]),
                *_external(policy, policies.prometheus, app, desired),
                *_child_violations(policy, desired),
            )
        ),
        *check_rules(policies.rules, desired.values()),
    )


def _external(
    policy: Policy, prometheus: str, app: Application, desired: Mapping[ObjectRef, Manifest]
) -> Iterator[str]:
    """Yield which external servers the policy does not allow the Application, its children and its Agents to use."""
    yield from server_violations(policy, app, prometheus)
    for ref, manifest in desired.items():
        if ref.of == APPLICATION:
            with suppress(InvalidInput):  # its own reconcile reports an invalid spec
                child = parse_application(manifest)
                yield from (f"{ref}: {line}" for line in server_violations(policy, child, prometheus))
        elif ref.group == AGENTS_GROUP and _has_member(manifest, "prometheusQuery"):
            yield from (f"{ref}: {line}" for line in query_violation(policy, prometheus))


def _has_member(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return name in value or any(_has_member(item, name) for item in value.values())
    return isinstance(value, list) and any(_has_member(item, name) for item in value)


def _child_violations(policy: Policy, desired: Mapping[ObjectRef, Manifest]) -> Iterator[str]:
    """Yield what the policy of an Application does not allow in the Applications that it declares."""
    for ref, manifest in desired.items():
        if ref.of == APPLICATION:
            with suppress(InvalidInput):  # its own reconcile reports an invalid spec
                child = parse_application(manifest)
                yield from (f"{ref}: {line}" for line in application_violations(policy, child))
