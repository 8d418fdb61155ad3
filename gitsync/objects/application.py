"""Application: what to sync from where to where, parsed from the custom resource and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.change import Risk
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.parsing import choice, parse_duration, parse_number, strings

_LONGEST_ANSWER = 120.0


@dataclass(frozen=True, slots=True)
class GitSource:
    """
    Where the manifests are.

    ``revision`` is a branch, a tag or a commit; ``credentials`` names a Secret, ``verify_keys`` one of public keys, and
    ``decryption_keys`` one of age keys for what SOPS encrypted.
    """

    repo_url: str
    revision: str = "main"
    path: str = "."
    renderer: str = "Auto"
    credentials: str = ""
    verify: str = "None"
    verify_keys: str = ""
    decryption_keys: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where objects go that name no namespace, as whom, and what is allowed beside: cluster scope, a new namespace."""

    namespace: str
    service_account: str = ""
    allow_cluster_scoped: bool = False
    create_namespace: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed sync of one commit is tried again, and the delays in seconds."""

    limit: int = 5
    initial: float = 5.0
    factor: float = 2.0
    max: float = 180.0


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """Differences that are no drift; an empty ``group``, ``name`` or ``namespace`` matches all, ``*`` too."""

    kind: str
    group: str = ""
    name: str = ""
    namespace: str = ""
    json_pointers: tuple[str, ...] = ()
    jq_paths: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which syncs are allowed or denied; ``schedule`` is cron, ``duration`` seconds."""

    kind: str
    schedule: str
    duration: float
    time_zone: str = "UTC"
    manual_sync: bool = False


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """The most that a Prometheus query may give after a sync, and for how many seconds more is borne."""

    name: str
    query: str
    max: float
    for_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """How the application is kept in sync; times in seconds."""

    automated: bool = True
    self_heal: bool = True
    prune: bool = True
    interval: float = 180.0
    retry: Retry = field(default_factory=Retry)
    ignore: tuple[IgnoreRule, ...] = ()
    windows: tuple[Window, ...] = ()
    health_timeout: float = 600.0
    on_degraded: str = "Ignore"
    limits: tuple[MetricQuery, ...] = ()


