"""
Seven adversaries against one tenant: no sequence of their moves does what no approver allowed.

The moves are composed from a grammar: what is harmful, in which shape of object it is, and how it comes about. What
counts as harm is computed here, from values and from the rights of the account, and asks no rule of gitsync.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.edit.images import DeclaredImage, choose, image_values, parse_image
from gitsync.errors import GitsyncError, InvalidInput, Refused, SourceUnavailable
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import parse_policy
from gitsync.merge.schema import Schemas
from gitsync.objects.application import GitSource, ImagePolicy
from gitsync.objects.change import Review, review_of
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditHead, AuditRecord
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.ports import ApiResource, Credentials
from gitsync.runtime.work_costs import StageTimer
from gitsync.server.app import create_app
from gitsync.server.auth.access import Access, SignIn
from gitsync.server.auth.users import Users, add
from gitsync.services.reviews import Approval, ReviewService
from tests.asgi_server import run_apart
from tests.fakes.pipeline import PipelineEngine
from tests.fakes.ports import FakeCluster, FakeRecords
from tests.fakes.source import FakeSource
from tests.gate.factories import sequences
from tests.server.fakes import FORM, StillEngine, application, engine

KEY = "gitsync/shop"
ACCOUNT = "system:serviceaccount:gitsync:deployer"
"""The account that the Application impersonates. Its rights: everything in ``prod`` but roles and bindings."""
URL = "https://git.example/team/shop"
CANARY = "what-the-bank-keeps"
PASSWORD = "password-of-the-team"
TENANT = {
    "namespaces": ["gitsync", "prod"],
    "accounts": ["deployer"],
    "repositories": [{"url": "https://git.example/team/*", "secrets": ["login"], "revisions": ["main"]}],
    "require": {
        "approval": "Dangerous",
        "approvers": {"groups": ["sre"], "notAuthor": True},
        "viewers": {"groups": ["team", "sre"]},
    },
}
SAM = User("sam", ("sre",), is_authenticated=True)
REVIEWERS = (
    SAM,
    User("Ada", ("sre",), is_authenticated=True),  # the author of all commits
    User("vic", ("team",), is_authenticated=True),
    User("sam", ("sre",)),  # a name that no sign-in proved
    User("sam", (), is_authenticated=True),
)
GRANTS = frozenset({SAM})
"""Whose approval counts: of the group, signed in, and no author."""


# --- the grammar of commits ---


def manifest(api: str, kind: str, name: str = "x", namespace: str = "prod", **members: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **members}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CONTAINER = {"name": "c", "image": "registry.example/shop@sha256:" + "0" * 64}
POD: Manifest = {"containers": [CONTAINER]}
EVIL = "https://evil.example/v1"
PODS: Mapping[str, Manifest] = {
    "privileged": {"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]},
    "node": {**POD, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    "account": {**POD, "serviceAccountName": "operator"},
    "names": {**POD, "hostAliases": [{"ip": "203.0.113.9", "hostnames": ["models.corp"]}]},
    "secret": {**POD, "volumes": [{"name": "v", "secret": {"secretName": "bank-db"}}]},
    "processes": {**POD, "hostPID": True},
    "endpoint": {"containers": [{**CONTAINER, "env": [{"name": "OPENAI_BASE_URL", "value": EVIL}]}]},
}
SHAPES: tuple[tuple[str, str, Callable[[Manifest], Manifest]], ...] = (
    ("apps/v1", "Deployment", lambda pod: {"template": {"spec": pod}}),
    ("apps/v1", "StatefulSet", lambda pod: {"template": {"spec": pod}}),
    ("batch/v1", "CronJob", lambda pod: {"jobTemplate": {"spec": {"template": {"spec": pod}}}}),
    ("ray.io/v1", "RayCluster", lambda pod: {"headGroupSpec": {"template": {"spec": pod}}}),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", lambda pod: {"jobs": [{"template": {"spec": {"template": {"spec": pod}}}}]}),
    ("unknown.example/v1", "Anything", lambda pod: {"deep": [{"er": {"podSpec": pod}}]}),
)
TEXTS: tuple[tuple[str, str, Callable[[str], Manifest]], ...] = (
    ("v1", "ConfigMap", lambda url: {"data": {"OPENAI_BASE_URL": url}}),
    ("v1", "ConfigMap", lambda url: {"data": {"app.yaml": f"base_url: {url}"}}),
    ("v1", "ConfigMap", lambda url: {"binaryData": {"app.yaml": encoded(f"base_url: {url}")}}),
    ("v1", "Secret", lambda url: {"data": {"app.yaml": encoded(f"base_url: {url}")}}),
)
GOOD = "https://models.corp/v1"
ANNOTATIONS = (
    ("v1", "ServiceAccount", "eks.amazonaws.com/role-arn"),
    ("v1", "ServiceAccount", "iam.gke.io/gcp-service-account"),
    ("networking.k8s.io/v1", "Ingress", "nginx.ingress.kubernetes.io/configuration-snippet"),
    ("keda.sh/v1alpha1", "ScaledObject", "autoscaling.keda.sh/paused-replicas"),
)
SERVICE = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
CLOSED = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
WAYS_OUT: tuple[tuple[str, str, Manifest, Manifest], ...] = (
    ("v1", "Service", SERVICE, {**SERVICE, "externalIPs": ["203.0.113.9"]}),
    ("v1", "Service", SERVICE, {"type": "ExternalName", "externalName": "evil.example"}),
    ("networking.k8s.io/v1", "NetworkPolicy", CLOSED, {**CLOSED, "egress": [{}]}),
    ("external-secrets.io/v1", "ExternalSecret", {"a": 1}, {"dataFrom": [{"extract": {"key": "bank/prod"}}]}),
    ("argoproj.io/v1alpha1", "Application", {"project": "a"}, {"project": "default"}),
)
ROLE_RULES = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]


@dataclass(frozen=True, slots=True)
class Harm:
    """An object as it is harmless, and as it is not."""

    what: str
    harmless: Manifest
    harmful: Manifest


def harms() -> Iterator[Harm]:
    """Yield every harm in every shape."""
    for what, pod in PODS.items():
        for api, kind, spec in SHAPES:
            plain = manifest(api, kind, spec=spec(POD))
            yield Harm(what, plain, manifest(api, kind, spec=spec(pod)))
    for api, kind, members in TEXTS:
        yield Harm("endpoint", manifest(api, kind, **members(GOOD)), manifest(api, kind, **members(EVIL)))
    for api, kind, annotation in ANNOTATIONS:
        plain = manifest(api, kind)
        metadata = {**plain["metadata"], "annotations": {annotation: "evil"}}
        yield Harm("annotation", plain, {**plain, "metadata": metadata})
    for api, kind, closed, opened in WAYS_OUT:
        yield Harm("way out", manifest(api, kind, spec=closed), manifest(api, kind, spec=opened))
    rbac = "rbac.authorization.k8s.io/v1"
    yield Harm("role", manifest(rbac, "Role", rules=[]), manifest(rbac, "Role", rules=ROLE_RULES))
    bank = manifest("v1", "ConfigMap", "topsecret", "bank", data={"a": "guess"})
    yield Harm("other namespace", bank, bank)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}}
    yield Harm("cluster", space, space)


HARMS = tuple(harms())
FOREIGN = frozenset({"other namespace", "cluster"})
"""Harms that the tenant never grants, also with an approval."""
WATCHED = (
    manifest("networking.k8s.io/v1", "NetworkPolicy", "wall", spec=CLOSED),
    manifest("v1", "ConfigMap", "keep", data={"a": "1"}),
)
"""What is applied from the beginning besides one harmless object of each kind; the first one must not go unapproved."""


class Way:
    """How a harm comes about."""

    CREATED, CHANGED, RENAMED, NESTED, MARKED, BY_REFERENCE, APPROVED_IN_GIT = range(7)


def _named(item: Manifest, name: str, **annotations: str) -> Manifest:
    metadata = {**item["metadata"], "name": name}
    if annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
    return {**item, "metadata": metadata}


def placed(harm: Harm, way: int, number: int) -> list[Manifest]:
    """Return the manifests that a committer writes for a harm."""
    own = f"h{number}"
    if way == Way.CHANGED or harm.what in FOREIGN:
        return [_named(harm.harmful, harm.harmful["metadata"]["name"] if harm.what in FOREIGN else own)]
    if way == Way.RENAMED:
        return [_named(harm.harmful, f"{own}-renamed")]
    if way == Way.NESTED:
        items = [_named(harm.harmful, f"{own}-new")]
        return [{"apiVersion": "v1", "kind": "List", "metadata": {"name": f"{own}-list"}, "items": items}]
    if way == Way.MARKED:
        ref = ref_of(_named(harm.harmful, f"{own}-new"))
        return [_named(harm.harmful, f"{own}-new", **{"gitsync.dev/tracking-id": f"{KEY}:{ref.path}"})]
    if way == Way.BY_REFERENCE:
        return [_named(harm.harmful, f"{own}-new"), manifest("v1", "ServiceAccount", "operator")]
    if way == Way.APPROVED_IN_GIT:
        marks = {"agents.gitsync.dev/approve": "a", "gitsync.dev/approve": "a", "gitsync.dev/risk": "Safe"}
        return [_named(harm.harmful, f"{own}-new", **marks)]
    return [_named(harm.harmful, f"{own}-new")]


def first_commit(chosen: Iterable[int]) -> list[Manifest]:
    """Return the harmless object of each chosen harm, and what is watched."""
    plain = [
        _named(HARMS[number].harmless, f"h{number}")
        for number in chosen
        # there is none of these
        if HARMS[number].what not in {*FOREIGN, "role"}
    ]
    return [*plain, *WATCHED]


# --- the dashboard, which website, neighbour and viewer reach ---


USER_ADDRESS = "192.0.2.7"


class Front:
    """The dashboard in this process: requests reach it without a connection."""

    def __init__(self, folder: Path) -> None:
        self.engine: StillEngine = engine(folder, [application("shop"), application("bank", message=CANARY)])
        self.engine.policies.named = (_viewers("shop", "team"), _viewers("bank", "bankers"))
        file = folder / "users.yaml"
        self.tokens = {"vic": add(file, "vic", ["team"]), "sam": add(file, "sam", ["team", "sre"])}
        self.app = create_app(self.engine, Access(SignIn(users=Users(file))), webhook_secret="hook")
        paths = self.app.openapi()["paths"].items()
        self.posts = sorted(path for path, methods in paths if "post" in methods)
        self.gets = sorted(path for path, methods in paths if "get" in methods and path != "/live")

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", address: str = USER_ADDRESS
    ) -> tuple[int, str]:
        """Return status and text of the answer to a request."""
        sent: list[dict[str, Any]] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        began = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            # the user leaves once the answer begins: a stream would be listened to for ever
            await began.wait()
            return {"type": "http.disconnect"}

        async def send(part: Any) -> None:
            sent.append(part)
            began.set()

        lines = {"host": "127.0.0.1:8080", "content-length": str(len(body)), **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), text.encode()) for name, text in lines.items()],
            "client": (address, 40000),
            "server": ("127.0.0.1", 8080),
            "state": {},
        }
        run_apart(self.app(scope, receive, send))
        text = b"".join(part.get("body", b"") for part in sent).decode(errors="replace")
        return int(sent[0]["status"]), text

    def unchanged(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, address: str = USER_ADDRESS
    ) -> None:
        """Fail where a request is accepted, or its answer shows what only others may see."""
        accepted = self.changes()
        _, text = self.ask(method, path, headers, body, address)
        assert self.changes() == accepted, f"{method} {path} was accepted"
        assert CANARY not in text, f"{method} {path} shows it"

    def changes(self) -> tuple[int, int]:
        """Return how many requests and reviews were accepted."""
        accepted = [item for item in self.engine.records.audit_records() if item.action != "sign-in"]
        return len(self.engine.requests.done), len(accepted)


def _viewers(name: str, group: str) -> Policy:
    spec = {"applications": [f"gitsync/{name}"], "require": {"viewers": {"groups": [group]}}}
    policy = parse_policy({"kind": "Policy", "metadata": {"name": name}, "spec": spec}, "p.yaml")
    assert policy is not None
    return policy


# --- the world ---


class AllowedCluster(FakeCluster):
    """
    A cluster with RBAC: the account may write in ``prod`` but no roles, and the controller only its Applications.

    ``done`` has each write with the user who made it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, ObjectRef]] = []
        self.served = {
            GroupKind(api.rpartition("/")[0], kind): api.rpartition("/")[2]
            for api, kind in {(item["apiVersion"], item["kind"]) for harm in HARMS for item in (harm.harmful,)}
        } | {GroupKind("networking.k8s.io", "NetworkPolicy"): "v1", GroupKind("", "ServiceAccount"): "v1"}
        self._none = Schemas({})

    def any_version(self, of: GroupKind) -> ApiResource | None:
        version = self.served.get(of)
        if version is None or of.kind == "Namespace":
            return super().any_version(of)
        return ApiResource(of.group, version, of.kind, f"{of.kind.lower()}s", True)

    def create(self, manifest: Manifest, *, manager: str, user: str = "") -> Manifest:
        self._authorize(user, ref_of(manifest))
        return super().create(manifest, manager=manager, user=user)

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        self._authorize(user, ref_of(manifest), is_dry=dry_run)
        return super().apply(manifest, manager=manager, force=force, dry_run=dry_run, user=user)

    def delete(
        self, ref: ObjectRef, version: str, *, uid: str, user: str = "", foreground: bool = False
    ) -> Manifest | None:
        self._authorize(user, ref)
        return super().delete(ref, version, uid=uid, user=user, foreground=foreground)

    def remove_fields(self, live: Manifest, pointers: Any, *, manager: str, user: str = "") -> Manifest:
        self._authorize(user, ref_of(live))
        return super().remove_fields(live, pointers, manager=manager, user=user)

    def _authorize(self, user: str, ref: ObjectRef, *, is_dry: bool = False) -> None:
        may = ref.namespace == "prod" and not ref.group.startswith("rbac.") if user == ACCOUNT else is_own(user, ref)
        if not may:
            raise Refused(f"{user or 'the controller'} may not write {ref}", object=str(ref))
        if not is_dry:
            self.done.append((user, ref))


