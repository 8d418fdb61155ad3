"""Checks of what an application declares, before anything of it is written: the same wherever a plan is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gitsync.errors import InvalidInput
from gitsync.gate.cel_rules import ManifestRule, check_rules
from gitsync.gate.policy import Policy, violations
from gitsync.gate.policy_files import policy_for
from gitsync.gate.validation import check_manifests, validate
from gitsync.objects.application import Application
from gitsync.objects.change import Plan
from gitsync.objects.manifest import Manifest
from gitsync.sync.observe import Observation, created_namespace

Locator = Callable[[Manifest, str], str]
"""Tell where a field of a rendered object was written, as ``file:line``."""


def validate_desired(observation: Observation, place: Locator) -> None:
    """Raise InvalidInput for the first declared object that does not fit its schema, or that no API server takes."""
    for ref, manifest in observation.desired.items():
        schema = observation.schema_of(manifest)
        for problem in validate(manifest, schema) if schema is not None else ():
            raise InvalidInput(
                f"{problem.path}: {problem.what}", location=place(manifest, problem.path), object=str(ref)
            )
        for line in check_manifests([manifest]):
            raise InvalidInput(line, location=place(manifest, ""))


def policy_violations(
    app: Application, plan: Plan, policies: Sequence[Policy], rules: Iterable[ManifestRule]
) -> tuple[str, ...]:
    """Return what policy and the operator's rules say against the objects of a plan, one line each."""
    namespaced = {change.ref.of: bool(change.ref.namespace) for change in plan.changes}
    desired = {change.ref: change.desired for change in plan.changes if change.desired is not None}
    created = created_namespace(app)
    desired = {ref: manifest for ref, manifest in desired.items() if created.get(ref) != manifest}
    return (
        *violations(policy_for(policies, app), app, desired, lambda of: namespaced[of]),
        *check_rules(rules, desired.values()),
    )
