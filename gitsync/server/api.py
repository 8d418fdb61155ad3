"""The JSON API for the command line: the plan of an application, and its review."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gitsync.objects.change import ABSENT, Change
from gitsync.plan.display.content import whole_object
from gitsync.plan.mask import to_record
from gitsync.server.auth.security import check_call
from gitsync.server.pages.dependencies import ReviewsOf, UserOf, ViewOf
from gitsync.server.reviews import line, reviewer

PREFIX = "/api/"
router = APIRouter(prefix=f"{PREFIX}applications/{{namespace}}/{{name}}")


class ReviewRequest(BaseModel):
    """A review of a plan; ``by`` counts only where no sign-in proves the name."""

    digest: str = Field(max_length=100)
    verdict: Literal["approve", "reject"]
    reason: str = Field("", max_length=1000)
    by: str = Field("", max_length=100)
    overrule: bool = False


@router.get("/plan")
def plan(view: ViewOf) -> dict[str, Any]:
    """Return the plan with what each step changes."""
    if view.plan is None:
        raise HTTPException(409, "The application has no plan yet.")
    return {
        "application": view.key,
        "digest": view.plan.digest,
        "revision": view.plan.revision,
        "class": view.plan.risk.value,
        "explanation": view.plan.explanation,
        "held": list(view.verdict.reasons) if view.verdict is not None else [],
        "steps": [_step(step) for step in view.plan.writes],
    }


@router.post("/review", dependencies=[Depends(check_call)])
def review(view: ViewOf, user: UserOf, reviews: ReviewsOf, word: ReviewRequest) -> dict[str, str]:
    """Take a review of exactly the plan that its digest names."""
    by, reason = reviewer(user, word.by), line(word.reason)
    done = {"application": view.key, "digest": word.digest, "by": by.name}
    if word.verdict == "reject":
        reviews.reject(view, word.digest, by, reason)
        return done
    until = reviews.approve(view, word.digest, by, reason, overrule=word.overrule)
    return {**done, "until": until.isoformat()}


def _step(step: Change) -> dict[str, Any]:
    content = whole_object(step)
    return {
        "object": str(step.ref),
        "action": step.action.value,
        "class": step.risk.value,
        "rule": step.rule,
        "reason": step.reason,
        "follows": str(step.follows) if step.follows is not None else "",
        "differences": to_record(step),
        "created": None if content is None or content.desired is ABSENT else content.desired,
        "deleted": None if content is None or content.live is ABSENT else content.live,
    }
