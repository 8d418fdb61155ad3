"""Policy documents: what the operator allows which Applications, read from files of kind ``Policy``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.policy import Policy, Require
from gitsync.gate.validation import ManifestRule
from gitsync.objects.application import Application, Window
from gitsync.objects.manifest import at
from gitsync.objects.parsing import Spec, Strings, parse_spec
from gitsync.objects.patterns import matches

_DENY_ALL = Policy(name="none (no policy names this application)", namespaces=("-",), controller_rights=False)
"""Allows nothing: no namespace is called ``-``."""


class Allow(Spec):
    """What Applications may use; patterns with ``*``."""

    repositories: Strings = Field((), description="URLs of repositories; absent: all.")
    revisions: Strings = Field(
        (),
        description="Branches, tags and ranges that `spec.source.revision` may be, as it is written there; a commit id"
        " is refused, unless one of them is `*`; absent: all.",
    )
    remotes: Strings = Field(
        (), description="URLs of other repositories whose folders kustomizations may name; absent: none."
    )
    images: Strings = Field(
        (), description="Images, without a tag, whose tags `gitsync images` may follow and propose; absent: all."
    )
    namespaces: Strings = Field(
        (), description="Namespaces of objects; `{app}` is the namespace of the Application; absent: all."
    )
    kinds: Strings = Field((), description="Namespaced kinds: `Kind` for any group, `Kind.group` for one; absent: all.")
    denied_kinds: Strings = Field((), description="Kinds that are never allowed.")
    cluster_kinds: Strings | None = Field(
        None,
        description="Cluster-scoped kinds, where the Application sets `destination.allowClusterScoped`; absent: all.",
    )
    controller_rights: bool = Field(
        False,
        description="Whether Applications that name no ServiceAccount may write with the controller's own rights.",
    )
    servers: Strings | None = Field(
        None,
        description="URLs of the Prometheus and the reasoners that these Applications may use; absent: all that the"
        " operator configured; empty: none.",
    )


class Expect(Spec):
    """What happens in the cluster besides Git."""

    field_managers: Strings = Field(
        (),
        description="Field managers, such as those of admission webhooks and sidecar injectors, whose additions to"
        " objects are expected: counted as ignored, neither reported nor removed.",
    )
    users: Strings = Field(
        (),
        description="Field managers by which users write, besides `kubectl`, `oc`, `k9s`, browsers and the others of"
        " [Drift](../drift.md#who-is-a-user): what they add to a Pod or an Agent is removed or reported, and what"
        " conflicts with Git is taken over.",
    )


class PlanLimits(Spec):
    """Sizes that a plan may have."""

    prune_share: Annotated[float, Field(ge=0, le=1)] = Field(
        Policy().max_prune_share, description="Share of the objects that one plan may delete."
    )
    max_objects: Annotated[int, Field(ge=0, le=10**9)] = Field(
        Policy().max_objects, description="Objects that one Application may declare."
    )


class PolicySpec(Spec):
    """The spec of a policy document; ``match`` and ``rules`` are read by ``validation``."""

    applications: Strings = Field(("*",), description="Applications that the policy is for, as `namespace/name`.")
    allow: Allow = Field(default_factory=Allow, description="What these Applications may use.")
    require: Require = Field(default_factory=Require, description="What these Applications must have at least.")
    expect: Expect = Field(default_factory=Expect, description="What others do to the objects of these Applications.")
    limits: PlanLimits = Field(default_factory=PlanLimits, description="Sizes that their plans may have.")
    match: Any = Field(None, description="`kinds` that the rules are for, as `Kind` or `Kind.group`.")
    rules: Any = Field(None, description="Rules on manifests: `name`, `expression` (CEL over `object`) and `message`.")


def parse_policy(document: Mapping[str, Any], location: str) -> Policy | None:
    """
    Return what a policy document allows, None for one that only has rules.

    Raise InvalidInput with the location of a member that is unknown or of the wrong type: a misspelt limit must not
    silently allow everything.
    """
    members = document.get("spec")
    name = at(document, "metadata", "name")
    if document.get("kind") != "Policy" or not isinstance(members, dict) or not isinstance(name, str):
        raise InvalidInput("kind must be Policy, with metadata.name and spec", location=location)
    spec = parse_spec(PolicySpec, members, f"{location}: spec")
    # A document with rules alone must not become a policy: by default it would name, and so release, all Applications.
    if not spec.model_fields_set & {"applications", "allow", "require", "expect", "limits"}:
        return None
    for window in spec.require.windows:
        _check_window(window, f"{location}: spec.require.windows")
    return Policy(
        name=name,
        applications=spec.applications,
        repositories=spec.allow.repositories,
        revisions=spec.allow.revisions,
        remotes=spec.allow.remotes,
        images=spec.allow.images,
        namespaces=spec.allow.namespaces,
        kinds=spec.allow.kinds,
        denied_kinds=spec.allow.denied_kinds,
        cluster_kinds=spec.allow.cluster_kinds,
        expected_managers=spec.expect.field_managers,
        users=spec.expect.users,
        servers=spec.allow.servers,
        max_prune_share=spec.limits.prune_share,
        max_objects=spec.limits.max_objects,
        require=(spec.require,) if "require" in spec.model_fields_set else (),
        controller_rights=spec.allow.controller_rights,
    )


def _check_window(window: Window, location: str) -> None:
    try:
        windows.check(window)
    except InvalidInput as error:
        raise InvalidInput(error.message, location=location, hint=error.hint) from error


def policies_for(policies: Sequence[Policy], app: Application, ancestors: Iterable[str] = ()) -> tuple[Policy, ...]:
    """
    Return the policy of an Application, and those of the Applications that manage it: it may do what all allow.

    Each is the first policy that names the Application. Without any policy everything namespaced is allowed; with at
    least one, an Application that no policy names is allowed nothing. ``ancestors`` are the keys of the Applications
    above its owner.
    """
    if not policies:
        return (Policy(),)
    # Each once, its own first: ``combine`` takes lists from the first and limits from all.
    keys = dict.fromkeys((app.key, *((app.owner,) if app.is_managed else ()), *ancestors))
    return tuple(policy_named(policies, key) for key in keys)


def policy_for(policies: Sequence[Policy], app: Application, ancestors: Iterable[str] = ()) -> Policy:
    """Return the policy of an Application with the limits and requirements of all that ``policies_for`` returns."""
    return combine(policies_for(policies, app, ancestors))


def combine(policies: Sequence[Policy]) -> Policy:
    """Return the first of some policies with the limits and requirements of all."""
    return replace(
        policies[0],
        name=", ".join(dict.fromkeys(policy.name for policy in policies)),
        max_prune_share=min(policy.max_prune_share for policy in policies),
        max_objects=min(policy.max_objects for policy in policies),
        require=tuple(require for policy in policies for require in policy.require),
    )


def policy_named(policies: Sequence[Policy], key: str) -> Policy:
    """Return the own policy of an Application (``namespace/name``): the first that names it."""
    if not policies:
        return Policy()
    named = (policy for policy in policies if any(matches(key, name) for name in policy.applications))
    # Closed by default: an Application that no pattern names was not thought of.
    policy_of_key = next(named, _DENY_ALL)
    # ``{app}`` is the namespace of the Application that the policy names, also where it limits one that this manages.
    namespace = key.partition("/")[0]
    return replace(
        policy_of_key, namespaces=tuple(pattern.replace("{app}", namespace) for pattern in policy_of_key.namespaces)
    )


@dataclass(frozen=True, slots=True)
class PolicySet:
    """
    Policies in the order in which the first that names an Application is its own, and rules for manifests.

    ``prometheus`` is the URL of the server that the operator configured, which policies allow or not. ``is_default``:
    the operator wrote none.
    """

    policies: tuple[Policy, ...] = ()
    rules: tuple[ManifestRule, ...] = ()
    prometheus: str = ""
    is_default: bool = False
