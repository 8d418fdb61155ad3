"""What the operator allows which Applications, read from documents of the kinds ``Policy`` and ``Tenant``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.policy import GrantedUrl, Policy, Require, TenantGrants
from gitsync.gate.validation import ManifestRule
from gitsync.objects.application import Application
from gitsync.objects.manifest import at
from gitsync.objects.parsing import Spec, Strings, parse_spec
from gitsync.objects.patterns import matches

_DENY_ALL = Policy(name="none (no policy names this application)", namespaces=("-",), controller_rights=False)
"""Allows nothing: no namespace is called ``-``."""
_NO_TENANT = replace(_DENY_ALL, name="none (no tenant has this namespace)", repositories=("-",), tenant=TenantGrants())
"""Allows nothing, and no Secret is sent anywhere."""


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


class RepositoryRule(Spec):
    """A repository that a tenant may use."""

    url: str = Field(description="Pattern of URLs.")
    secrets: Strings = Field((), description="Secrets whose credentials may be sent there; absent: none.")
    revisions: Strings = Field(
        (), description="Branches, tags and ranges that may be followed, as in a policy; absent: every branch and tag."
    )


class TenantServer(Spec):
    """A Prometheus, reasoner or Vault that a tenant may use."""

    url: str = Field(description="Pattern of URLs, with all paths below.")
    secrets: Strings = Field((), description="Secrets whose keys may be sent there; absent: none.")


class DecryptionRule(Spec):
    """Which SOPS keys a tenant may use."""

    secrets: Strings = Field((), description="Secrets with keys, or credentials of key services; absent: none.")
    own_key: bool = Field(
        False,
        description="Whether only this tenant has these keys. Otherwise a Secret is only decrypted where its file names"
        " the namespace and name that it gets: another team could have encrypted it.",
    )


class TenantSpec(Spec):
    """The spec of a tenant document: who shares a namespace, and all that they may use. What is absent is refused."""

    namespaces: Annotated[Strings, Field(min_length=1)] = Field(
        description="Namespaces of its Applications, to which they may deploy; `*` in one matches any text."
    )
    accounts: Annotated[Strings, Field(min_length=1)] = Field(
        ("gitsync-deployer",), description="ServiceAccounts of these namespaces, one of which is impersonated."
    )
    repositories: Annotated[tuple[RepositoryRule, ...], Field(strict=False)] = Field(
        (), description="Repositories, each with its Secrets and revisions; the first whose URL matches counts."
    )
    remotes: Strings = Field((), description="URLs of other repositories whose folders kustomizations may name.")
    images: Strings = Field((), description="Images, without a tag, whose tags `gitsync images` may follow.")
    servers: Annotated[tuple[TenantServer, ...], Field(strict=False)] = Field(
        (), description="Prometheus, reasoners and Vault, each with its Secrets."
    )
    decryption: DecryptionRule = Field(default_factory=DecryptionRule, description="SOPS keys.")
    kinds: Strings = Field(
        (), description="Namespaced kinds, as in a policy; absent: all that the rights of its accounts reach."
    )
    denied_kinds: Strings = Field((), description="Kinds that are never allowed.")
    cluster_kinds: Strings = Field((), description="Cluster-scoped kinds; absent: none.")
    require: Require = Field(default_factory=Require, description="What its Applications must have, as in a policy.")
    expect: Expect = Field(default_factory=Expect, description="What others do to its objects, as in a policy.")
    limits: PlanLimits = Field(default_factory=PlanLimits, description="Sizes that its plans may have.")


def _parse_tenant(name: str, members: dict[str, Any], location: str) -> Policy:
    spec = parse_spec(TenantSpec, members, f"{location}: spec")
    _check_windows(spec.require, location)
    return Policy(
        name=name,
        applications=tuple(f"{namespace}/*" for namespace in spec.namespaces),
        # An empty list of a policy allows all; that of a tenant allows none, and no URL is called "-".
        repositories=tuple(item.url for item in spec.repositories) or ("-",),
        remotes=spec.remotes,
        images=spec.images or ("-",),
        namespaces=spec.namespaces,
        kinds=spec.kinds,
        denied_kinds=spec.denied_kinds,
        cluster_kinds=spec.cluster_kinds,
        expected_managers=spec.expect.field_managers,
        users=spec.expect.users,
        servers=tuple(item.url for item in spec.servers),
        max_prune_share=spec.limits.prune_share,
        max_objects=spec.limits.max_objects,
        require=(Require(service_accounts=spec.accounts), spec.require),
        controller_rights=False,
        tenant=TenantGrants(
            tuple(GrantedUrl(item.url, item.secrets, item.revisions) for item in spec.repositories),
            tuple(GrantedUrl(item.url, item.secrets) for item in spec.servers),
            spec.decryption.secrets,
            is_shared_key=not spec.decryption.own_key,
        ),
    )


def parse_policy(document: Mapping[str, Any], location: str) -> Policy | None:
    """
    Return what a policy or tenant document allows, None for a policy that only has rules.

    Raise InvalidInput with the location of a member that is unknown or of the wrong type: a misspelt limit must not
    silently allow everything.
    """
    members = document.get("spec")
    name = at(document, "metadata", "name")
    if document.get("kind") not in ("Policy", "Tenant") or not isinstance(members, dict) or not isinstance(name, str):
        raise InvalidInput("kind must be Policy or Tenant, with metadata.name and spec", location=location)
    if document["kind"] == "Tenant":
        return _parse_tenant(name, members, location)
    spec = parse_spec(PolicySpec, members, f"{location}: spec")
    # A document with rules alone must not become a policy: by default it would name, and so release, all Applications.
    if not spec.model_fields_set & {"applications", "allow", "require", "expect", "limits"}:
        return None
    _check_windows(spec.require, location)
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


def _check_windows(require: Require, location: str) -> None:
    for window in require.windows:
        try:
            windows.check(window)
        except InvalidInput as error:
            raise InvalidInput(error.message, location=f"{location}: spec.require.windows", hint=error.hint) from error


def with_controller_rights(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return policies that let Applications write with the controller's own rights, as one team does; no tenant may."""
    return tuple(
        policy if policy.tenant is not None else replace(policy, controller_rights=True) for policy in policies
    )


