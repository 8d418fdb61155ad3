"""The plan of an Agent or a system that waits, as its status has it, for the review that Applications have too."""

from __future__ import annotations

from gitsync.errors import WrongState
from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Risk
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.operator.child_reconciler import Owner


def held_plan(manifest: Manifest) -> tuple[Application, Plan]:
    """
    Return the owner as the gate sees it, and its held plan without steps; raise WrongState where none waits.

    A status can be wrong or forged: the operator compares the digest of a review with that of the plan that it makes
    itself, and the reviewer with the policy.
    """
    ref = ref_of(manifest)
    plan = at(manifest, "status", "plan", default={})
    digest = str(plan.get("digest", ""))
    if not digest:
        raise WrongState("no plan waits for approval", object=f"{ref}", hint="see its status.conditions")
    generation = int(metadata_of(manifest).get("generation", 0))
    owner = Owner(ref, uid_of(manifest), generation)
    # without a class it is treated as the worst
    risk = Risk(str(plan.get("class", Risk.DANGEROUS.value)))
    app = owner.application
    # the spec of an Agent has no commit here: its generation is the revision
    return app, Plan(application=app.key, revision=f"generation-{generation}", changes=(), digest=digest, risk=risk)