def is_own(user: str, ref: ObjectRef) -> bool:
    """Return whether the controller writes an object for itself."""
    return not user and ref.kind == "Application" and ref.name == "shop" and ref.namespace == "gitsync"


class KeptReviews(FakeRecords):
    """Records with a review for exactly one digest each."""

    kept: dict[str, Review]

    def review(
        self, application: str, digest: str, now: Any, *, sync: str = "", kept: AuditHead | None = None
    ) -> Review | None:
        return self.reviews().get(digest)

    def keep_review(self, link: AuditRecord) -> None:
        self.links.append(link)
        self.reviews()[link.digest] = review_of(link)

    def end_approval(self, application: str, digest: str) -> None:
        self.reviews().pop(digest, None)

    def reviews(self) -> dict[str, Review]:
        if self.reviewed is None:
            self.reviewed = {}
        kept: dict[str, Review] = self.reviewed
        return kept


class WatchedSource(FakeSource):
    """A Git server that keeps which password went to which URL."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: set[tuple[str, str]] = set()

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        self.sent.add((source.repo_url, credentials.password))
        return super().resolve(source, credentials, max_age=max_age)

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        self.sent.add((source.repo_url, credentials.password))
        super().fetch(source, credentials, commit, max_age=max_age)


def tenant() -> Policy:
    """Return the policy of the tenant."""
    policy = parse_policy({"kind": "Tenant", "metadata": {"name": "shop"}, "spec": TENANT}, "t.yaml")
    assert policy is not None
    return policy


SPEC: Manifest = {
    "source": {"repoURL": URL, "path": "shop", "revision": "main", "credentials": {"secretRef": {"name": "login"}}},
    "destination": {"namespace": "prod", "serviceAccountName": "deployer"},
    "risk": {"approval": "Dangerous"},
}


@dataclass
class World:
    """One tenant's Application, its repository and the cluster, with what approvers permitted."""

    front: Front
    chosen: tuple[int, ...]
    """The numbers of the harms that the committer has in mind; those of others are new kinds of objects."""
    permitted: set[str] = field(default_factory=set)
    is_endpoint_permitted: bool = False
    """Whether an approver permitted the other endpoint in one object, after which others of the tenant may have it."""
    commits: int = 0

    def __post_init__(self) -> None:
        self.manifests = first_commit(self.chosen)
        self.cluster = AllowedCluster()
        self.records = KeptReviews()
        self.engine = PipelineEngine(
            policy=tenant(), history=self.records, cluster=self.cluster, repository=WatchedSource(), **SPEC
        )
        secret = manifest("v1", "Secret", "login", "gitsync", data={"password": encoded(PASSWORD)})
        self.cluster.put(secret)
        self.cluster.put(manifest("v1", "Secret", "bank-db", "gitsync", data={"password": encoded(CANARY)}))
        self.cluster.put(manifest("v1", "ConfigMap", "topsecret", "bank", data={"a": CANARY}))
        # of the operator: declaring it too makes it no account of the tenant
        self.cluster.put(manifest("v1", "ServiceAccount", "operator"))
        self.push()
        self.engine.run()
        self.review(SAM)
        self.engine.run_until("Synced")
        self.permitted.clear()
        self.is_endpoint_permitted = False
        self.start = dict(self.cluster.objects)

    @property
    def source(self) -> WatchedSource:
        source: Any = self.engine.source
        return source

    def push(self) -> None:
        """Commit what the committer has."""
        self.commits += 1
        self.engine.push(f"c{self.commits}", *copy.deepcopy(self.manifests))

    def run(self) -> None:
        """Reconcile until what runs by itself has run."""
        for _ in range(2):
            self.engine.run()

    def review(self, by: User) -> None:
        """Approve the plan that is shown; an approver who counts permits all that it writes."""
        view = self.engine.state.views.application(KEY)
        if view is None or view.plan is None or view.application is None:
            return
        service = ReviewService(self.records, self.engine.clock, self.engine.policies.of)
        try:
            service.approve(view.application, view.plan, Approval(by, "why"))
        except GitsyncError:
            return
        if by in GRANTS:
            self.permitted |= {
                step.ref.path for step in view.plan.changes if step.desired is not None or step.live is not None
            }
            self.is_endpoint_permitted |= any(
                _contains(step.desired, mark) for step in view.plan.changes for mark in ENDPOINT_MARKS
            )

    def reached(self) -> Iterator[str]:
        """Yield each harm in the cluster that no approver permitted."""
        for ref, item in self.cluster.objects.items():
            if item is self.start.get(ref) or (ref.kind == "Application" and ref.group == "gitsync.dev"):
                continue
            marks = MARKS if self.is_endpoint_permitted else (*MARKS, *ENDPOINT_MARKS)
            if ref.path not in self.permitted and is_harmful(item, self.start.get(ref), marks):
                yield f"{ref} became harmful"
        for ref in self.start:
            if ref not in self.cluster.objects and ref.kind == "NetworkPolicy" and ref.path not in self.permitted:
                yield f"{ref} is gone"

    def check(self) -> None:
        """Fail for anything that the account, the tenant or an approver does not allow."""
        assert list(self.reached()) == []
        for user, ref in self.cluster.done:
            assert is_own(user, ref) or (user == ACCOUNT and ref.namespace == "prod"), f"{user} wrote {ref}"
        for url, password in self.source.sent:
            assert url.startswith("https://git.example/team/"), f"{url} was asked"
            assert password in ("", PASSWORD), f"another password went to {url}"
        shown = repr((self.engine.state.views.application(KEY), self.engine.status, self.records.links))
        assert CANARY not in shown
        assert encoded(CANARY) not in shown


