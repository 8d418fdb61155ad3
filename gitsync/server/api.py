"""What the command line asks the dashboard: the plan of an application, and to approve or reject it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, Field

from gitsync.ports import ApplicationView
from gitsync.server.actions import Asker, Finder
from gitsync.server.auth.security import check_call
from gitsync.server.reviews import ReviewHandler, line, reviewer

PREFIX = "/api/"


class ReviewRequest(BaseModel):
    """What somebody says of a plan; ``by`` counts only where no sign-in tells the name."""

    digest: str = Field(max_length=100)
    verdict: Literal["approve", "reject"]
    reason: str = Field("", max_length=1000)
    by: str = Field("", max_length=100)
    overrule: bool = False


def router(found: Finder, reviewing: ReviewHandler) -> APIRouter:
    """Return ``/api/applications/NAMESPACE/NAME/plan`` and ``…/review``."""
    routes = APIRouter(prefix=f"{PREFIX}applications/{{namespace}}/{{name}}")
    Found = Annotated[ApplicationView, Depends(found)]  # noqa: N806 - names a type

    @routes.get("/plan")
    def plan(view: Found) -> dict[str, Any]:
        if view.plan is None:
            raise HTTPException(409, "There is no plan yet.")
        return {
            "application": view.key,
            "digest": view.plan.digest,
            "revision": view.plan.revision,
            "class": view.plan.risk.value,
            "explanation": view.plan.explanation,
            "held": list(view.verdict.reasons) if view.verdict is not None else [],
            "steps": [
                {
                    "object": str(step.ref),
                    "action": step.action.value,
                    "class": step.risk.value,
                    "rule": step.rule,
                    "reason": step.reason,
                }
                for step in view.plan.writes
            ],
        }

    @routes.post("/review", dependencies=[Depends(check_call)])
    def review(view: Found, person: Asker, word: ReviewRequest) -> dict[str, str]:
        by, reason = reviewer(person, word.by), line(word.reason)
        done = {"application": view.key, "digest": word.digest, "by": by.name}
        if word.verdict == "reject":
            reviewing.reject(view, word.digest, by, reason)
            return done
        until = reviewing.approve(view, word.digest, by, reason, overrule=word.overrule)
        return {**done, "until": until.isoformat()}

    return routes
