"""Application: what to sync from where to where, as validated models of the custom resource."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gitsync.errors import InvalidInput
from gitsync.objects.change import Risk
from gitsync.objects.charts import ChartOptions, ClusterValues
from gitsync.objects.holds import FieldHold, holds_of
from gitsync.objects.keys import (
    APPLICATION,
    FIELD_MANAGER,
    MANAGED_BY,
    REQUESTED_OBJECTS,
    REQUESTED_SYNC,
    SET_LABEL,
    TRACKING_ID,
)
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, labels_of, metadata_of
from gitsync.objects.parsing import DecimalText, Duration, Keyed, Seconds, Section, Strings, Text, parse_spec
from gitsync.objects.ref import ObjectRef
from gitsync.objects.urls import CHART_SCHEME, chart_url, joined_source

_LONGEST_ANSWER = 120.0
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class SecretRef(Section):
    """The name of a Secret in the namespace of the Application."""

    name: Text = Field(description="Name of a Secret in the namespace of the Application.")


class CredentialsRef(Section):
    """How to sign in at the Git server."""

    secret_ref: SecretRef = Field(
        description="Secret with `username` and `password`, or with `ssh-privatekey` and `known_hosts`."
    )


class Verification(Section):
    """Which commits are trusted."""

    mode: Literal["None", "SignedCommits"] = Field(
        "None",
        description="`SignedCommits` accepts only commits signed by a key in the Secret, and only artifacts and charts"
        " of OCI registries that cosign signed by one.",
    )
    secret_ref: SecretRef | None = Field(
        None, description="Secret of OpenPGP or SSH public keys, or of those of cosign (PEM)."
    )


class Decryption(Section):
    """How to decrypt Secrets that are encrypted in Git."""

    provider: Literal["sops"] = Field(description="The tool that encrypted the Secrets.")
    secret_ref: SecretRef = Field(
        description="Secret with age keys (`*.agekey`), OpenPGP keys (`*.asc`) or credentials of key services"
        " (`sops.aws-kms`, `sops.gcp-kms`, `sops.azure-kv`, `sops.vault-token` with `sops.vault-address`)."
    )


_FREE_FORM = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _json_of(values: object) -> object:
    """Return a mapping as JSON, in which form it can be compared and passed on."""
    # The models fill in the default, which is the text itself.
    if values == "":
        return values
    if not isinstance(values, dict):
        raise PydanticCustomError("values", "values is not a mapping", {"hint": "write key: value, without a |"})
    return json.dumps(values)


class ValuesRef(Section):
    """A member of a ConfigMap or Secret that has values, as YAML."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "valuesKey": "write key",
        "targetPath": "write the value at its place in the YAML of the member",
    }

    kind: Literal["ConfigMap", "Secret"] = Field(description="The kind of the object.")
    name: Text = Field(description="Its name, in the namespace of the Application.")
    key: Text = Field("values.yaml", description="The member that has the values, as a YAML mapping.")
    optional: bool = Field(False, description="Whether it may be absent.")