def policies_for(policies: Sequence[Policy], app: Application, ancestors: Iterable[str] = ()) -> tuple[Policy, ...]:
    """
    Return the policy of an Application, and those of the Applications that manage it: it may do what all allow.

    Each is the tenant that has the namespace, and the first policy that names the Application. Without any of both
    everything namespaced is allowed; with at least one, an Application that none names is allowed nothing.
    ``ancestors`` are the keys of the Applications above its owner.
    """
    if not policies:
        return (Policy(),)
    # Each once, its own first: ``combine`` takes lists from the first and limits from all.
    keys = dict.fromkeys((app.key, *((app.owner,) if app.is_managed else ()), *ancestors))
    return tuple(policy for key in keys for policy in own_policies(policies, key))


def policy_for(policies: Sequence[Policy], app: Application, ancestors: Iterable[str] = ()) -> Policy:
    """Return the policy of an Application with the limits and requirements of all that ``policies_for`` returns."""
    return combine(policies_for(policies, app, ancestors))


def combine(policies: Sequence[Policy]) -> Policy:
    """Return the first of some policies with the limits and requirements of all."""
    if len(policies) == 1:
        return policies[0]
    return replace(
        policies[0],
        name=", ".join(dict.fromkeys(policy.name for policy in policies)),
        max_prune_share=min(policy.max_prune_share for policy in policies),
        max_objects=min(policy.max_objects for policy in policies),
        require=tuple(require for policy in policies for require in policy.require),
    )


def policy_named(policies: Sequence[Policy], key: str) -> Policy:
    """Return the own policy of an Application (``namespace/name``): its tenant and the first policy that names it."""
    return combine(own_policies(policies, key)) if policies else Policy()


def own_policies(policies: Sequence[Policy], key: str) -> tuple[Policy, ...]:
    """Return the tenant of an Application, then the first policy that names it; one that allows nothing for neither."""
    namespace = key.partition("/")[0]
    named = [policy for policy in policies if any(matches(key, name) for name in policy.applications)]
    tenant = next((policy for policy in named if policy.tenant is not None), None)
    policy = next((policy for policy in named if policy.tenant is None), None)
    # The tenant first, of which ``combine`` takes the lists: a policy adds requirements, and nothing to them.
    # Closed by default: an Application that no pattern names was not thought of.
    nothing = _NO_TENANT if any(item.tenant is not None for item in policies) else _DENY_ALL
    own = tuple(item for item in (tenant, policy) if item is not None) or (nothing,)
    # ``{app}`` is the namespace of the Application that the policy names, also where it limits one that this manages.
    return tuple(
        replace(item, namespaces=tuple(pattern.replace("{app}", namespace) for pattern in item.namespaces))
        for item in own
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
