"""
Updates of an Application that are proposed to Git: newer images, and what another environment runs.

The page, the API, the commands and the controller of updates call these functions, so that one rule decides what is
taken, what waits and why, and what a policy forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from gitsync.edit.adopt import IMAGES, PROMOTE, Adoption, ClusterValue, EditPurpose, set_back, written_values
from gitsync.edit.images import ImageChoice, ImageName, choose, declared_images, image_values, reverted_tags
from gitsync.edit.promotion import chain_of, promoted_values
from gitsync.errors import InvalidInput, Refused, WrongState
from gitsync.gate.policy import Policy, needs_review, update_violations
from gitsync.kube.times import seconds_of
from gitsync.objects.application import Application, Requirement
from gitsync.objects.change import Risk
from gitsync.objects.conditions import find_condition
from gitsync.objects.health import Health
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.patterns import matches
from gitsync.objects.phase import Phase
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.commit_effect import commit_effect, effect_risk
from gitsync.plan.normalize import desired_objects
from gitsync.ports import Clock, Credentials, EditSource, Snapshot, Source
from gitsync.ports.previews import ValueAdopter
from gitsync.preview.compare import cluster_scoped_kinds
from gitsync.render.build import Build
from gitsync.services.adopt import AdoptService, ApplicationRenderer, ProposedAdoption, SourceEdits, find_edits
from gitsync.sync.post_sync import CONDITION as WITHIN_LIMITS
from gitsync.sync.post_sync import WATCHED

_AGENT: Final = (AGENTS_GROUP, "Agent")
_NOTHING: Final = Adoption({}, (), ())
_COMMITS: Final = 200
"""Commits of gitsync that are searched for values that were set back."""
_PLATFORMS: Final = 1000
"""Indexes whose platforms are remembered."""


class UpdateKind(StrEnum):
    """Where new values come from: another environment, or a registry."""

    PROMOTION = "promotion"
    IMAGES = "images"

    @property
    def purpose(self) -> EditPurpose:
        """The branch and the message of its commits."""
        return PROMOTE if self is UpdateKind.PROMOTION else IMAGES

    def mode_of(self, app: Application) -> str:
        """Return what the controller does with such an update, empty where the Application declares none."""
        if self is UpdateKind.PROMOTION:
            return app.promotion.mode if app.promotion else ""
        return app.image_updates.mode if app.images else ""


@dataclass(frozen=True, slots=True)
class AppState:
    """An Application with its status."""

    app: Application
    status: Manifest


@dataclass(frozen=True, slots=True)
class FoundUpdate:
    """
    What an update would write to Git now, on top of the commit ``head``.

    ``waits`` is why nothing is taken yet, ``refusal`` why a policy does not allow it. ``origin`` names what is taken
    over, ``chain`` the Applications that lead to this one, and ``images`` what each image policy chooses.
    """

    kind: UpdateKind
    app: Application
    head: str = ""
    adoption: Adoption = _NOTHING
    waits: str = ""
    refusal: str = ""
    risk: Risk = Risk.SAFE
    origin: str = ""
    chain: tuple[str, ...] = ()
    images: tuple[ImageChoice, ...] = ()
    is_direct: bool = False
    """Whether the controller may commit it to the tracked branch itself."""
    target: Application | None = None
    """Of several sources, the Application as if the source that is edited were the only one; ``head`` is of that."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be proposed."""
        return bool(self.adoption.values) and not self.refusal

    @property
    def is_superseded(self) -> bool:
        """Whether all was compared and nothing is left to take, so that an earlier proposal is of no use any more."""
        is_compared = bool(self.head) and not self.refusal
        # a registry without a tag of the policy may just not list it at the moment
        return is_compared and not self.adoption.values and all(choice.newest for choice in self.images)


class UpdateState(StrEnum):
    """What became of an update."""

    CURRENT = "Current"
    WAITING = "Waiting"
    READY = "Ready"
    PROPOSED = "Proposed"
    REFUSED = "Refused"
    FAILED = "Failed"