class HelmSettings(Section):
    """How the path is rendered where it is a Helm chart."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "valuesObject": "write values",
        "parameters": "write them into values",
        "fileParameters": "write them into values",
        "valuesFiles": "write valueFiles",
        "passCredentials": "leave it out: credentials are of the source",
        "skipSchemaValidation": "leave it out: charts are rendered with their schema",
        "version": "charts are rendered by the Helm that is installed beside gitsync",
        "namespace": "write destination.namespace",
    }

    release_name: Annotated[str, Field(max_length=53)] = Field(
        "", description="Name of the release; absent: that of the Application."
    )
    value_files: Annotated[Strings, Field(max_length=20)] = Field(
        (),
        description="Values files of the repository, later ones over earlier ones: relative to the chart, or to the"
        " root of the repository with a leading `/`.",
    )
    ignore_missing_value_files: bool = Field(False, description="Whether values files that do not exist are skipped.")
    values_from: Annotated[tuple[ValuesRef, ...], Field(strict=False, max_length=20)] = Field(
        (), description="Values of ConfigMaps and Secrets, later ones over earlier ones and over those of all files."
    )
    values: Annotated[str, BeforeValidator(_json_of), WithJsonSchema(_FREE_FORM)] = Field(
        "", description="Values over all others, as a mapping; viewers of the Application can read them."
    )
    skip_crds: bool = Field(False, description="Whether the CustomResourceDefinitions in `crds/` are left out.")
    skip_tests: bool = Field(False, description="Whether objects with the hook `test` are left out.")
    kube_version: Annotated[str, Field(max_length=64)] = Field(
        "", description="Kubernetes version that templates see, such as `1.36.2`; absent: that of the cluster."
    )
    api_versions: Annotated[Strings, Field(max_length=1000)] = Field(
        (),
        description="API versions that templates see beside the cluster's, such as `monitoring.coreos.com/v1`.",
    )


_NO_SETTINGS = HelmSettings()


class GitSource(Section):
    """Where the manifests are."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "targetRevision": "write revision",
        "url": "write repoURL",
        "branch": "write revision",
        "ref": "write revision, with the branch, tag, range or commit",
        "secretRef": "write credentials.secretRef",
        "plugin": "leave it out: programs of a repository are not run",
        "directory": "folders without a kustomization are read with renderer: Plain",
        "kustomize": "write it into the kustomization in Git",
    }

    repo_url: Annotated[Text, Field(max_length=2048)] = Field(
        alias="repoURL",
        description="`https` or `ssh` URL of the repository (`file` only where the operator allows it); with `chart`"
        " that of a Helm repository or OCI registry; `oci://HOST/REPOSITORY` is an OCI artifact.",
    )
    chart: Annotated[str, Field(max_length=128, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$")] | None = Field(
        None, description="The chart of a Helm repository or OCI registry; `revision` is its version, or a range."
    )
    revision: Annotated[str, Field(max_length=256)] = Field(
        "main",
        description="A branch, a tag, a full commit id, or a version range such as `>=1.2 <2`, `~1.4` or `1.x`, which"
        " selects its highest tag; of an OCI artifact a tag, a range or a digest.",
    )
    path: Annotated[str, Field(max_length=1024)] = Field(".", description="The folder to render.")
    renderer: Literal["Auto", "Kustomize", "Helm", "Plain"] = Field(
        "Auto",
        description="How to render the folder; `Auto` uses Kustomize where there is a kustomization file, Helm where"
        " there is a `Chart.yaml`.",
    )
    helm: HelmSettings | None = Field(None, description="How the path is rendered where it is a Helm chart.")
    credentials: CredentialsRef | None = Field(
        None, description="How to sign in at the Git server; absent: anonymously."
    )
    verify: Verification = Field(default_factory=Verification, description="Which commits are trusted.")
    decryption: Decryption | None = Field(None, description="How to decrypt Secrets that are encrypted in Git.")

    @model_validator(mode="before")
    @classmethod
    def _name_chart(cls, members: Any) -> Any:
        """Have the URL name the chart too: by the URL, its versions are cached, shared, allowed and followed."""
        chart = members.get("chart") if isinstance(members, dict) else None
        url = members.get("repoURL", members.get("repo_url")) if chart else None
        # a model that was dumped has the URL of the chart already
        if not isinstance(chart, str) or not isinstance(url, str) or url.startswith(CHART_SCHEME):
            return members
        try:
            named = chart_url(url, chart)
        except ValueError as error:
            raise PydanticCustomError(
                "chart", "{what}, and a chart is in a Helm repository or OCI registry", {"what": str(error), "hint": ""}
            ) from None
        others = {name: value for name, value in members.items() if name not in ("repoURL", "repo_url")}
        # a chart may have a kustomization among its files, which is not what an Application of a chart means
        return {"renderer": "Helm", **others, "repoURL": named}

    @property
    def parts(self) -> tuple[GitSource, ...]:
        """The sources that have a repository of their own: this one, or those that it joins."""
        return (self,)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the Secrets that it needs."""
        names = (self.credentials_secret, self.verification_secret, self.decryption_secret)
        values = (item.name for item in self.values_from if item.kind == "Secret")
        return (*(name for name in names if name), *values)

    @property
    def values_from(self) -> tuple[ValuesRef, ...]:
        """The ConfigMaps and Secrets that have values for its chart."""
        return self.helm.values_from if self.helm else ()

    @property
    def is_fixed(self) -> bool:
        """Whether it follows nothing: its revision is a commit id, or those of all that it joins are."""
        return all(_COMMIT.fullmatch(part.revision) for part in self.parts)

    @property
    def credentials_secret(self) -> str:
        """The name of the Secret of credentials, empty when there is none."""
        return self.credentials.secret_ref.name if self.credentials else ""

    @property
    def verification_secret(self) -> str:
        """The name of the Secret of public keys, empty when there is none."""
        return self.verify.secret_ref.name if self.verify.secret_ref else ""

    @property
    def decryption_secret(self) -> str:
        """The name of the Secret of age keys, empty when there is none."""
        return self.decryption.secret_ref.name if self.decryption else ""


class NamedSource(GitSource):
    """One of several sources, with the name by which others use its files."""

    name: Annotated[str, Field(max_length=40, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")] = Field(
        description="Name of the source: `$NAME/path` in `valueFiles` of another one is one of its files."
    )
    path: Annotated[str, Field(max_length=1024)] = Field(
        "", description="The folder to render; absent: the chart, or nothing of another source, which others read."
    )

    @property
    def folder(self) -> str | None:
        """The folder to render among the files of all sources, each of which has a folder of its name."""
        path = self.path or ("." if self.chart else "")
        return f"{self.name}/{path}" if path else None


class SourceGroup(GitSource):
    """
    Several sources as one.

    Its URL names the repositories, its revision those of its members; a commit of it joins one of each member. So all
    that works with the commit of one source works with those of several.
    """

    members: tuple[NamedSource, ...] = ()

    @classmethod
    def of(cls, members: tuple[NamedSource, ...]) -> SourceGroup:
        """Return the group of some sources."""
        url, revision = joined_source((member.name, member.repo_url, member.revision) for member in members)
        return cls.model_construct(repo_url=url, revision=revision, members=members)

    @property
    def parts(self) -> tuple[GitSource, ...]:
        """The sources that it joins."""
        return self.members


class Destination(Section):
    """Target namespace, impersonated service account, and whether cluster-scoped objects are allowed."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("server", "name"), "leave it out: a controller syncs the cluster that it runs in"
    )

    namespace: str = Field(
        "", description="Namespace of objects that name none; absent: the namespace of the Application."
    )
    service_account: str = Field(
        "",
        alias="serviceAccountName",
        description="ServiceAccount in the namespace of the Application that is impersonated for every write.",
    )
    allow_cluster_scoped: bool = Field(False, description="Whether cluster-scoped objects may be applied.")
    create_namespace: bool = Field(
        False, description="Create the namespace when it does not exist; it is never changed or pruned."
    )


