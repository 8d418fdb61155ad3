"""The plan of an application, its review, and requests of users: sync, revert drift, hold a field, suspend, resume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from fastapi import APIRouter, Depends, HTTPException

from gitsync.apply.change import StepResult
from gitsync.errors import WrongState
from gitsync.objects.change import ABSENT, Change
from gitsync.objects.holds import FieldHold
from gitsync.objects.record import Commit
from gitsync.plan.display import whole_object
from gitsync.plan.mask import to_record
from gitsync.plan.parts import Choice, Need, needs_by_step
from gitsync.server.api.models import (
    ActionRequest,
    ActionResult,
    EndHoldRequest,
    HoldRequest,
    OriginModel,
    PlanModel,
    PolicyModel,
    RevertDriftRequest,
    ReviewRequest,
    ReviewResult,
    SettingModel,
    StepModel,
    SyncRequest,
    SyncResult,
    UpdateRequest,
    UpdateResult,
    WorkloadActionRequest,
)
from gitsync.server.auth.security import check_call
from gitsync.server.dependencies import BackendOf, CurrentViewOf, RequestsOf, UserOf, ViewOf, find_object, ref_named
from gitsync.server.formatting import iso, visible
from gitsync.server.queries.fields import Origins, origins_of
from gitsync.server.queries.waiting import holds_in_force, line, reviewer, view_of_plan
from gitsync.services.requests import RequestKind, WorkloadRequest
from gitsync.services.reviews import Approval

router = APIRouter(prefix="/applications/{namespace}/{name}", tags=["plans and requests"])
# a browser attaches the cookie of its user also to what another site makes it send
checked = [Depends(check_call)]


@router.get("/plan")
def plan(backend: BackendOf, view: CurrentViewOf, origins: bool = False) -> PlanModel:
    """Return the plan with what each step changes; with ``origins`` also which lines set that, and who wrote them."""
    if view.plan is None:
        # not 404: the Application exists, and its first reconcile makes a plan
        raise HTTPException(409, visible(view.unobserved) or "The application has no plan yet; ask again in a moment.")
    needs = needs_by_step(view.plan)
    # renders the Application again and reads the authors of lines: only where a client wants it (decision 0013)
    traced = origins_of(backend, view, view.plan.writes) if origins else Origins()
    return PlanModel(
        application=view.key,
        digest=view.plan.digest,
        revision=view.plan.revision,
        risk=view.plan.risk.value,
        explanation=view.plan.explanation,
        held=list(view.verdict.reasons) if view.verdict is not None else [],
        steps=[_step(step, needs.get(step.ref, ()), traced) for step in view.plan.writes],
    )


@router.get("/policy")
def policy(view: ViewOf, backend: BackendOf) -> PolicyModel:
    """Return what the operator's policies allow and require, and what decided each setting."""
    if view.application is None:
        raise HTTPException(409, "The spec of the application is not valid.")
    settings = backend.policies.explain(view.application)
    return PolicyModel(
        application=view.key,
        settings=[SettingModel.model_validate(setting) for setting in settings],
        problem=backend.policies.problem,
    )


@router.post("/review", dependencies=checked)
def review(backend: BackendOf, view: ViewOf, user: UserOf, requests: RequestsOf, word: ReviewRequest) -> ReviewResult:
    """Take a review of exactly the plan that its digest names."""
    view = view_of_plan(backend, view, word.digest)
    by = reviewer(user, word.by)
    reason = line(word.reason)
    taken = ReviewResult(application=view.key, digest=word.digest, by=by.name)
    if word.verdict == "reject":
        requests.reject(view, word.digest, by, reason)
        return taken
    until = requests.approve(view, word.digest, Approval(by, reason, word.overrule, tuple(word.steps)))
    return taken.model_copy(update={"until": until.isoformat()})


@router.post("/sync", dependencies=checked)
def sync(backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, word: SyncRequest) -> SyncResult:
    """Request a sync now, of all objects or of some; with ``dryRun`` answer what the API server would do with these."""
    if not word.is_chosen:
        by = reviewer(user, word.by or "api")
        requests.request(view, RequestKind.SYNC, by, line(word.reason))
        return SyncResult(application=view.key, action="sync", by=by.name)
    by = reviewer(user, word.by)
    choice = Choice(frozenset(map(ref_named, word.objects)), prune=word.prune, replace=word.replace)
    taken = SyncResult(application=view.key, action="sync-objects", by=by.name)
    if not word.dry_run:
        request = requests.sync_chosen(view, backend.requests, choice, by, line(word.reason))
        return taken.model_copy(update={"request": request})
    answers = requests.dry_run(view, backend.dry_runs, choice, by)
    return taken.model_copy(update={"action": "dry-run", "steps": list(map(_answer, answers))})