class UpdateKey(NamedTuple):
    """An update of an Application, by its key."""

    application: str
    kind: UpdateKind = UpdateKind.PROMOTION


@dataclass(frozen=True, slots=True)
class UpdateView:
    """
    What is known of an update: what it would write, and what was proposed last.

    ``problem`` is why it waits, is refused or failed. ``branch`` and ``url`` are those of the last proposal, and
    ``digest`` is that of its values.
    """

    key: UpdateKey
    mode: str
    state: UpdateState
    checked: datetime
    update: FoundUpdate | None = None
    problem: str = ""
    branch: str = ""
    url: str = ""
    commit: str = ""
    digest: str = ""
    proposed: datetime | None = None
    by: str = ""

    @property
    def application(self) -> str:
        """The Application into which something is taken."""
        return self.key.application

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys of all Applications of which it shows something."""
        namespace = self.application.partition("/")[0]
        chain = self.update.chain if self.update is not None else ()
        return (self.application, *(f"{namespace}/{name}" for name in chain))


class Updates(Protocol):
    """What is known of updates, and their proposal for a user. Called by the dashboard."""

    def updates(self) -> tuple[UpdateView, ...]:
        """Return what is known of all updates, by Application."""
        ...

    def images_changed(self, names: Collection[str]) -> int:
        """Read the registries of the images with these full names again; return how many Applications follow one."""
        ...

    def propose(self, key: UpdateKey, digest: str, *, author: str, reason: str) -> UpdateView:
        """Propose exactly what was shown; raise WrongState where that has changed, Refused where a policy forbids."""
        ...


class ImageRegistry(Protocol):
    """What is asked of the registries of images; raises SourceUnavailable and its kin."""

    def tags(self, image: str) -> tuple[str, ...]:
        """Return the tags of an image."""
        ...

    def digest(self, image: str, tag: str) -> str:
        """Return the digest of a tag."""
        ...

    def named_digest(self, image: str, tag: str) -> str:
        """Return the digest that the registry names for a tag, empty for none; one request without the content."""
        ...

    def manifest(self, image: str, reference: str) -> tuple[str, dict[str, Any]]:
        """Return the digest of a manifest and its members."""
        ...


class UpdateSource(Source, EditSource, Protocol):
    """Read and edit the files of repositories."""


@dataclass(frozen=True, slots=True)
class UpdatePorts:
    """
    What updates work with; ``state_of`` returns an Application by its key, ``live`` one of its objects.

    ``running`` returns the digests that a workload of an Application runs, by image; nothing where that is not known.
    """

    source: UpdateSource
    renderer: ApplicationRenderer
    adopter: ValueAdopter
    proposals: AdoptService
    registry_of: Callable[[Application], ImageRegistry]
    clock: Clock
    credentials_of: Callable[[Application], Credentials]
    policy_of: Callable[[Application], Policy]
    state_of: Callable[[str], AppState | None]
    live: Callable[[str, ObjectRef], Manifest | None] = lambda key, ref: None
    running: Callable[[str, ObjectRef], Mapping[str, str]] = lambda key, ref: {}


class UpdateService:
    """Find what can be taken into an Application, and propose it to Git."""

    def __init__(self, ports: UpdatePorts) -> None:
        self._ports = ports
        self._platforms: dict[tuple[str, str], frozenset[str]] = {}
        """The digests of the platforms of an index, by image and digest: such content never changes."""

    def find(self, kind: UpdateKind, app: Application) -> FoundUpdate:
        """Return what an update would write now; raise InvalidInput where the Application declares no such update."""
        return self._promotion(app) if kind is UpdateKind.PROMOTION else self._images(app)

    def propose(
        self, update: FoundUpdate, *, author: str, reason: str = "", branch: str = "", is_direct: bool = False
    ) -> ProposedAdoption:
        """
        Push an update to its branch and open its pull request, or commit it to the tracked branch with ``is_direct``.

        Raise Refused where a policy forbids it, WrongState where nothing can be taken, or the branch moved meanwhile.
        """
        subject = f"Application {update.app.key}"
        if update.refusal:
            raise Refused(update.refusal, object=subject, hint="change it by hand")
        if not update.is_ready:
            reasons = dict.fromkeys([update.waits, *(problem for _, problem in update.adoption.refused)])
            raise WrongState("; ".join(filter(None, reasons)) or "nothing is newer", object=subject)
        target = update.target or update.app
        return self._ports.proposals.propose(
            target, update.head, update.adoption, author=author, reason=reason, branch=branch, is_direct=is_direct
        )

    def leftover(self, kind: UpdateKind, app: Application) -> str:
        """Return the head of the branch of an earlier proposal, empty where there is none of ours."""
        return self._ports.proposals.leftover(app, kind.purpose)

    def withdraw(self, kind: UpdateKind, app: Application, head: str, reason: str) -> str:
        """Close the pull request of an earlier proposal, delete its branch at ``head``, and return its page."""
        return self._ports.proposals.withdraw(app, kind.purpose, head, reason)

    def _promotion(self, app: Application) -> FoundUpdate:
        promotion = app.promotion
        if promotion is None:
            hint = "name what is promoted from where"
            raise InvalidInput("spec.promotion is absent", object=f"Application {app.key}", hint=hint)
        chain = chain_of(app.name, lambda name: self._source_of(app, name))
        source = self._ports.state_of(f"{app.namespace}/{promotion.from_}")
        if source is None:
            raise InvalidInput(f"Application {promotion.from_} does not exist", location="spec.promotion.from")
        update = FoundUpdate(UpdateKind.PROMOTION, app, chain=chain, origin=promotion.from_)
        waits = waiting_reason(source.status, promotion.after, self._ports.clock.now().timestamp())
        if waits:
            return replace(update, waits=f"{promotion.from_}: {waits}")
        applied = str(at(source.status, "revision", "applied"))
        origin = f"{promotion.from_} at {applied[:12]}"
        _, theirs = self._rendered(source.app, applied)
        unmet = self._unmet(promotion.requires, source, theirs)
        if unmet:
            return replace(update, waits=f"{promotion.from_}: {unmet}")
        head = self._head(app)
        snapshot, build = self._rendered(app, head)
        offers = list(promoted_values(theirs, build, promotion.take, origin))
        return self._adopted(replace(update, head=head, origin=origin), snapshot, build, offers)

    def _unmet(self, requires: Sequence[Requirement], source: AppState, theirs: Build) -> str:
        """Return which requirement an environment does not meet, empty where it meets all."""
        problem = _metrics_problem(source.status) if "Metrics" in requires else ""
        if problem or "Evaluations" not in requires:
            return problem
        agents = [agent for agent in theirs.manifests if ref_of(agent).of == _AGENT and at(agent, "spec", "evaluation")]
        if not agents:
            return "it declares no Agent with an evaluation"
        namespace = source.app.destination.namespace
        placed = [ref._replace(namespace=ref.namespace or namespace) for ref in map(ref_of, agents)]
        problems = (_evaluation_problem(ref, self._ports.live(source.app.key, ref) or {}) for ref in placed)
        return next(filter(None, problems), "")

    def _source_of(self, app: Application, name: str) -> str:
        """Return what an Application of the namespace promotes from, empty for nothing."""
        state = AppState(app, {}) if name == app.name else self._ports.state_of(f"{app.namespace}/{name}")
        return state.app.promotion.from_ if state is not None and state.app.promotion is not None else ""

    def _images(self, app: Application) -> FoundUpdate:
        head = self._head(app)
        snapshot, build = self._rendered(app, head)
        declared = list(declared_images(build.manifests, app.images))
        allowed = self._ports.policy_of(app).images
        for item in declared:
            # before any request: a registry outside of the operator's list is not asked
            if allowed and not any(matches(item.image.name, pattern) for pattern in allowed):
                raise InvalidInput(
                    f"image {item.image.name} is not allowed by the policy",
                    location="spec.images",
                    hint="see spec.allow.images of it",
                )
        registry = self._ports.registry_of(app)
        tags = {name: registry.tags(name) for name in sorted({item.image.name for item in declared})}
        messages = self._messages(app, head, UpdateKind.IMAGES)
        choices = [choose(item, tags[item.image.name], reverted_tags(messages, item)) for item in declared]
        digests = {
            f"{choice.declared.image.name}:{choice.newest}": registry.digest(choice.declared.image.name, choice.newest)
            for choice in choices
            if choice.is_newer and choice.has_digest
        }
        offers = [(value, "") for value in image_values(choices, digests)]
        update = FoundUpdate(UpdateKind.IMAGES, app, head, images=tuple(self._compared(app, registry, choices)))
        return self._adopted(update, snapshot, build, offers)

    def _compared(
        self, app: Application, registry: ImageRegistry, choices: Iterable[ImageChoice]
    ) -> Iterator[ImageChoice]:
        """Yield the choices with the digest that runs, and with that of the registry where the declared tag moved."""
        named: dict[ImageName, str] = {}
        for choice in choices:
            ref, image = choice.declared.ref, choice.declared.image
            ref = ref._replace(namespace=ref.namespace or app.destination.namespace)
            running = image.digest or self._ports.running(app.key, ref).get(str(image), "")
            moved = ""
            # a tag that was deleted, and an answer with something else than a digest, show no move
            with suppress(InvalidInput):
                if running and image.tag and image not in named:
                    named[image] = registry.named_digest(image.name, image.tag)
                moved = self._moved(registry, image.name, named.get(image, ""), running)
            yield replace(choice, running=running, moved=moved)

    def _moved(self, registry: ImageRegistry, image: str, digest: str, running: str) -> str:
        """Return the digest that a tag has now, empty where what runs is that, or one of its platforms."""
        if digest in ("", running):
            return ""
        # some runtimes name the manifest of the platform that they pulled, not the index that has the tag
        if (image, digest) not in self._platforms:
            items = registry.manifest(image, digest)[1].get("manifests")
            members = items if isinstance(items, list) else ()
            if len(self._platforms) >= _PLATFORMS:
                self._platforms.clear()
            self._platforms[image, digest] = frozenset(str(at(item, "digest", default="")) for item in members)
        return "" if running in self._platforms[image, digest] else digest

    def _adopted(
        self, update: FoundUpdate, snapshot: Snapshot, build: Build, offers: Sequence[tuple[ClusterValue, str]]
    ) -> FoundUpdate:
        """Return an update with the edits of the values that may be taken, and the reasons for the others."""
        app = update.app
        refused = [(value, problem) for value, problem in offers if problem]
        taken = [value for value, problem in offers if not problem]
        marks = written_values(self._messages(app, update.head, update.kind), update.kind.purpose, app.key)
        checked = list(set_back(taken, marks))
        awaited = [(value, problem) for value, problem in checked if problem]
        values = [value for value, problem in checked if not problem]
        edits = SourceEdits(app, update.head, _NOTHING)
        if values:
            edits = find_edits(self._ports.adopter, self._ports.renderer, app, snapshot, build, values)
        all_refused = (*refused, *awaited, *edits.adoption.refused)
        adoption = replace(edits.adoption, refused=all_refused, purpose=update.kind.purpose)
        if not adoption.values:
            refusal = _reasons(edits.adoption.refused)
            return replace(update, adoption=adoption, waits=_reasons(awaited), refusal=refusal)
        policy = self._ports.policy_of(app)
        risk = _risk(app, build.manifests, adoption.manifests)
        violations = update_violations(policy, app, edits.app.source.revision, adoption.files, risk)
        return replace(
            update,
            target=edits.app,
            head=edits.head,
            adoption=adoption,
            risk=risk,
            refusal="; ".join(violations),
            is_direct=_may_commit(update.kind, app, policy, adoption, risk),
        )

    def _messages(self, app: Application, head: str, kind: UpdateKind) -> tuple[str, ...]:
        text = f"{kind.purpose.trailer}: {app.key}"
        return self._ports.source.messages(app.source, head, text, limit=_COMMITS)

    def _head(self, app: Application) -> str:
        return self._ports.source.resolve(app.source, self._ports.credentials_of(app))

    def _rendered(self, app: Application, commit: str) -> tuple[Snapshot, Build]:
        snapshot = self._ports.source.snapshot(app.source, self._ports.credentials_of(app), commit)
        return snapshot, self._ports.renderer.render(app, snapshot)


def waiting_reason(status: Mapping[str, Any], after: float, now: float) -> str:
    """Return why an Application cannot be promoted yet, empty where it was Synced and Healthy for long enough."""
    applied = at(status, "revision", "applied", default="")
    if not applied:
        return "nothing was applied yet"
    if applied != at(status, "revision", "fetched", default=applied) or at(status, "pinned"):
        return "it does not run the newest commit of its branch"
    if Phase.of(status) is not Phase.SYNCED or status.get("health") != Health.HEALTHY.value:
        return f"it is {Phase.of(status).value} and {status.get('health') or Health.UNKNOWN.value}"
    # another commit, drift and bad health start the time again
    begin = max(seconds_of(status.get("phaseSince")), seconds_of(status.get("healthSince")))
    remaining = begin + after - now
    return f"it has to be Synced and Healthy for {remaining:.0f} s more" if after and remaining > 0 else ""


def _metrics_problem(status: Mapping[str, Any]) -> str:
    """Return why the metrics of the applied commit are not known to be good, empty where they are."""
    condition = find_condition(status, WITHIN_LIMITS)
    if not condition:
        return "it has no limits of metrics; set spec.postSync.queries"
    # while they are watched they are within their limits too, but not for the whole time yet
    is_good = condition.get("status") == "True" and condition.get("reason") == WATCHED
    return "" if is_good else f"its metrics are not good: {condition.get('message') or condition.get('reason')}"


def _evaluation_problem(ref: ObjectRef, agent: Manifest) -> str:
    """Return why an Agent is not known to have passed its evaluation, empty where it has."""
    status = at(agent, "status", default={})
    validated = find_condition(status, "Validated")
    if validated.get("status") == "False":
        return f"{ref} failed its evaluation: {validated.get('message', '')}"
    # the verdict stays when a newer revision is under way
    revision = at(status, "evaluation", "revision", default="")
    is_current = revision and revision == status.get("updateRevision")
    return "" if is_current and validated.get("status") == "True" else f"{ref} was not evaluated yet"


def _risk(app: Application, declared: Sequence[Manifest], edited: Sequence[Manifest]) -> Risk:
    """Return the class of what the edits change."""
    cluster_scoped = cluster_scoped_kinds((*declared, *edited))
    old, new = (desired_objects(app, side, lambda of: of not in cluster_scoped).values() for side in (declared, edited))
    return effect_risk(commit_effect(old, new, app))


def _may_commit(kind: UpdateKind, app: Application, policy: Policy, adoption: Adoption, risk: Risk) -> bool:
    """
    Return whether an update goes to the tracked branch without a pull request.

    Only images do: what else is promoted, such as a prompt, is read by a person first. What is Dangerous is too.
    """
    return (
        kind.mode_of(app) == "Commit"
        and not needs_review(policy)
        and all(part.verify.mode == "None" for part in app.source.parts)
        and risk is not Risk.DANGEROUS
        and all(_is_image(value.kept) for value in adoption.values)
    )


def _reasons(refused: Sequence[tuple[ClusterValue, str]]) -> str:
    return "; ".join(dict.fromkeys(problem for _, problem in refused))


def _is_image(value: ClusterValue) -> bool:
    return value.path.endswith(".image")


def refusals(update: FoundUpdate) -> Iterator[str]:
    """Yield a line for each value that is not taken, with the reason."""
    for value, problem in update.adoption.refused:
        yield f"{value.ref} {value.path}: {problem}"