MARKS: tuple[tuple[str, Any], ...] = (
    ("privileged", True),
    ("hostPath", {"path": "/"}),
    ("serviceAccountName", "operator"),
    ("hostPID", True),
    ("hostAliases", PODS["names"]["hostAliases"]),
    ("secretName", "bank-db"),
    ("egress", [{}]),
    ("externalIPs", ["203.0.113.9"]),
    ("externalName", "evil.example"),
    ("rules", ROLE_RULES),
    ("key", "bank/prod"),
    ("project", "default"),
    *((annotation, "evil") for _, _, annotation in ANNOTATIONS),
)
"""What an object of a harm has, as names and values at any depth."""
ENDPOINT_MARKS: tuple[tuple[str, Any], ...] = (
    ("value", EVIL),
    ("OPENAI_BASE_URL", EVIL),
    ("app.yaml", f"base_url: {EVIL}"),
    ("app.yaml", encoded(f"base_url: {EVIL}")),
)


def is_harmful(item: Manifest, former: Manifest | None, marks: Iterable[tuple[str, Any]]) -> bool:
    """Return whether an object has what one of the harms has and the former state of it had not."""
    return any(_contains(item, mark) and not _contains(former, mark) for mark in marks)


def _contains(value: Any, mark: tuple[str, Any]) -> bool:
    if isinstance(value, Mapping):
        name, harmful = mark
        return value.get(name) == harmful or any(_contains(item, mark) for item in value.values())
    return isinstance(value, list) and any(_contains(item, mark) for item in value)


