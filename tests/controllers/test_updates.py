"""The controller of updates: what is declared is proposed once, with its record; why not is shown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gitsync.controllers.updates import AUTHOR, UpdateController, UpdateControllerPorts
from gitsync.edit.adopt import AdoptedValue, Adoption, ClusterValue
from gitsync.edit.images import DeclaredImage, ImageChoice, ImageName
from gitsync.errors import GitsyncError, Refused, SourceThrottled, SourceUnavailable, WrongState
from gitsync.objects.application import Application, parse_application
from gitsync.objects.record import AuditRecord, Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.services.adopt import ProposedAdoption
from gitsync.services.updates import FoundUpdate, UpdateKey, UpdateKind, UpdateState
from tests.fakes.ports import FakeClock

KEY = UpdateKey("gitsync/prod")
IMAGES = UpdateKey("gitsync/prod", UpdateKind.IMAGES)
SOURCE = {"repoURL": "https://git.example.com/team/shop"}
IMAGE = ClusterValue(ObjectRef("apps", "Deployment", "prod", "web"), ".spec.image", "web:2", "staging")


def adoption(content: str = "a: 1\n") -> Adoption:
    return Adoption({"web.yaml": content.encode()}, (AdoptedValue(IMAGE, "web.yaml:1", "web:1"),), ())


@dataclass
class FoundUpdates:
    """A service that finds what is given, and what it proposed."""

    adoption: Adoption = field(default_factory=adoption)
    members: dict[str, Any] = field(default_factory=dict)
    failure: GitsyncError | None = None
    refusal_of_push: GitsyncError | None = None
    proposed: list[tuple[str, str, bool]] = field(default_factory=list)
    finds: int = 0
    branches: dict[UpdateKind, str] = field(default_factory=dict)
    withdrawn: list[tuple[UpdateKind, str]] = field(default_factory=list)

    def leftover(self, kind: UpdateKind, app: Application) -> str:
        return self.branches.get(kind, "")

    def withdraw(self, kind: UpdateKind, app: Application, head: str, reason: str) -> str:
        assert head == self.branches[kind]
        if self.refusal_of_push is not None:
            raise self.refusal_of_push
        del self.branches[kind]
        self.withdrawn.append((kind, reason))
        return "https://git.example.com/1"

    def find(self, kind: UpdateKind, app: Application) -> FoundUpdate:
        self.finds += 1
        if self.failure is not None:
            raise self.failure
        return FoundUpdate(kind, app, **{"head": "a" * 40, "adoption": self.adoption, **self.members})

    def propose(
        self, update: FoundUpdate, *, author: str, reason: str = "", branch: str = "", is_direct: bool = False
    ) -> ProposedAdoption:
        if self.refusal_of_push is not None:
            raise self.refusal_of_push
        if not update.is_ready:
            raise WrongState("nothing is newer")
        self.proposed.append((author, branch, is_direct))
        return ProposedAdoption(Commit("c" * 40), "", branch, "https://git.example.com/1" if branch else "")


@dataclass
class Followed:
    """The controller of one Application with its fakes."""

    service: FoundUpdates
    views: dict[str, ApplicationView] = field(default_factory=dict)
    records: list[AuditRecord] = field(default_factory=list)
    polled: list[str] = field(default_factory=list)
    reported: list[tuple[str, str, str]] = field(default_factory=list)
    owned: bool = True
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        followed: Any = self
        self.controller = UpdateController(
            UpdateControllerPorts(
                followed.service,
                followed,
                followed,
                self.clock,
                followed,
                self.polled.extend,
                lambda key, ref, text: self.reported.append((key, str(ref), text)),
            )
        )

    def declare(self, name: str = "prod", status: dict[str, Any] | None = None, **spec: Any) -> None:
        meta = {"name": name, "namespace": "gitsync", "generation": len(self.views)}
        app = parse_application({"metadata": meta, "spec": {"source": SOURCE, **spec}})
        self.views[app.key] = ApplicationView(app.key, app, status or {}, (), None, None, self.clock.now())

    def applications(self) -> tuple[ApplicationView, ...]:
        return tuple(self.views.values())

    def application(self, key: str) -> ApplicationView | None:
        return self.views.get(key)

    def owns(self, key: str) -> bool:
        return self.owned

    def audit(self, records: list[AuditRecord]) -> None:
        self.records += records

    def audit_records(self, application: str = "", **wanted: Any) -> tuple[AuditRecord, ...]:
        return tuple(record for record in reversed(self.records) if record.action == wanted["action"])

    @property
    def state(self) -> tuple[str, str]:
        [view] = self.controller.updates()
        return view.state.value, view.problem


def followed(mode: str = "PullRequest", **spec: Any) -> Followed:
    made = Followed(FoundUpdates())
    made.declare(**{"promotion": {"from": "staging", "mode": mode}, **spec})
    return made


def test_a_declared_promotion_is_proposed_once_with_its_record() -> None:
    made = followed()
    for _ in range(3):
        assert made.controller.reconcile(KEY) == 600.0
    assert made.service.proposed == [(AUTHOR, "gitsync/promote-prod", False)]
    assert [(record.action, record.outcome.value) for record in made.records] == [
        ("promote", "Intended"),
        ("promote", "Succeeded"),
    ]
    assert made.state == ("Proposed", "")
    # another value is another proposal, on the same branch
    made.service.adoption = adoption("a: 2\n")
    made.controller.reconcile(KEY)
    assert [branch for _, branch, _ in made.service.proposed] == ["gitsync/promote-prod"] * 2


def test_what_is_manual_waits_for_a_user_who_gets_what_was_shown() -> None:
    made = followed("Manual")
    made.controller.reconcile(KEY)
    assert (made.state, made.service.proposed) == (("Ready", ""), [])
    shown = made.service.adoption.digest
    made.service.adoption = adoption("text: Ignore all rules\n")
    with pytest.raises(WrongState, match="another update is found since it was shown"):
        made.controller.propose(KEY, shown, author="Ada", reason="")
    assert made.service.proposed == []
    proposed = made.controller.propose(KEY, made.service.adoption.digest, author="Ada", reason="it works")
    assert made.service.proposed == [("Ada", "gitsync/promote-prod", False)]
    assert (proposed.state, proposed.url, proposed.by) == (UpdateState.PROPOSED, "https://git.example.com/1", "Ada")


def test_a_commit_to_the_branch_is_applied_at_once() -> None:
    made = followed("Commit")
    made.service.members = {"is_direct": True}
    made.controller.reconcile(KEY)
    assert made.service.proposed == [(AUTHOR, "", True)]
    assert made.polled == ["gitsync/prod"]


def test_a_suspended_application_is_shown_and_not_changed() -> None:
    made = followed(suspend=True)
    made.controller.reconcile(KEY)
    assert (made.state, made.service.proposed) == (("Ready", ""), [])


@pytest.mark.parametrize(
    ("members", "state", "delay"),
    [
        ({"waits": "staging: it is Degraded", "head": "", "adoption": Adoption({}, (), ())}, "Waiting", 2.0),
        ({"waits": "was set back since", "adoption": Adoption({}, (), ())}, "Waiting", 600.0),
        ({"refusal": "the update is Dangerous"}, "Refused", 600.0),
        ({"adoption": Adoption({}, (), ())}, "Current", 600.0),
    ],
)
def test_why_nothing_is_proposed_is_shown(members: dict[str, Any], state: str, delay: float) -> None:
    made = followed()
    made.service.members = members
    assert made.controller.reconcile(KEY) == delay
    assert made.state == (state, members.get("waits") or members.get("refusal") or "")
    assert made.service.proposed == []


@pytest.mark.parametrize(
    ("failure", "delay"),
    [(SourceUnavailable("no answer"), 60.0), (SourceThrottled("too many", retry_after=300.0), 300.0)],
)
def test_a_failure_is_shown_and_found_again(failure: GitsyncError, delay: float) -> None:
    made = followed()
    made.service.failure = failure
    assert made.controller.reconcile(KEY) == delay
    assert made.state == ("Failed", str(failure))
    made.service.failure = None
    made.controller.reconcile(KEY)
    assert made.state == ("Proposed", "")


def test_an_update_behind_another_commit_is_made_again_soon() -> None:
    made = followed("Commit")
    made.service.refusal_of_push = WrongState("branch main moved meanwhile")
    assert made.controller.reconcile(KEY) == 2.0
    assert [record.outcome.value for record in made.records] == ["Intended", "Failed"]
    made.service.refusal_of_push = None
    made.controller.reconcile(KEY)
    assert len(made.service.proposed) == 1


def test_a_failure_after_a_proposal_leaves_nothing_of_its_reason() -> None:
    made = followed()
    made.controller.reconcile(KEY)
    made.service.failure = SourceUnavailable("no answer")
    made.controller.reconcile(KEY)
    made.service.failure = None
    made.controller.reconcile(KEY)
    assert (made.state, len(made.service.proposed)) == (("Proposed", ""), 1)


def test_a_push_that_is_refused_is_not_tried_all_the_time() -> None:
    made = followed()
    made.service.refusal_of_push = Refused("the Git server did not take the edit")
    assert made.controller.reconcile(KEY) == 60.0
    assert made.state[0] == "Failed"


def test_images_are_read_by_their_interval() -> None:
    policy = {"name": "web", "semver": ">=1"}
    made = followed(images=[policy], imageUpdates={"mode": "PullRequest", "interval": "10m"})
    assert made.controller.reconcile(IMAGES) == 600.0
    assert made.service.proposed == [(AUTHOR, "gitsync/images-prod", False)]


def test_what_another_replica_works_on_is_left_to_it() -> None:
    made = followed()
    made.owned = False
    assert made.controller.reconcile(KEY) == 600.0
    assert (made.service.proposed, made.records) == ([], [])
    assert made.state[0] == "Ready", "each replica shows what can be taken"


def test_what_another_replica_proposed_is_shown_as_proposed() -> None:
    made = followed()
    made.controller.reconcile(KEY)
    other = followed()
    other.owned = False
    other.records = made.records
    other.controller.reconcile(KEY)
    [view] = other.controller.updates()
    assert (view.state, view.branch, view.by) == (UpdateState.PROPOSED, "gitsync/promote-prod", "gitsync")
    assert view.url == "https://git.example.com/1"
    other.service.adoption = replace(other.service.adoption, files={"web.yaml": b"a: 2\n"})
    other.controller.reconcile(KEY)
    assert other.state[0] == "Ready", "other values are another proposal"


def scanned(made: Followed) -> list[UpdateKey]:
    """Return what a scan enqueues."""
    made.controller.reconcile(UpdateKey(""))
    queue = made.controller._queue
    keys = []
    while len(queue):
        key = queue.get()
        assert key is not None
        queue.done(key)
        keys.append(key)
    return keys


def test_only_a_change_of_either_environment_is_a_reason_to_find_it_again() -> None:
    made = followed()
    made.declare("staging", {"phase": "Synced", "revision": {"applied": "a"}})
    assert scanned(made) == [KEY]
    assert scanned(made) == []
    # the status of others, and times that change with each reconcile, do not count
    made.declare("other", {"phase": "Failed"})
    made.views["gitsync/staging"] = replace(made.views["gitsync/staging"], sequence=9)
    assert scanned(made) == []
    made.declare("staging", {"phase": "Synced", "revision": {"applied": "b"}})
    assert scanned(made) == [KEY]


def test_a_push_to_a_registry_reads_the_images_that_follow_it() -> None:
    made = Followed(FoundUpdates())
    made.declare(images=[{"name": "nginx", "semver": ">=1"}])
    made.declare("api", images=[{"name": "ghcr.io/team/api", "semver": ">=1"}])
    made.declare("chain", promotion={"from": "prod"})

    assert made.controller.images_changed({"docker.io/library/nginx"}) == 1
    assert made.controller.images_changed({"ghcr.io/team/api", "docker.io/library/nginx"}) == 2
    assert made.controller.images_changed({"quay.io/team/web"}) == 0


NOTHING = {"adoption": Adoption({}, (), ())}


def withdrawable(**spec: Any) -> Followed:
    made = followed(**spec)
    made.service.members = {**NOTHING, "origin": "staging"}
    made.service.branches = {UpdateKind.PROMOTION: "b" * 40}
    return made


def test_a_superseded_proposal_is_withdrawn_once_with_its_record() -> None:
    made = withdrawable()
    for _ in range(2):
        assert made.controller.reconcile(KEY) == 600.0
    [(kind, reason)] = made.service.withdrawn
    assert kind is UpdateKind.PROMOTION
    assert "for Application `gitsync/prod`: nothing is left to take from staging: what it proposed" in reason
    assert [(record.action, record.outcome.value) for record in made.records] == [
        ("withdraw", "Intended"),
        ("withdraw", "Succeeded"),
    ]
    assert made.records[1].commit == "b" * 40
    assert made.state == ("Current", "")


@pytest.mark.parametrize(
    "members",
    [
        {},
        {**NOTHING, "waits": "staging: it is Degraded", "head": ""},
        {**NOTHING, "refusal": "a template sets it"},
    ],
    ids=["values", "waits", "refused"],
)
def test_a_proposal_with_something_left_to_take_stays_open(members: dict[str, Any]) -> None:
    made = withdrawable()
    made.service.members = members
    made.controller.reconcile(KEY)
    assert made.service.withdrawn == []


def test_a_suspended_application_keeps_its_proposal() -> None:
    made = withdrawable(suspend=True)
    made.controller.reconcile(KEY)
    assert (made.service.withdrawn, made.records) == ([], [])


def test_a_withdrawal_that_fails_is_shown_and_tried_again() -> None:
    made = withdrawable()
    made.service.refusal_of_push = Refused("the Git server keeps it")
    assert made.controller.reconcile(KEY) == 60.0
    assert made.state == ("Failed", "the Git server keeps it")
    assert [record.outcome.value for record in made.records] == ["Intended", "Failed"]
    made.service.refusal_of_push = None
    made.controller.reconcile(KEY)
    assert (len(made.service.withdrawn), made.state) == (1, ("Current", ""))


def test_the_proposal_of_a_promotion_that_was_removed_is_withdrawn() -> None:
    made = followed()
    made.controller.reconcile(KEY)
    made.service.branches = {UpdateKind.PROMOTION: "b" * 40}
    assert scanned(made) == [KEY]
    made.declare()
    assert scanned(made) == [KEY]
    made.service.refusal_of_push = SourceUnavailable("no answer")
    assert made.controller.reconcile(KEY) == 600.0
    made.service.refusal_of_push = None
    assert made.controller.reconcile(KEY) is None
    [(_, reason)] = made.service.withdrawn
    assert "spec.promotion of the Application was removed" in reason
    assert made.controller.updates() == ()


def test_a_removed_promotion_is_withdrawn_by_one_replica() -> None:
    made = withdrawable()
    made.owned = False
    made.declare()
    assert made.controller.reconcile(KEY) is None
    assert made.service.withdrawn == []


def test_the_first_scan_continues_what_a_crash_left() -> None:
    made = Followed(FoundUpdates())
    made.declare(pullRequests={"host": "Gitea"})
    made.declare("local")
    assert scanned(made) == [KEY, IMAGES]
    assert scanned(made) == []


def moved_to(digest: str) -> ImageChoice:
    ref = ObjectRef("apps", "Deployment", "", "web")
    [policy] = parse_application({"metadata": {"name": "a"}, "spec": {"source": SOURCE, **FOLLOWED}}).images
    declared = DeclaredImage(ref, "c", ".spec.image", ImageName("web", "1.0"), policy)
    return ImageChoice(declared, "1.0", running="sha256:a", moved=digest)


FOLLOWED = {"images": [{"name": "web", "semver": ">=1"}]}


def test_a_tag_that_moved_is_reported_once_until_it_moves_again() -> None:
    made = Followed(FoundUpdates())
    made.declare(**FOLLOWED, destination={"namespace": "prod"}, imageUpdates={"mode": "PullRequest"})
    for digest in ("", "sha256:b", "sha256:b", "sha256:c", ""):
        made.service.members = {**NOTHING, "images": (moved_to(digest),)}
        made.controller.reconcile(IMAGES)
    assert made.reported == [
        ("gitsync/prod", "Deployment prod/web", f"container c: the tag web:1.0 moved from sha256:a to {digest}")
        for digest in ("sha256:b", "sha256:c")
    ]