class Dependency(Section):
    """An Application that has to be Synced and Healthy first."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "readyExpr": "leave it out: it has to be Synced and Healthy",
    }

    name: Text = Field(
        description="Name of an Application that has to be Synced and Healthy, at its newest spec (and at the same"
        " commit of the same repository), before a new commit is applied; with a cycle nothing is applied."
    )
    namespace: str = Field("", description="Its namespace; absent: the namespace of this Application.")


class HealthCheck(Section):
    """The health of a kind by CEL: degraded, else healthy, else Progressing."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "apiVersion": "write group",
        "inProgress": "leave it out: what is neither current nor failed is Progressing",
        "name": "leave it out: the health of every object is evaluated",
        "namespace": "leave it out: the health of every object is evaluated",
    }

    group: str = Field("", description="API group of the kind; absent: the core group.")
    kind: Text = Field(description="The kind.")
    healthy: Annotated[Text, Field(max_length=4096)] = Field(
        alias="current", description="CEL expression over `object`: Healthy when `true`, otherwise Progressing."
    )
    degraded: Annotated[str, Field(max_length=4096)] = Field(
        "", alias="failed", description="CEL expression over `object`, evaluated first: Degraded when `true`."
    )


class RetryBackoff(Section):
    """Delays between retries."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "duration": "write initial",
        "maxDuration": "write max",
    }

    initial: Duration = Field(5.0, description="Delay before the first retry.")
    factor: Annotated[float, Field(ge=1)] = Field(2, description="Factor by which each delay is longer.")
    max: Duration = Field(180.0, description="Longest delay.")


class Retry(Section):
    """How often a failed sync of one commit is retried, and when."""

    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        5, description="Retries of one commit with growing delays; later ones continue at the longest delay."
    )
    backoff: RetryBackoff = Field(default_factory=RetryBackoff, description="Delays between retries.")


class IgnoreRule(Section):
    """Differences that are not drift; an empty ``group``, ``name`` or ``namespace`` matches all, as ``*`` does."""

    group: str = Field("", description="API group, `*` for all; absent: all.")
    kind: str = Field(description="The kind, `*` for all. Ignored fields keep their value in the cluster.")
    name: str = Field("", description="Name of the object; absent: all.")
    namespace: str = Field("", description="Namespace of the object; absent: all.")
    json_pointers: Strings = Field((), description="Fields by JSON Pointer.")
    jq_paths: Strings = Field(
        (), alias="jqPathExpressions", description="Fields by a path such as `.spec.containers[].image`."
    )
    managers: Strings = Field((), alias="managedFieldsManagers", description="Field managers whose fields are ignored.")


class Window(Section):
    """A time in which syncs are allowed or denied."""

    kind: Literal["Allow", "Deny"] = Field(description="Whether syncs are allowed or denied while it is open.")
    schedule: str = Field(description="When the window opens: a cron expression of five fields.")
    duration: Duration = Field(description="How long it stays open.")
    time_zone: str = Field("UTC", description="Time zone of the schedule, such as `Europe/Berlin`.")
    manual_sync: bool = Field(False, description="Whether a manually requested sync ignores the window.")
    self_heal: bool = Field(True, description="Whether self-heal runs also while the window does not allow syncs.")


class MetricQuery(Section):
    """A Prometheus query, its maximum value, and how long it may be exceeded."""

    name: Annotated[Text, Field(max_length=63)] = Field(description="What the number is, for messages.")
    query: Annotated[Text, Field(max_length=2048)] = Field(
        alias="prometheusQuery", description="PromQL instant query; each series of its result is compared."
    )
    max: DecimalText = Field(description='Maximum value, in quotes, such as `"0.05"`.')
    for_seconds: Duration = Field(0.0, alias="for", description="How long the maximum may be exceeded.")


class PostSync(Section):
    """How a newly applied commit is judged, and what to do with one that is not good."""

    health_timeout: Duration = Field(
        600.0,
        description="How long a commit, a wave and a hook may take to become healthy, and how long queries are"
        " evaluated.",
    )
    on_degraded: Literal["Rollback", "Hold", "Ignore"] = Field(
        "Ignore",
        description="What to do with a commit that is not good: `Rollback` to the last good one, `Hold`, `Ignore`.",
    )
    degraded_for: Duration = Field(
        30.0,
        description="How long a commit has to be Degraded without interruption before `onDegraded` applies: new objects"
        " may be Degraded while they start.",
    )
    queries: Annotated[tuple[MetricQuery, ...], Field(strict=False, max_length=10), Keyed("name")] = Field(
        (),
        description="Queries of the operator's Prometheus whose values a new commit has to keep within limits.",
    )


class SelfHeal(Section):
    """Whether what others change is restored, and when."""

    enabled: bool = Field(True, description="Whether what others change is restored; false: only reported.")
    during_windows: bool = Field(
        True, description="Whether it is restored also while a window does not allow syncs of new commits."
    )


def _self_heal(value: object) -> object:
    """Return the long form of ``selfHeal: true`` and ``selfHeal: false``."""
    return {"enabled": value} if isinstance(value, bool) else value


_SELF_HEAL_SCHEMA = {"x-kubernetes-preserve-unknown-fields": True}
"""A boolean or an object: a structural schema has no union of types, so that the controller validates it."""


class SyncPolicy(Section):
    """How the Application is kept in sync."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        "managedNamespaceMetadata": "declare the Namespace in Git",
        "syncOptions": "options are annotations of objects, such as those of Argo CD: docs/annotations.md",
        "retryInterval": "write retry",
        "timeout": "write postSync.healthTimeout",
    }

    automated: bool = Field(True, description="Whether new commits are applied without a request.")
    self_heal: Annotated[SelfHeal, BeforeValidator(_self_heal), WithJsonSchema(_SELF_HEAL_SCHEMA)] = Field(
        default_factory=SelfHeal,
        description="Whether what others change is restored to the state that was applied last, at once and without an"
        " approval: `true`, `false` (only reported), or an object with `enabled` and `duringWindows` (also while a"
        " window does not allow syncs of new commits), both `true` by default.",
    )
    prune: bool = Field(
        True,
        description="Whether objects are deleted that Git no longer declares, and all objects when the Application is"
        " deleted.",
    )
    preserve_resources_on_deletion: bool = Field(
        False, description="Whether the objects stay when the Application is deleted, also with `prune`."
    )
    keep_generated: Annotated[int, Field(ge=0, le=100)] = Field(
        0,
        description="How many earlier ConfigMaps and Secrets of each generated name (with a hash as suffix) are kept,"
        " so that a rollback finds them. Those that Pods still read are kept anyway, until their rollout is complete.",
    )
    undeclared_fields: Literal["Report", "Remove", "Ignore"] | None = Field(
        None,
        description="What to do with fields that others add to an object and Git does not declare: `Report` them,"
        " `Remove` them as drift, `Ignore` them; absent: those are removed that a user added and that change what a Pod"
        " or an Agent does, and all others are reported. Fields of Kubernetes itself, and of field managers that the"
        " operator's policy expects, stay.",
    )
    restart_on: Annotated[tuple[Literal["Secret", "ConfigMap"], ...], Field(strict=False, max_length=2)] = Field(
        (),
        description="Kinds, `Secret` and `ConfigMap`, whose change restarts the Deployments, StatefulSets and"
        " DaemonSets of the Application that read such an object by their environment or a volume; absent: that their"
        " Pods have an older content is only reported.",
    )
    modified_pods: Literal["Report", "Replace"] = Field(
        "Report",
        description="What to do with a Pod to which a user added an ephemeral container (`kubectl debug`): `Report` it,"
        " or `Replace` it by a new one.",
    )
    interval: Annotated[float, Seconds(minimum=1.0)] = Field(
        180.0, description="Time between polls of Git; a push event polls at once."
    )
    retry: Retry = Field(default_factory=Retry, description="How failed syncs are retried.")
    ignore: Annotated[tuple[IgnoreRule, ...], Field(strict=False)] = Field(
        (), alias="ignoreDifferences", description="Differences that are not drift."
    )
    windows: Annotated[tuple[Window, ...], Field(strict=False)] = Field(
        (), description="Times in which syncs are allowed or denied."
    )
    post_sync: PostSync = Field(
        default_factory=PostSync, description="How a newly applied commit is judged, and what to do with a bad one."
    )

    @property
    def deletes_with_application(self) -> bool:
        """Whether the objects are deleted when the Application is."""
        return self.prune and not self.preserve_resources_on_deletion

    @property
    def health_timeout(self) -> float:
        """Seconds in which a commit has to become healthy."""
        return self.post_sync.health_timeout

    @property
    def on_degraded(self) -> str:
        """What to do with a commit that is not good."""
        return self.post_sync.on_degraded

    @property
    def limits(self) -> tuple[MetricQuery, ...]:
        """The queries that a new commit has to keep within limits."""
        return self.post_sync.queries