# --- the moves ---

Move = Callable[[World], None]


def commits(pick: int, way: int) -> Move:
    """The committer adds a harm."""

    def move(world: World) -> None:
        number = world.chosen[pick % len(world.chosen)]
        items = placed(HARMS[number], way, number)
        names = {(item["kind"], item["metadata"]["name"]) for item in items}
        gone = {(HARMS[number].harmless["kind"], f"h{number}")} if way == Way.RENAMED else set()
        kept = [item for item in world.manifests if (item["kind"], item["metadata"]["name"]) not in names | gone]
        world.manifests = [*kept, *items]
        world.push()

    return move


def removes(number: int) -> Move:
    """The committer removes an object."""

    def move(world: World) -> None:
        if len(world.manifests) > 1:
            world.manifests.pop(number % len(world.manifests))
        world.push()

    return move


def reverts(world: World) -> None:
    """The committer sets everything back."""
    world.manifests = first_commit(world.chosen)
    world.push()


SPEC_CHANGES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("destination", "namespace"), "bank"),
    (("destination", "serviceAccountName"), "operator"),
    (("destination", "serviceAccountName"), None),
    (("destination", "allowClusterScoped"), True),
    (("destination", "createNamespace"), True),
    (("source", "repoURL"), "https://evil.example/x"),
    (("source", "repoURL"), "https://git.example/team@evil.example/x"),
    (("source", "repoURL"), "https://git.example/team/../bank/x"),
    (("source", "credentials"), {"secretRef": {"name": "bank-db"}}),
    (("source", "revision"), "evil"),
    (("source", "revision"), "a" * 40),
    (("source", "decryption"), {"provider": "sops", "secretRef": {"name": "bank-db"}}),
    (("risk", "approval"), "Never"),
    (("risk", "approvers"), {"users": ["Ada"]}),
    (("risk", "maxDeletes"), 999),
    (("risk", "approvalTTL"), "999h"),
    (("sync", "prune"), True),
    (("sync", "selfHeal"), False),
    (("sync", "undeclaredFields"), "Ignore"),
    (("sync", "ignoreDifferences"), [{"kind": "NetworkPolicy", "jsonPointers": ["/spec"]}]),
)


