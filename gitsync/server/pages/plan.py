"""The plan of one application, the review of a plan that waits, and that of all plans of one commit together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from gitsync.errors import GitsyncError, InvalidInput, TerminalError
from gitsync.objects.change import DRIFT, Action, Change, Plan
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.plan.parts import Need, closure, needs_by_step
from gitsync.plan.risk.drift import DriftRisk
from gitsync.ports import ApplicationView
from gitsync.server.auth.security import check_form
from gitsync.server.backend import Backend
from gitsync.server.dependencies import CurrentViewOf, PagesOf, PendingPlansOf, RequestsOf, Start, UserOf, ViewOf
from gitsync.server.formatting import app_url
from gitsync.server.pages.layout import show_application
from gitsync.server.problems import status_of
from gitsync.server.queries.agents import EvaluationRow, evaluation_of
from gitsync.server.queries.applications import AppRow, app_row
from gitsync.server.queries.differences import Content, changed_in_cluster, content_of, unpaired
from gitsync.server.queries.fields import FIELDS, FieldOrigin, FieldRow, field_row, origins_of
from gitsync.server.queries.filters import page_of
from gitsync.server.queries.plans import ObjectEffect, PlanChange, effects, plan_changes, token_forecasts
from gitsync.server.queries.waiting import (
    PendingPlan,
    PendingPlans,
    await_plans,
    line,
    reviewer,
    view_of_plan,
    waiting,
)
from gitsync.server.templates import Pages, leave_notice
from gitsync.services.requests import UserRequests
from gitsync.services.reviews import Approval, is_held

router = APIRouter(prefix="/apps/{namespace}/{name}")

_STEPS = 30
_TYPED = 1000
_MOST_STEPS = 10_000
_MOST_PARTS = 50
"""Applications of one commit that are reviewed together."""
_PART_STEPS = 10
"""Steps of each of their plans that are shown, the riskiest first."""
Commit = Annotated[str, Path(max_length=64)]
_LONGEST_SHOWN = 100_000
"""Characters of the plan that a form has."""
Typed = Annotated[str, Form(max_length=_TYPED)]


@dataclass(frozen=True, slots=True)
class StepRow:
    """
    One step with what it changes; ``drift`` is the class of what others did to the object before.

    ``origin`` is where Git declares the object. ``needs`` are the steps that have to be approved with it.
    """

    step: Change
    needs: tuple[Need, ...]
    fields: list[FieldRow]
    more: int
    content: Content | None
    drift: DriftRisk | None
    origin: FieldOrigin | None
    evaluation: EvaluationRow | None
    """The newest verdict on the agent that the step changes."""


@dataclass(frozen=True, slots=True)
class ReviewDraft:
    """
    A review that was not taken: why, the text to keep, and what changed in the plan since it was shown.

    ``steps`` are the paths of the selected objects, with all that they need.
    """

    problem: str
    by: str = ""
    reason: str = ""
    changes: tuple[PlanChange, ...] = ()
    steps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PlanPage:
    """The page of one plan, for the user who asks for it."""

    request: Request
    pages: PagesOf
    plans: PendingPlansOf
    requests: RequestsOf
    user: UserOf
    view: CurrentViewOf

    def show(
        self, *, start: int = 0, mode: str = "split", status: int = 200, draft: ReviewDraft | None = None
    ) -> HTMLResponse:
        """Return the page from a step on, with a review that was not taken."""
        view = self.view
        pending = self.plans.of(view, self.user) if is_held(view) else None
        resources = {item.ref: item for item in unpaired(view)}
        writes = view.plan.writes if view.plan is not None else ()
        # a generated object replaces the one that it follows: both are one row
        followed = {step.follows for step in writes}
        steps = [step for step in writes if step.action is not Action.PRUNE or step.ref not in followed]
        shown, following = page_of(sorted(steps, key=lambda step: -step.risk.level), start, _STEPS)
        needs = needs_by_step(view.plan) if view.plan is not None else {}
        # of the steps of this page only: a trace renders the Application again
        origins = origins_of(self.pages.engine, view, shown)
        rows = []
        for step in shown:
            item = resources.get(step.ref)
            fields = [difference for difference in step.differences if difference.kind in DRIFT]
            rows.append(
                StepRow(
                    step,
                    # the object that it replaces is part of the same row
                    tuple(need for need in needs.get(step.ref, ()) if need.ref != step.follows),
                    [
                        field_row(difference, origins.of(step.ref, difference.path), step.live, objects=len(shown))
                        for difference in fields[:FIELDS]
                    ],
                    max(len(fields) - FIELDS, 0),
                    content_of(step, len(shown)),
                    changed_in_cluster(view, item) if item is not None else None,
                    next(iter(origins.of(step.ref)), None),
                    evaluation_of(step.ref, step.live, view.status),
                )
            )
        return show_application(
            self.pages,
            self.request,
            view,
            "plan",
            status,
            steps=rows,
            listed=len(steps),
            total=len(writes),
            pending=pending,
            draft=draft,
            elsewhere=_elsewhere(draft, shown),
            effects=self._effects(view),
            mode="unified" if mode == "unified" else "split",
            start=start,
            following=following,
        )

    def _effects(self, view: ApplicationView) -> list[ObjectEffect]:
        """Return the effects of the plan of an Application, none where it has no plan."""
        return _all_effects(self.pages.engine, view, view.plan) if view.plan is not None else []


def _all_effects(engine: Backend, view: ApplicationView, plan: Plan) -> list[ObjectEffect]:
    """Return what a plan does to the running system, and the tokens that its Agents will use."""
    state = engine.view
    return [
        *effects(view, plan, state.owned_by, state.applications),
        *token_forecasts(view, plan, engine.usage.last_week()),
    ]


@router.get("/plan", response_class=HTMLResponse)
def plan(page: Annotated[PlanPage, Depends()], start: Start = 0, mode: str = "split") -> HTMLResponse:
    """Show the steps of the plan, the riskiest first, and the form for a review where one is needed."""
    return page.show(start=start, mode=mode)


@router.get("/review")
def reopen_review(view: ViewOf) -> RedirectResponse:
    """Lead a reload of a refused review to the plan."""
    return RedirectResponse(app_url(view.key) + "/plan", 303)


@router.post("/review", dependencies=[Depends(check_form)])
def review(
    page: Annotated[PlanPage, Depends()],
    digest: Typed = "",
    decision: Typed = "",
    by: Typed = "",
    reason: Typed = "",
    overrule: Typed = "",
    implicit: Typed = "",
    shown: Annotated[str, Form(max_length=_LONGEST_SHOWN)] = "",
    step: Annotated[tuple[str, ...], Form(max_length=_MOST_STEPS)] = (),
) -> Response:
    """Take a decision on exactly the plan that was shown; else show the plan as it is now and keep the text."""
    view = view_of_plan(page.pages.engine, page.view, digest)
    page = replace(page, view=view)
    steps = _with_needs(view.plan, step)
    try:
        # Enter in a text field submits the form by its first button, which is not a decision
        verb = decision_of("" if implicit else decision)
        author = reviewer(page.user, by)
        if verb == "reject":
            page.requests.reject(view, digest, author, line(reason))
        else:
            chosen = _chosen(view.plan, steps, step) if verb == "approve-selected" else ()
            page.requests.approve(view, digest, Approval(author, line(reason), bool(overrule), chosen))
    except GitsyncError as error:
        # raises an error that is not about the plan, such as one of the database
        status = _status_of(error)
        problem = str(error)
        plan_of_form = page.pages.opened_plan(shown)
        changed = (
            # 409: the plan is another one than was shown, and the reviewer has to see what changed
            plan_changes(plan_of_form, view.plan)
            if status == 409 and plan_of_form is not None and view.plan is not None
            else ()
        )
        draft = ReviewDraft(problem, by, reason, changed, frozenset(ref.path for ref in steps))
        return page.show(status=status, draft=draft)
    response = RedirectResponse(app_url(view.key) + ("" if decision == "approve" else "/plan"), 303)
    leave_notice(response, decision)
    return response


commit_router = APIRouter(prefix="/approvals")


@dataclass(frozen=True, slots=True)
class CommitPart:
    """The plan of one Application that waits at a commit: its row, what the user may do, effects and first steps."""

    row: AppRow
    pending: PendingPlan
    effects: list[ObjectEffect]
    steps: list[tuple[Change, list[FieldRow]]]


@dataclass(frozen=True, slots=True)
class PartDecision:
    """What became of the decision on one plan; ``problem`` is why it was not taken, else empty."""

    key: str
    problem: str = ""


@commit_router.get("/{commit}", response_class=HTMLResponse)
def commit_plans(request: Request, pages: PagesOf, plans: PendingPlansOf, user: UserOf, commit: Commit) -> HTMLResponse:
    """Show the plans of all Applications that wait at a commit, and one form for the review of them."""
    return _show_commit(request, pages, plans, user, commit)


@commit_router.post("/{commit}", response_class=HTMLResponse, dependencies=[Depends(check_form)])
def review_commit(
    request: Request,
    pages: PagesOf,
    plans: PendingPlansOf,
    requests: RequestsOf,
    user: UserOf,
    commit: Commit,
    plan: Annotated[tuple[str, ...], Form(max_length=_MOST_PARTS)] = (),
    decision: Typed = "",
    by: Typed = "",
    reason: Typed = "",
    implicit: Typed = "",
) -> HTMLResponse:
    """Take one decision on each selected plan (``KEY DIGEST``), exactly as it was shown, and show what became of it."""
    try:
        verb = decision_of("" if implicit else decision)
        if not plan:
            raise InvalidInput("no plan is selected", hint="select plans, or review each on its own page")
        if verb == "reject" and not line(reason):
            raise InvalidInput("a rejection needs a reason", hint="give a reason")
    except InvalidInput as error:
        draft = ReviewDraft(str(error), by, reason)
        return _show_commit(request, pages, plans, user, commit, status=status_of(error), draft=draft)
    word = Approval(reviewer(user, by), line(reason))
    shown = [(key, digest) for key, _, digest in (text.partition(" ") for text in plan)]
    await_plans(pages.engine, dict(shown))
    decisions = tuple(
        PartDecision(key, _decide(pages.engine, requests, (key, digest), verb, word)) for key, digest in shown
    )
    return _show_commit(request, pages, plans, user, commit, decisions=decisions, verb=verb)


def _decide(engine: Backend, requests: UserRequests, shown: tuple[str, str], verb: str, word: Approval) -> str:
    """Approve or reject one plan, shown as its key and digest; return why that was not taken, empty where it was."""
    key, digest = shown
    view = engine.view.application(key)
    # also for one that the user may not see
    if view is None:
        return "is not known"
    try:
        if verb == "reject":
            requests.reject(view, digest, word.by, word.reason)
        else:
            requests.approve(view, digest, word)
    # one that refuses does not stop the others
    except GitsyncError as error:
        return "; ".join(filter(None, (error.message, error.hint)))
    return ""


def _show_commit(
    request: Request, pages: Pages, plans: PendingPlans, user: User, commit: str, *, status: int = 200, **context: Any
) -> HTMLResponse:
    engine = pages.engine
    views = engine.view.applications()
    held = [view for view in waiting(views) if view.plan is not None and view.plan.revision == commit]
    found = [
        CommitPart(
            app_row(view),
            plans.of(view, user),
            _all_effects(engine, view, view.plan),
            _first_steps(view.plan),
        )
        for view in held[:_MOST_PARTS]
        if view.plan is not None
    ]
    shown = {"decisions": (), "verb": "", "draft": None, **context}
    return pages.show(request, "approvals_commit.html", status, commit=commit, found=found, **shown)


def _first_steps(plan: Plan) -> list[tuple[Change, list[FieldRow]]]:
    """Return the riskiest steps of a plan with their first fields; where Git sets these is on the page of the plan."""
    steps = sorted(plan.writes, key=lambda step: -step.risk.level)[:_PART_STEPS]
    return [
        (
            step,
            [
                field_row(difference, (), step.live, objects=len(steps))
                for difference in step.differences
                if difference.kind in DRIFT
            ][:FIELDS],
        )
        for step in steps
    ]


def decision_of(text: str) -> Literal["approve", "approve-selected", "reject"]:
    """Return the decision of a form; raise InvalidInput where none was made."""
    if text == "approve":
        return "approve"
    if text == "approve-selected":
        return "approve-selected"
    if text == "reject":
        return "reject"
    raise InvalidInput("no decision was made", hint="choose Approve or Reject, then submit the review")


def _with_needs(plan: Plan | None, paths: Sequence[str]) -> frozenset[ObjectRef]:
    """Return the selected objects of a plan with all that their steps need."""
    if plan is None:
        return frozenset()
    return closure((step.ref for step in plan.writes if step.ref.path in paths), needs_by_step(plan))


def _chosen(plan: Plan | None, steps: Collection[ObjectRef], selected: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the steps to approve; raise InvalidInput where not all that they need was selected."""
    if not steps:
        raise InvalidInput("no step is selected", hint="select steps, or approve all")
    shown_in_another = {step.follows for step in plan.writes if step.follows} if plan is not None else set()
    added = sorted(ref for ref in steps if ref.path not in selected and ref not in shown_in_another)
    if added:
        names = ", ".join(map(str, added))
        hint = "they are selected now; check them and decide again"
        raise InvalidInput(f"the selected steps need {names}", hint=hint)
    return tuple(ref.path for ref in steps)


def _status_of(error: GitsyncError) -> int:
    """Return the status of a review that was not taken, for which the plan is shown again; raise any other error."""
    if isinstance(error, TerminalError):
        return status_of(error)
    raise error


def _elsewhere(draft: ReviewDraft | None, shown: Iterable[Change]) -> list[str]:
    """Return the selected steps that are on another page of the plan."""
    here = {ref.path for step in shown for ref in (step.ref, step.follows) if ref is not None}
    return sorted(draft.steps - here) if draft is not None else []