class RiskMatch(Section):
    """The changes that a risk rule is for; what is absent matches all."""

    group: str = Field("", description="API group of the changed object; absent: all.")
    kind: str = Field("", description="Kind of the changed object; absent: all.")
    changed: Strings = Field((), description="JSON Pointers; the rule matches when one of these fields changes.")
    actions: Strings = Field((), description="Actions such as `create`, `update`, `prune`; absent: all.")


class RiskRule(Section):
    """A user's rule: a change that matches is at least of this class."""

    match: RiskMatch = Field(description="The changes that the rule is for.")
    # strict mode would accept a member of the enum alone, not its value
    risk: Annotated[Risk, Field(strict=False)] = Field(
        alias="class", description="The class that a matching change has at least."
    )


class Approvers(Section):
    """Who may approve and reject plans; without any name everyone who is signed in."""

    groups: Strings = Field((), description="Groups that may approve and reject plans.")
    users: Strings = Field((), description="Users who may approve and reject plans, by name.")


class RiskPolicy(Section):
    """Which class needs approval, by whom, how long an approval is valid, and how many deletes are usual."""

    approval: Literal["Never", "Dangerous", "Moderate"] = Field(
        "Dangerous", description="Lowest class of plans that need approval."
    )
    approvers: Approvers = Field(
        default_factory=Approvers, description="Who may approve and reject plans; absent: everyone who is signed in."
    )
    approval_ttl: Duration = Field(86400.0, alias="approvalTTL", description="How long an approval is valid.")
    max_deletes: Annotated[int, Field(ge=0)] = Field(
        10, description="A plan that deletes more objects is Dangerous and needs approval."
    )
    rules: Annotated[tuple[RiskRule, ...], Field(strict=False)] = Field(
        (), description="Rules that raise the class of matching changes."
    )

    @property
    def approval_class(self) -> Risk | None:
        """The lowest class that needs approval; None when no class does."""
        return None if self.approval == "Never" else Risk(self.approval)