def tenant_sets(number: int) -> Move:
    """The tenant changes the Application."""
    path, value = SPEC_CHANGES[number]

    def move(world: World) -> None:
        spec = copy.deepcopy(world.engine.application["spec"])
        place = spec.setdefault(path[0], {})
        if value is None:
            place.pop(path[1], None)
        else:
            place[path[1]] = value
        world.engine.edit(**{path[0]: place})

    return move


def tenant_resets(world: World) -> None:
    """The tenant sets the Application back."""
    world.engine.edit(**{"sync": {}, **copy.deepcopy(SPEC)})


FORGED = (
    {"gitsync.dev/managed-by": "bank/root"},
    {"gitsync.dev/tracking-id": "bank/root:gitsync.dev/Application/gitsync/shop"},
    {"gitsync.dev/requested-sync": "2026-01-01T00:00:00Z"},
    {"gitsync.dev/approve": "a", "agents.gitsync.dev/approve": "a"},
)


def tenant_marks(number: int) -> Move:
    """The tenant forges annotations of the Application."""

    def move(world: World) -> None:
        live = world.engine.application
        metadata = {**live["metadata"], "annotations": {**live["metadata"].get("annotations", {}), **FORGED[number]}}
        world.cluster.put({**live, "metadata": metadata})

    return move