@dataclass(frozen=True, slots=True)
class RiskRule:
    """A user's rule: a change that matches is at least of this class."""

    risk: Risk
    group: str = ""
    kind: str = ""
    changed: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RiskPolicy:
    """Which class waits for a person (None: nothing waits), for how long an approval holds, and how many deletes."""

    approval: Risk | None = Risk.DANGEROUS
    approver_groups: tuple[str, ...] = ()
    approver_users: tuple[str, ...] = ()
    approval_ttl: float = 86400.0
    max_deletes: int = 10
    rules: tuple[RiskRule, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenAI:
    """A chat endpoint that may comment on plans; ``key`` names a Secret, ``timeout`` is in seconds."""

    endpoint: str
    model: str
    key: str = ""
    timeout: float = 20.0
    calls_per_hour: int = 30
    tokens_per_hour: int = 100_000


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """
    How to tell the health of a kind, by CEL over ``object``: the first expression that is true decides.

    None of them true means Progressing.
    """

    group: str
    kind: str
    healthy: str
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class Application:
    """One Application custom resource; ``key`` is ``namespace/name``."""

    name: str
    namespace: str
    uid: str
    generation: int
    source: GitSource
    destination: Destination
    sync: SyncPolicy
    risk: RiskPolicy
    suspend: bool = False
    is_deleted: bool = False
    history_limit: int = 20
    requested_sync: str = ""
    depends_on: tuple[str, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    openai: OpenAI | None = None

    @property
    def key(self) -> str:
        """``namespace/name``, as queues and records name it."""
        return f"{self.namespace}/{self.name}"


def _ignore_rule(rule: Mapping[str, Any], where: str) -> IgnoreRule:
    return IgnoreRule(
        kind=str(rule.get("kind", "*")),
        group=str(rule.get("group", "")),
        name=str(rule.get("name", "")),
        namespace=str(rule.get("namespace", "")),
        json_pointers=strings(rule.get("jsonPointers", []), f"{where}.jsonPointers"),
        jq_paths=strings(rule.get("jqPathExpressions", []), f"{where}.jqPathExpressions"),
        managers=strings(rule.get("managedFieldsManagers", []), f"{where}.managedFieldsManagers"),
    )


def _window(window: Mapping[str, Any], where: str) -> Window:
    return Window(
        kind=choice(window.get("kind"), ("Allow", "Deny"), f"{where}.kind"),
        schedule=str(window.get("schedule", "")),
        duration=parse_duration(window.get("duration"), f"{where}.duration"),
        time_zone=str(window.get("timeZone", "UTC")),
        manual_sync=bool(window.get("manualSync", False)),
    )


def _risk_rule(rule: Mapping[str, Any], where: str) -> RiskRule:
    match = rule.get("match") or {}
    return RiskRule(
        risk=Risk(choice(rule.get("class"), ("Safe", "Moderate", "Dangerous"), f"{where}.class")),
        group=str(match.get("group", "")),
        kind=str(match.get("kind", "")),
        changed=strings(match.get("changed", []), f"{where}.match.changed"),
        actions=strings(match.get("actions", []), f"{where}.match.actions"),
    )


def _sync_policy(spec: Mapping[str, Any]) -> SyncPolicy:
    where = "spec.sync"
    backoff = at(spec, "retry", "backoff", default={})
    return SyncPolicy(
        automated=bool(spec.get("automated", True)),
        self_heal=bool(spec.get("selfHeal", True)),
        prune=bool(spec.get("prune", True)),
        interval=parse_duration(spec.get("interval", "3m"), f"{where}.interval", least=1.0),
        retry=Retry(
            limit=int(at(spec, "retry", "limit", default=5)),
            initial=parse_duration(backoff.get("initial", "5s"), f"{where}.retry.backoff.initial"),
            factor=float(backoff.get("factor", 2)),
            max=parse_duration(backoff.get("max", "3m"), f"{where}.retry.backoff.max"),
        ),
        ignore=tuple(
            _ignore_rule(rule, f"{where}.ignoreDifferences[{index}]")
            for index, rule in enumerate(spec.get("ignoreDifferences") or [])
        ),
        windows=tuple(
            _window(window, f"{where}.windows[{index}]") for index, window in enumerate(spec.get("windows") or [])
        ),
        health_timeout=parse_duration(
            at(spec, "postSync", "healthTimeout", default="10m"), f"{where}.postSync.healthTimeout"
        ),
        on_degraded=choice(
            at(spec, "postSync", "onDegraded", default="Ignore"),
            ("Rollback", "Hold", "Ignore"),
            f"{where}.postSync.onDegraded",
        ),
        limits=_limits(at(spec, "postSync", "queries") or (), f"{where}.postSync.queries"),
    )


def _limits(queries: Sequence[Mapping[str, Any]], where: str) -> tuple[MetricQuery, ...]:
    limits = tuple(_limit(query, f"{where}[{index}]") for index, query in enumerate(queries))
    if len({limit.name for limit in limits}) < len(limits):
        raise InvalidInput("two queries have one name", location=where)
    return limits


def _limit(query: Mapping[str, Any], where: str) -> MetricQuery:
    name, text = str(query.get("name", "")), str(query.get("prometheusQuery", ""))
    if not name or not text:
        raise InvalidInput("needs name and prometheusQuery", location=where)
    most = parse_number(query.get("max"), f"{where}.max")
    return MetricQuery(name, text, most, parse_duration(query.get("for", "0s"), f"{where}.for"))


def _risk_policy(spec: Mapping[str, Any]) -> RiskPolicy:
    where = "spec.risk"
    approval = choice(spec.get("approval", "Dangerous"), ("Never", "Dangerous", "Moderate"), f"{where}.approval")
    return RiskPolicy(
        approval=None if approval == "Never" else Risk(approval),
        approver_groups=strings(at(spec, "approvers", "groups", default=[]), f"{where}.approvers.groups"),
        approver_users=strings(at(spec, "approvers", "users", default=[]), f"{where}.approvers.users"),
        approval_ttl=parse_duration(spec.get("approvalTTL", "24h"), f"{where}.approvalTTL"),
        max_deletes=int(spec.get("maxDeletes", 10)),
        rules=tuple(_risk_rule(rule, f"{where}.rules[{index}]") for index, rule in enumerate(spec.get("rules") or [])),
    )


def _openai(spec: Mapping[str, Any] | None) -> OpenAI | None:
    """Return the endpoint of the reasoner; None where the rules are all."""
    if not spec:
        return None
    where = "spec.reasoner.openAI"
    endpoint, model = str(spec.get("endpoint", "")), str(spec.get("model", ""))
    if not endpoint or not model:
        raise InvalidInput("needs endpoint and model", location=where)
    timeout = parse_duration(spec.get("timeout", "20s"), f"{where}.timeout", least=1.0)
    if timeout > _LONGEST_ANSWER:
        raise InvalidInput(f"is out of range: between 1s and {_LONGEST_ANSWER:.0f}s", location=f"{where}.timeout")
    return OpenAI(
        endpoint=endpoint,
        model=model,
        key=str(at(spec, "secretRef", "name", default="")),
        timeout=timeout,
        calls_per_hour=int(spec.get("callsPerHour", 30)),
        tokens_per_hour=int(spec.get("tokensPerHour", 100_000)),
    )


def _decryption_keys(source: Mapping[str, Any]) -> str:
    """Return the name of the Secret of keys; there is one provider only."""
    decryption = source.get("decryption")
    if not decryption:
        return ""
    choice(at(decryption, "provider"), ("sops",), "spec.source.decryption.provider")
    name = str(at(decryption, "secretRef", "name", default=""))
    if not name:
        raise InvalidInput("names no Secret", location="spec.source.decryption.secretRef.name")
    return name


def dependencies_of(manifest: Manifest) -> tuple[str, ...]:
    """Return the applications that one depends on, as ``namespace/name``; its own namespace where none is named."""
    namespace = metadata_of(manifest).get("namespace", "")
    entries = at(manifest, "spec", "dependsOn") or []
    return tuple(f"{entry.get('namespace') or namespace}/{entry['name']}" for entry in entries)


def _health_check(check: Mapping[str, Any]) -> HealthCheck:
    return HealthCheck(
        group=str(check.get("group", "")),
        kind=str(check["kind"]),
        healthy=str(check["current"]),
        degraded=str(check.get("failed", "")),
    )


def parse_application(manifest: Manifest) -> Application:
    """
    Return the Application of a custom resource.

    Raise InvalidInput naming the field when a value has the wrong form. Whether the URL, revision and path are
    safe to use is for the source to check.
    """
    meta, spec = metadata_of(manifest), manifest.get("spec")
    name = str(meta.get("name", ""))
    if not isinstance(spec, dict):
        raise InvalidInput("must be a mapping", location="spec", object=f"Application {name}")
    source, destination = spec.get("source") or {}, spec.get("destination") or {}
    try:
        return Application(
            name=name,
            namespace=str(meta.get("namespace", "")),
            uid=str(meta.get("uid", "")),
            generation=int(meta.get("generation", 0)),
            source=GitSource(
                repo_url=str(source.get("repoURL", "")),
                revision=str(source.get("revision", "main")),
                path=str(source.get("path", ".")),
                renderer=choice(source.get("renderer", "Auto"), ("Auto", "Kustomize", "Plain"), "spec.source.renderer"),
                credentials=str(at(source, "credentials", "secretRef", "name", default="")),
                verify_keys=str(at(source, "verify", "secretRef", "name", default="")),
                decryption_keys=_decryption_keys(source),
                verify=choice(
                    at(source, "verify", "mode", default="None"), ("None", "SignedCommits"), "spec.source.verify.mode"
                ),
            ),
            destination=Destination(
                namespace=str(destination.get("namespace") or meta.get("namespace", "")),
                service_account=str(destination.get("serviceAccountName", "")),
                allow_cluster_scoped=bool(destination.get("allowClusterScoped", False)),
                create_namespace=bool(destination.get("createNamespace", False)),
            ),
            sync=_sync_policy(spec.get("sync") or {}),
            risk=_risk_policy(spec.get("risk") or {}),
            suspend=bool(spec.get("suspend", False)),
            is_deleted=bool(meta.get("deletionTimestamp")),
            history_limit=int(at(spec, "history", "limit", default=20)),
            openai=_openai(at(spec, "reasoner", "openAI")),
            depends_on=dependencies_of(manifest),
            health_checks=tuple(_health_check(check) for check in spec.get("healthChecks") or []),
            requested_sync=str(at(meta, "annotations", "gitsync.dev/requested-sync", default="")),
        )
    except InvalidInput as error:
        raise InvalidInput(
            error.message,
            location=error.location,
            object=f"Application {meta.get('namespace', '')}/{name}",
            hint=error.hint,
        ) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"cannot be read: {error}", location="spec", object=f"Application {name}") from error