class OpenAI(Section):
    """A chat endpoint that comments on plans and may raise their class, never lower it."""

    # No user and password in the URL: the spec is readable for all viewers, a key belongs into the Secret.
    endpoint: Annotated[str, Field(pattern=r"^https?://[^@]+$", max_length=1024)] = Field(
        description="Base URL of an OpenAI-compatible endpoint, to which `/chat/completions` is added; the operator"
        " allows its host."
    )
    model: Annotated[Text, Field(max_length=128)] = Field(description="The model to ask.")
    secret_ref: SecretRef | None = Field(None, description="Secret with the member `apiKey`.")
    timeout: Annotated[float, Seconds(1.0, _LONGEST_ANSWER)] = Field(
        20.0, description="How long one answer may take, at most 2m."
    )
    calls_per_hour: Annotated[int, Field(ge=0, le=100_000)] = Field(
        30, description="Requests per hour; beyond that plans are explained by rules only."
    )
    tokens_per_hour: Annotated[int, Field(ge=0, le=1_000_000_000)] = Field(
        100_000, description="Tokens per hour; beyond that plans are explained by rules only."
    )

    @property
    def key(self) -> str:
        """The name of the Secret of the API key, empty when there is none."""
        return self.secret_ref.name if self.secret_ref else ""


class ReasonerSpec(Section):
    """Who comments on plans."""

    openai: OpenAI | None = Field(
        None,
        alias="openAI",
        description="A chat endpoint that adds to the explanation of plans and may raise their class, never lower it.",
    )


class HistorySpec(Section):
    """How much is kept."""

    limit: Annotated[int, Field(ge=1, le=1000)] = Field(20, description="How many syncs are kept.")


class PullRequestSettings(Section):
    """How pull requests against the branch of the Application are previewed at the Git host."""

    host: Literal["Gitea", "GitHub", "GitLab"] = Field(
        description="The program of the Git host: `Gitea`, also for Forgejo, `GitHub` or `GitLab`. Its API is at the"
        " host of `source.repoURL`, and gets the token of `source.credentials`; of several sources, that of each one"
        " that has `credentials`."
    )
    comment: bool = Field(True, description="Whether the preview is a comment on the pull request, beside its status.")
    fail_above: Annotated[Risk | None, Field(strict=False)] = Field(
        None, description="The highest class with which the status `gitsync/preview` succeeds; absent: any."
    )
    rehearse: bool = Field(
        False, description="Whether each change is applied to a sandbox first; what that refuses fails the status."
    )


class ImagePolicy(Section):
    """Which tags of an image are newer; exactly one of the three orders."""

    name: Text = Field(description="The image without a tag, as the rendered object names it.")
    semver: str = Field("", description="A range of versions such as `>=1.2 <2`: the highest one in it.")
    number: str = Field("", description="Tags such as `build-*`, where `*` is a number: the highest one.")
    alphabetical: str = Field("", description="Tags such as `main-*`, where `*` is a time: the last one in order.")
    pin: bool = Field(False, description="Whether the digest of the tag is written too.")

    @model_validator(mode="after")
    def _has_one_order(self) -> Self:
        if [bool(self.semver), bool(self.number), bool(self.alphabetical)].count(True) != 1:
            raise PydanticCustomError("image_order", "write one of semver, number and alphabetical")
        if not self.semver and (self.number or self.alphabetical).count("*") != 1:
            raise PydanticCustomError("image_order", "write one * for the part that is compared")
        return self


UpdateMode = Literal["Manual", "PullRequest", "Commit"]
Requirement = Literal["Healthy", "Metrics", "Evaluations"]


class ImageUpdates(Section):
    """When the controller reads the registries of `images`, and what it does about newer tags."""

    mode: UpdateMode = Field(
        "Manual",
        description="`Manual` shows what is newer, `PullRequest` pushes a branch with it and opens its pull request,"
        " `Commit` commits it to the tracked branch.",
    )
    interval: Annotated[float, Seconds(minimum=60.0)] = Field(
        300.0, description="Time between two reads of the registries."
    )
    secret_ref: SecretRef | None = Field(
        None,
        description="Secret of the type `kubernetes.io/dockerconfigjson` that signs in at the registries of `images`.",
    )

    @property
    def credentials_secret(self) -> str:
        """The name of the Secret that signs in at registries, empty where there is none."""
        return self.secret_ref.name if self.secret_ref else ""


class Promotion(Section):
    """What is taken over from the Application of another environment."""

    from_: Text = Field(
        alias="from", description="The Application that has to be Synced and Healthy first, in the same namespace."
    )
    after: Duration = Field(0.0, description="For how long it has to have been so, without an interruption.")
    requires: Annotated[tuple[Requirement, ...], Field(strict=False, max_length=3)] = Field(
        ("Healthy",),
        description="What has to hold there beside Synced and Healthy, which always have to: `Metrics`, the limits of"
        " `postSync.queries` were kept for the whole time, `Evaluations`, each Agent with an evaluation passed it.",
    )
    take: Annotated[Strings, Field(min_length=1, max_length=20)] = Field(
        ("images",),
        description="What is taken: `images`, or fields such as `ConfigMap.data` and `Agent.spec.systemPrompt`.",
    )
    mode: UpdateMode = Field(
        "Manual",
        description="`Manual` shows what can be taken, `PullRequest` pushes a branch and opens its pull request."
        " `Commit` commits images to the tracked branch; what has any other field in it becomes a pull request.",
    )