def reviews(number: int) -> Move:
    """A user approves what is shown."""
    return lambda world: world.review(REVIEWERS[number])


def rewinds(world: World) -> None:
    """The Git server shows a history that does not contain the applied commit."""
    world.source.rewritten |= set(world.source.commits)
    world.push()


def serves_older(number: int) -> Move:
    """The Git server shows an earlier commit as the newest."""

    def move(world: World) -> None:
        known = sorted(world.source.commits)
        world.source.head = known[number % len(known)]
        world.engine.notify()

    return move


def fails(world: World) -> None:
    """The Git server answers nothing for one poll."""
    world.source.error = SourceUnavailable("gone")
    world.engine.notify()
    world.run()
    world.source.error = None


TAGS = ("1.0.1", "99.0.0", "0.0.1", "1.0.1\n    privileged: true", "1.0.1@evil", "../x", "latest", "1.0.1 #", "9" * 200)
DIGESTS = ("sha256:" + "a" * 64, "sha256:" + "A" * 64, "sha256:x\nb: c", "")


def registry_answers(tags: tuple[str, ...], digest: str) -> Move:
    """The registry names tags and a digest, of which an update writes at most a higher version of the same image."""

    def move(world: World) -> None:
        policy = ImagePolicy.model_validate({"name": "registry.example/shop", "semver": ">=1 <2", "pin": True})
        image = parse_image("registry.example/shop:1.0.0@sha256:" + "0" * 64)
        declared = DeclaredImage(ObjectRef("apps", "Deployment", "prod", "x"), "c", ".spec", image, policy)
        choice = choose(declared, tags)
        try:
            values = list(image_values([choice], {f"{image.name}:{choice.newest}": digest}))
        except InvalidInput:
            return
        for value in values:
            assert value.value == "registry.example/shop:1.0.1@sha256:" + "a" * 64

    return move