@router.post("/revert-drift", dependencies=checked)
def revert_drift(
    backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, word: RevertDriftRequest
) -> ActionResult:
    """Restore what others changed of some objects, or of all, to what was applied last; no commit is applied."""
    by = reviewer(user, word.by)
    refs = [ref_named(path) for path in word.objects]
    requests.revert_drift(view, backend.requests, refs, by, line(word.reason))
    return ActionResult(application=view.key, action="revert-drift", by=by.name)


@router.post("/workload", dependencies=checked)
def change_workload(
    backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, word: WorkloadActionRequest
) -> ActionResult:
    """Restart a workload, or delete a Pod that its controller creates again; a name and a reason are required."""
    by = reviewer(user, word.by)
    live = find_object(backend, view, word.object).live
    if live is None:
        raise WrongState("is not in the cluster", object=word.object)
    requests.change_workload(view, backend.workloads, WorkloadRequest(word.action, live), by, line(word.reason))
    return ActionResult(application=view.key, action=word.action.value, by=by.name)


@router.post("/update", dependencies=checked)
def propose_update(
    backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, word: UpdateRequest
) -> UpdateResult:
    """Propose newer images, or what another environment runs, to Git, exactly as its digest names it."""
    by = reviewer(user, word.by or "api")
    proposed = requests.propose_update(view, backend.updates, word.kind, word.digest, by, line(word.reason))
    return UpdateResult(
        application=view.key,
        action="update",
        by=by.name,
        branch=proposed.branch,
        url=proposed.url,
        commit=proposed.commit,
    )


@router.post("/suspend", dependencies=checked)
def suspend(requests: RequestsOf, view: ViewOf, user: UserOf, word: ActionRequest) -> ActionResult:
    """Suspend an application; a name and a reason are required."""
    by = reviewer(user, word.by)
    requests.request(view, RequestKind.SUSPEND, by, line(word.reason))
    return ActionResult(application=view.key, action="suspend", by=by.name)


@router.post("/resume", dependencies=checked)
def resume(requests: RequestsOf, view: ViewOf, user: UserOf, word: ActionRequest) -> ActionResult:
    """Resume an application; a name and a reason are required."""
    by = reviewer(user, word.by)
    requests.request(view, RequestKind.RESUME, by, line(word.reason))
    return ActionResult(application=view.key, action="resume", by=by.name)


@router.post("/hold", dependencies=checked)
def hold(backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, word: HoldRequest) -> ActionResult:
    """Leave a field of an object as it is for some minutes, whatever Git declares; a name and a reason are required."""
    by = reviewer(user, word.by)
    until = backend.clock.now().replace(microsecond=0) + timedelta(minutes=word.minutes)
    held = FieldHold.of_field(ref_named(word.object), word.field, until, by.name, line(word.reason))
    requests.hold(view, backend.requests, held, by)
    return ActionResult(application=view.key, action="hold", by=by.name)


@router.post("/unhold", dependencies=checked)
def unhold(backend: BackendOf, requests: RequestsOf, view: ViewOf, user: UserOf, word: EndHoldRequest) -> ActionResult:
    """End the hold of a field now; a name and a reason are required."""
    by = reviewer(user, word.by)
    now = backend.clock.now()
    wanted = FieldHold.of_field(ref_named(word.object), word.field, now, by.name, "").name
    ended = [held for held in holds_in_force(view, now) if held.name == wanted]
    requests.end_holds(view, backend.requests, ended, by, line(word.reason))
    return ActionResult(application=view.key, action="unhold", by=by.name)


def _answer(answer: StepResult) -> StepModel:
    step = _step(answer.change, (), Origins())
    return step.model_copy(update={"outcome": answer.outcome.value, "reason": visible(answer.message)})


def _step(step: Change, needs: Iterable[Need], origins: Origins) -> StepModel:
    content = whole_object(step)
    return StepModel(
        object=str(step.ref),
        path=step.ref.path,
        needs=[need.ref.path for need in needs],
        action=step.action.value,
        risk=step.risk.value,
        rule=step.rule,
        reason=step.reason,
        follows=str(step.follows) if step.follows is not None else "",
        differences=list(to_record(step)),
        origins=list(_origins(step, origins)),
        created=None if content is None or content.desired is ABSENT else content.desired,
        deleted=None if content is None or content.live is ABSENT else content.live,
    )


def _origins(step: Change, origins: Origins) -> Iterator[OriginModel]:
    # the empty path is the object itself
    for path in ("", *(difference.path for difference in step.differences)):
        line = next((place for place in reversed(origins.of(step.ref, path)) if place.where), None)
        if line is not None:
            yield OriginModel(field=path, where=line.where, **_written(line.author))


def _written(author: Commit | None) -> dict[str, str]:
    if author is None:
        return {}
    return {
        "commit": author.id,
        "author": visible(author.author),
        "email": visible(author.email),
        "subject": visible(author.subject),
        "time": iso(author.time),
    }