class ApplicationSpec(Section):
    """The spec of an Application."""

    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = {
        # of an Application of Argo CD
        "syncPolicy": "write sync, with automated, prune and selfHeal as true or false",
        "project": "leave it out: what an Application may do is in the operator's policies",
        "ignoreDifferences": "write sync.ignoreDifferences",
        "revisionHistoryLimit": "write history.limit",
        "info": "write annotations",
        # of a Kustomization of Flux
        "sourceRef": "write source.repoURL and source.revision",
        "path": "write source.path",
        "targetNamespace": "write destination.namespace",
        "serviceAccountName": "write destination.serviceAccountName",
        "kubeConfig": "leave it out: a controller syncs the cluster that it runs in",
        "interval": "write sync.interval",
        "retryInterval": "write sync.retry",
        "prune": "write sync.prune",
        "deletionPolicy": "write sync.preserveResourcesOnDeletion",
        "force": "annotate the object instead: docs/annotations.md",
        "wait": "leave it out: health is always evaluated, for sync.postSync.healthTimeout",
        "timeout": "write sync.postSync.healthTimeout",
        "healthCheckExprs": "write healthChecks",
        "decryption": "write source.decryption",
        **dict.fromkeys(
            (
                "commonMetadata",
                "components",
                "ignoreMissingComponents",
                "namePrefix",
                "nameSuffix",
                "patches",
                "postBuild",
                "buildMetadata",
            ),
            "write it into the kustomization in Git",
        ),
        # of a HelmRelease of Flux
        "chart": "write source.repoURL, source.chart and source.revision",
        "chartRef": "write source.repoURL, source.chart and source.revision",
        "releaseName": "write source.helm.releaseName",
        "values": "write source.helm.values",
        "valuesFrom": "write source.helm.valuesFrom",
        "driftDetection": "write sync.selfHeal",
        "maxHistory": "write history.limit",
        "storageNamespace": "leave it out: a release has no storage",
        "persistentClient": "leave it out: charts are rendered, and never installed by Helm",
        "postRenderers": "write a kustomization with helmCharts in Git",
        "install": "write sync.retry and source.helm.skipCrds",
        "upgrade": "write sync.retry and sync.postSync",
        "rollback": "write sync.postSync.onDegraded",
        "uninstall": "write sync.prune",
        "test": "leave it out: tests of a chart are not run",
        # of a GitRepository of Flux
        "url": "write source.repoURL",
        "ref": "write source.revision, with the branch, tag, range or commit",
        "secretRef": "write source.credentials.secretRef",
        "verify": "write source.verify",
    }

    suspend: bool = Field(False, description="True stops syncing; the status is kept.")
    source: GitSource | None = Field(None, description="Where the manifests are; required unless there are `sources`.")
    # one of them is set by a pin without the others
    sources: Annotated[tuple[NamedSource, ...], Field(strict=False, max_length=10), Keyed("name")] = Field(
        (),
        description="Several sources, whose objects are applied together, instead of `source`.",
    )
    destination: Destination = Field(default_factory=Destination, description="Where objects are applied, and as whom.")
    depends_on: Annotated[tuple[Dependency, ...], Field(strict=False, max_length=100)] = Field(
        (), description="Applications that have to be Synced and Healthy before a new commit is applied."
    )
    health_checks: Annotated[tuple[HealthCheck, ...], Field(strict=False, max_length=100)] = Field(
        (), description="The health of kinds, by CEL expressions over `object`."
    )
    sync: SyncPolicy = Field(default_factory=SyncPolicy, description="How the Application is kept in sync.")
    risk: RiskPolicy = Field(default_factory=RiskPolicy, description="Which plans need approval.")
    reasoner: ReasonerSpec = Field(
        default_factory=ReasonerSpec, description="Who comments on plans; absent: rules only."
    )
    history: HistorySpec = Field(default_factory=HistorySpec, description="How much is kept.")
    pull_requests: PullRequestSettings | None = Field(
        None, description="Preview of pull requests at the Git host, and statuses of deployed commits; absent: none."
    )
    proposals: Annotated[Strings, Field(max_length=20)] = Field(
        (), description="Branches, as patterns such as `change/*`, that are previewed as pull requests are."
    )
    images: Annotated[tuple[ImagePolicy, ...], Field(strict=False, max_length=100)] = Field(
        (), description="Images whose newer tags `gitsync images --update` proposes."
    )
    image_updates: ImageUpdates = Field(
        default_factory=ImageUpdates, description="Whether the controller proposes the newer tags of `images`."
    )
    promotion: Promotion | None = Field(
        None, description="The environment whose images and fields `gitsync promote` proposes here; absent: none."
    )

    @model_validator(mode="after")
    def _has_sources(self) -> Self:
        if (self.source is None) == (not self.sources):
            what = "both source and sources are set" if self.sources else "source is missing"
            raise PydanticCustomError("source", "{what}", {"what": what, "hint": "write source, or a list of sources"})
        if self.sources and not any(member.folder for member in self.sources):
            hint = "set the path of one, or its chart"
            raise PydanticCustomError("source", "no source has anything to render", {"hint": hint})
        names = [member.name for member in self.sources]
        for member in self.sources:
            for file in member.helm.value_files if member.helm else ():
                name = file[1:].partition("/")[0]
                if file.startswith("$") and name not in names:
                    context = {"file": file, "hint": f"write $NAME/PATH with one of {', '.join(names)}"}
                    raise PydanticCustomError("source", "{file} is of a source that is not listed", context)
        return self

    @property
    def joined_source(self) -> GitSource:
        """The source, or several as one."""
        return self.source or SourceGroup.of(self.sources)