ORIGINS = ("https://evil.example", "null", "http://127.0.0.1:9090", "http://127.0.0.1.evil.example:8080")
FORM_BODY = b"reason=why&decision=approve&by=sam&digest=" + b"d" * 64
FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}
OWN_FORM = {**FORM_TYPE, "Origin": "http://127.0.0.1:8080", "Cookie": f"gitsync-form-8080={FORM}"}
OWN_BODY = FORM_BODY + b"&token=" + FORM.encode()


def website_posts(path: int, origin: int, *, has_token: bool) -> Move:
    """A page of another site posts a form with the cookies of a user's browser."""
    headers = {**FORM_TYPE, "Origin": ORIGINS[origin], "Cookie": f"gitsync-form-8080={FORM}"}
    token = b"&token=" + (FORM.encode() if has_token else b"x" * 43)

    def move(world: World) -> None:
        front = world.front
        headers["Authorization"] = f"Bearer {front.tokens['sam']}"
        front.unchanged("POST", _path(front.posts, path, "shop"), headers, FORM_BODY + token)

    return move


def neighbour_posts(path: int, key: str) -> Move:
    """A neighbour sends a request without a session, or a webhook that is not signed."""
    headers = {**OWN_FORM, "X-Hub-Signature-256": "sha256=" + "0" * 64, "X-Gitlab-Token": "guess"}
    headers |= {"Authorization": key} if key else {}

    def move(world: World) -> None:
        front = world.front
        # wrong tokens delay their address, and no user
        front.unchanged("POST", _path(front.posts, path, "shop"), headers, OWN_BODY, "192.0.2.66")

    return move


def viewer_asks(path: int, *, posts: bool) -> Move:
    """A viewer of one Application asks for another one."""

    def move(world: World) -> None:
        front = world.front
        headers = {**OWN_FORM, "Authorization": f"Bearer {front.tokens['vic']}", "Accept": "text/html"}
        if posts:
            front.unchanged("POST", _path(front.posts, path, "bank"), headers, OWN_BODY)
        else:
            front.unchanged("GET", _path(front.gets, path, "bank"), headers, b"")

    return move


def _path(paths: list[str], number: int, name: str) -> str:
    template = paths[number % len(paths)]
    known = {"namespace": "gitsync", "name": name, "id": "1", "provider": "github"}
    return template.format_map(defaultdict(lambda: "x", known))


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    made = Front(tmp_path_factory.mktemp("front"))
    with pytest.MonkeyPatch.context() as patch:
        for module in ("gitsync.sync.pipeline", "gitsync.sync.status.report"):
            # the processor time of each stage is a system call, which took a third of the time of a sequence
            patch.setattr(f"{module}.StageTimer", partial(StageTimer, cpu=time.perf_counter))
        yield made
    made.engine.records.close()


# --- the sequences ---

NUMBERS = st.integers(0, 10**6)
CHOSEN = st.lists(st.integers(0, len(HARMS) - 1), min_size=1, max_size=3, unique=True).map(tuple)
WORLD_MOVES = st.one_of(
    st.builds(commits, st.integers(0, 2), st.integers(0, 6)),
    st.builds(commits, st.integers(0, 2), st.integers(0, 6)),
    st.builds(removes, NUMBERS),
    st.just(reverts),
    st.builds(tenant_sets, st.integers(0, len(SPEC_CHANGES) - 1)),
    st.builds(tenant_marks, st.integers(0, len(FORGED) - 1)),
    st.just(tenant_resets),
    st.builds(reviews, st.integers(0, len(REVIEWERS) - 1)),
    st.just(rewinds),
    st.builds(serves_older, NUMBERS),
    st.just(fails),
    st.builds(registry_answers, st.lists(st.sampled_from(TAGS), max_size=4).map(tuple), st.sampled_from(DIGESTS)),
)
FRONT_MOVES = st.one_of(
    st.builds(website_posts, NUMBERS, st.integers(0, len(ORIGINS) - 1), has_token=st.booleans()),
    st.builds(neighbour_posts, NUMBERS, st.sampled_from(("", "Bearer guess", "Basic c2FtOg=="))),
    st.builds(viewer_asks, NUMBERS, posts=st.booleans()),
)


# the same ones in each run of the suite
@sequences(40, derandomize=True)
@given(CHOSEN, st.lists(st.one_of(WORLD_MOVES, WORLD_MOVES, WORLD_MOVES, FRONT_MOVES), min_size=1, max_size=6))
def test_no_moves_of_seven_actors_do_what_none_allowed(
    front: Front, chosen: tuple[int, ...], moves: list[Move]
) -> None:
    world = World(front, chosen)
    for move in moves:
        move(world)
        world.run()
        world.check()


def test_every_harm_waits_and_is_there_once_it_is_approved(front: Front) -> None:
    for number, harm in enumerate(HARMS):
        world = World(front, (number,))
        commits(0, Way.CREATED)(world)
        world.run()
        world.check()
        world.review(SAM)
        world.permitted.clear()
        world.is_endpoint_permitted = False
        world.run()
        # what the tenant does not grant and the account may not write is never there
        assert bool(list(world.reached())) is (harm.what not in {*FOREIGN, "role"}), harm


def test_a_harm_waits_also_where_another_commit_deleted_the_object_before(front: Front) -> None:
    for number, harm in enumerate(HARMS):
        world = World(front, (number,))
        world.manifests = list(WATCHED)
        world.push()
        world.run()
        commits(0, Way.CHANGED)(world)
        world.run()
        assert list(world.reached()) == [], harm


def test_an_approval_that_must_not_count_would_be_seen(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gitsync.gate.approvals", "gitsync.services.reviews"):
        monkeypatch.setattr(f"{module}.may_approve", lambda *_: True)
        monkeypatch.setattr(f"{module}.may_review", lambda *_: True)
    for by in REVIEWERS[1:]:
        world = World(front, (0,))
        commits(0, Way.CREATED)(world)
        world.run()
        world.review(by)
        world.run()
        with pytest.raises(AssertionError, match="became harmful"):
            world.check()


def test_every_page_answers_a_viewer_and_ends(front: Front) -> None:
    for number in range(len(front.gets)):
        for posts in (False, True):
            viewer_asks(number, posts=posts)(World(front, (0,)))


def test_the_same_requests_of_a_user_of_the_page_are_accepted(front: Front) -> None:
    headers = {**OWN_FORM, "Authorization": f"Bearer {front.tokens['sam']}"}
    accepted = front.changes()
    for number in range(len(front.posts)):
        front.ask("POST", _path(front.posts, number, "shop"), headers, OWN_BODY)
    assert front.changes() != accepted