class ChartInputs(NamedTuple):
    """
    What charts get of the destination: versions, and the values that ``valuesFrom`` names, as far as they were read.

    An empty ``kube_version`` is Helm's own.
    """

    kube_version: str = ""
    api_versions: tuple[str, ...] = ()
    values: tuple[tuple[ValuesRef, str], ...] = ()


_NO_INPUTS = ChartInputs()


class FolderRender(NamedTuple):
    """A folder that is rendered, and how; ``name`` is that of its source, empty for the only one."""

    name: str
    path: str
    renderer: str
    chart: ChartOptions


@dataclass(frozen=True, slots=True)
class Application:
    """
    One Application custom resource: its identity and its validated spec; ``key`` is ``namespace/name``.

    ``owner`` is the key of the Application whose marks it carries, empty where a user applied it. ``set`` is the name
    of the ApplicationSet that yields it, empty where none does. ``field_manager`` applies its objects.
    ``owns_by_reference``: its objects name its uid as their controller, instead of carrying marks; that is so for the
    plans of Agents. ``deletes_in_foreground``: a deleted object stays until what it owns is gone.
    ``account_namespace`` is that of the ServiceAccount, empty for the Application's own. ``deletes_for`` are the keys
    of Applications that are deleted too, whose objects it deletes with its own. ``holds`` are the fields that users
    keep as they are; of a reconcile, those that are in force. ``chart_inputs`` were read for its charts.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    source: GitSource
    destination: Destination
    sync: SyncPolicy = field(default_factory=SyncPolicy)
    risk: RiskPolicy = field(default_factory=RiskPolicy)
    suspend: bool = False
    is_deleted: bool = False
    history_limit: int = 20
    requested_sync: str = ""
    requested_objects: str = ""
    """The annotation that limits the requested sync to some objects, empty for one of all."""
    depends_on: tuple[str, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    openai: OpenAI | None = None
    owner: str = ""
    set: str = ""
    field_manager: str = FIELD_MANAGER
    owns_by_reference: bool = False
    deletes_in_foreground: bool = False
    account_namespace: str = ""
    deletes_for: frozenset[str] = frozenset()
    pull_requests: PullRequestSettings | None = None
    proposals: tuple[str, ...] = ()
    images: tuple[ImagePolicy, ...] = ()
    image_updates: ImageUpdates = field(default_factory=ImageUpdates)
    promotion: Promotion | None = None
    holds: tuple[FieldHold, ...] = ()
    chart_inputs: ChartInputs = _NO_INPUTS

    @property
    def is_managed(self) -> bool:
        """Whether another Application applied it from Git, so that authors of commits wrote its spec."""
        return self.owner not in ("", self.key)

    @property
    def key(self) -> str:
        """``namespace/name``, as queues and records name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def renders(self) -> tuple[FolderRender, ...]:
        """The folders that are rendered, and how: that of its source, or those of several."""
        if not isinstance(self.source, SourceGroup):
            return (FolderRender("", self.source.path, self.source.renderer, self.chart),)
        return tuple(
            FolderRender(member.name, member.folder, member.renderer, self._chart_of(member, member.name))
            for member in self.source.members
            if member.folder
        )

    @property
    def chart(self) -> ChartOptions:
        """How the path is rendered where it is a Helm chart; of several sources, what all renders depend on."""
        options = self._chart_of(self.source)
        if not isinstance(self.source, SourceGroup):
            return options
        renders = self.renders
        return options._replace(
            values=json.dumps([render.chart for render in renders]),
            cluster_values=tuple(item for render in renders for item in render.chart.cluster_values),
        )

    def _chart_of(self, source: GitSource, name: str = "") -> ChartOptions:
        """Return how a source is rendered where it is a chart; ``name`` is the folder of its files, if it has one."""
        helm = source.helm or _NO_SETTINGS
        inputs = self.chart_inputs
        texts = dict(inputs.values)
        return ChartOptions(
            release=helm.release_name or self.name,
            namespace=self.destination.namespace or self.namespace,
            value_files=tuple(joined_file(file, name) for file in helm.value_files) if name else helm.value_files,
            values=helm.values,
            skips_missing_files=helm.ignore_missing_value_files,
            includes_crds=not helm.skip_crds,
            skips_tests=helm.skip_tests,
            kube_version=helm.kube_version or inputs.kube_version,
            api_versions=(*helm.api_versions, *inputs.api_versions),
            cluster_values=tuple(
                ClusterValues(f"{ref.kind} {self.namespace}/{ref.name}", texts.get(ref), ref.kind == "Secret")
                for ref in helm.values_from
            ),
        )

    @property
    def target_hash(self) -> str:
        """
        A hash of the source and destination, for which a commit was applied.

        It is stored in the status, so its input keeps the names that earlier versions used.
        """
        source = self.source
        destination = self.destination
        return content_hash(
            [
                {
                    "repo_url": source.repo_url,
                    "revision": source.revision,
                    "path": source.path,
                    "renderer": source.renderer,
                    "credentials": source.credentials_secret,
                    "verify": source.verify.mode,
                    "verify_keys": source.verification_secret,
                    "decryption_keys": source.decryption_secret,
                    # absent where it is not set, as in the hashes of earlier versions
                    **({"helm": source.helm.model_dump()} if source.helm else {}),
                    **(
                        {"members": [member.model_dump() for member in source.members]}
                        if isinstance(source, SourceGroup)
                        else {}
                    ),
                },
                destination.model_dump(),
            ]
        )[:12]


def joined_file(file: str, name: str) -> str:
    """Return a values file of a source by its path among the files of several, each of which has a folder."""
    if file.startswith("$"):
        return f"/{file[1:]}"
    return f"/{name}{file}" if file.startswith("/") else file


def followed_source(manifest: Manifest) -> tuple[str, str]:
    """Return the URL and revision that an Application follows, as its source has them; nothing is validated."""
    entries = _source_entries(manifest)
    if entries and at(manifest, "spec", "sources"):
        return joined_source((str(entry.get("name")), _url_of(entry), _revision_of(entry)) for entry in entries)
    return next(((_url_of(entry), _revision_of(entry)) for entry in entries), ("", _revision_of({})))


def source_urls(manifest: Manifest) -> frozenset[str]:
    """Return the URLs of the repositories that an Application names, and that by which several are joined."""
    return frozenset({followed_source(manifest)[0], *map(_url_of, _source_entries(manifest))} - {""})


def _source_entries(manifest: Manifest) -> list[Mapping[str, Any]]:
    entries = at(manifest, "spec", "sources") or [at(manifest, "spec", "source")]
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _url_of(entry: Mapping[str, Any]) -> str:
    url = str(entry.get("repoURL") or "")
    try:
        return chart_url(url, str(entry["chart"])) if entry.get("chart") else url
    except ValueError:
        return url


def _revision_of(entry: Mapping[str, Any]) -> str:
    return str(entry.get("revision") or GitSource.model_fields["revision"].default)


def field_of(source: GitSource) -> str:
    """Return the field of the spec that has a source, as errors name it."""
    return f"spec.sources[{source.name}]" if isinstance(source, NamedSource) else "spec.source"


def apps_of_parts(app: Application) -> tuple[Application, ...]:
    """Return an Application as if each of its sources were the only one."""
    return tuple(replace(app, source=part) for part in app.source.parts)


def app_of_part(app: Application, name: str) -> Application:
    """Return an Application as if its source of a name were the only one; itself where no source is named."""
    if not name:
        return app
    for part in apps_of_parts(app):
        if isinstance(part.source, NamedSource) and part.source.name == name:
            return part
    raise InvalidInput(
        f"no source is named {name[:40]!r}", object=f"Application {app.key}", hint="name one of spec.sources"
    )


def dependencies_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the Applications that one depends on, as ``namespace/name``; its own namespace where none is named."""
    namespace = metadata_of(manifest).get("namespace", "")
    entries = at(manifest, "spec", "dependsOn") or []
    return tuple(f"{entry.get('namespace') or namespace}/{entry['name']}" for entry in entries)


_NAME_LIMIT = 63
"""Characters of an Application's name, which is the value of a label."""


def parse_application(manifest: Manifest) -> Application:
    """
    Return the Application of a custom resource.

    Raise InvalidInput naming the field when a value has the wrong form. Whether the URL, revision and path are
    safe to use is for the source to check.
    """
    meta = metadata_of(manifest)
    name = str(meta.get("name", ""))
    namespace = str(meta.get("namespace", ""))
    if len(name) > _NAME_LIMIT:
        raise InvalidInput(
            f"metadata.name has {len(name)} characters; the label of its objects takes {_NAME_LIMIT}",
            object=f"Application {namespace}/{name}",
            hint="choose a shorter name",
        )
    spec = parse_spec(ApplicationSpec, manifest.get("spec"), "spec", object=f"Application {namespace}/{name}")
    return Application(
        name=name,
        namespace=namespace,
        uid=str(meta.get("uid", "")),
        # a manifest from Git has neither a uid nor a generation
        generation=int(meta.get("generation", 0)),
        source=spec.joined_source,
        # filled in once, so that no reader of the destination has to know the default
        destination=spec.destination.model_copy(update={"namespace": spec.destination.namespace or namespace}),
        sync=spec.sync,
        risk=spec.risk,
        suspend=spec.suspend,
        is_deleted=bool(meta.get("deletionTimestamp")),
        history_limit=spec.history.limit,
        openai=spec.reasoner.openai,
        depends_on=tuple(f"{other.namespace or namespace}/{other.name}" for other in spec.depends_on),
        health_checks=spec.health_checks,
        pull_requests=spec.pull_requests,
        proposals=spec.proposals,
        images=spec.images,
        image_updates=spec.image_updates,
        promotion=spec.promotion,
        holds=holds_of(manifest),
        requested_sync=str(annotations_of(manifest).get(REQUESTED_SYNC, "")),
        requested_objects=str(annotations_of(manifest).get(REQUESTED_OBJECTS, "")),
        set=labels_of(manifest).get(SET_LABEL, ""),
        owner=owner_of_marks(manifest, ObjectRef(APPLICATION.group, APPLICATION.kind, namespace, name)),
    )


def owner_of_marks(manifest: Manifest, ref: ObjectRef) -> str:
    """
    Return the Application that tracks this very object, empty for a copy.

    One of an ApplicationSet belongs to the Application that applied the set.
    """
    # A copy under another name carries the annotation too; the path in it still names the original.
    owner, _, path = annotations_of(manifest).get(TRACKING_ID, "").partition(":")
    return owner if path == ref.path else annotations_of(manifest).get(MANAGED_BY, "")
