"""What the operator requires of Applications: an Application can be stricter, never weaker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from gitsync.objects.application import Application, Approvers, Window
from gitsync.objects.parsing import Spec, Strings
from gitsync.objects.patterns import matches
from gitsync.objects.signers import Signer


class RequiredApprovers(Approvers):
    """Who approves, how many users, and whether an author may."""

    count: Annotated[int, Field(ge=1, le=10)] = Field(
        1, description="Signed-in users who have to approve a plan, each for themselves."
    )
    not_author: bool = Field(
        False,
        description="Whether the approval of a user who is author or committer of one of the plan's commits does not"
        " count.",
    )

    @property
    def needs_proof(self) -> bool:
        """Whether only users count whose sign-in proved their name."""
        # A name that was only typed could be another one each time: one person would be two, or not the author.
        return self.count > 1 or self.not_author


class Require(Spec):
    """What the operator requires; an Application can be stricter, never weaker."""

    approval: Literal["Dangerous", "Moderate"] | None = Field(
        None, description="Class of plans from which approval is needed, also where the Application says `Never`."
    )
    approvers: RequiredApprovers = Field(
        default_factory=RequiredApprovers,
        description="Who approves and rejects; the Application's own approvers only narrow it; absent: any of those.",
    )
    viewers: Approvers = Field(
        default_factory=Approvers,
        description="Who sees the Application on the dashboard and in the API, besides the operators and approvers that"
        " are named here; absent: everyone who is signed in. Only that of its own policy counts.",
    )
    operators: Approvers = Field(
        default_factory=Approvers,
        description="Who requests syncs, suspends, resumes and reverts at the dashboard; absent: everyone who is signed"
        " in.",
    )
    signed_commits: bool = Field(
        False,
        description="Whether `source.verify.mode` must be `SignedCommits`; `signers` require signatures without it.",
    )
    signers: Annotated[tuple[Signer, ...], Field(strict=False)] = Field(
        (),
        description="Who may sign: each commit since the applied one has to be signed by keys that may sign all files"
        " that it changes, besides those of the Application; absent: as the Application says.",
    )
    service_accounts: Strings = Field(
        (), description="ServiceAccounts, one of which must be impersonated; absent: all, or none."
    )
    windows: Annotated[tuple[Window, ...], Field(strict=False)] = Field(
        (), description="Times in which syncs are allowed or denied, besides the windows of the Application."
    )
    read_only: bool = Field(False, description="Whether nothing is written: plans are only shown.")


def unmet(require: Require, app: Application) -> Iterator[str]:
    """Yield what an Application lacks, one line each."""
    if require.signed_commits and not require.signers and app.source.verify.mode != "SignedCommits":
        yield "spec.source.verify.mode: SignedCommits is required"
    account = app.destination.service_account
    accounts = require.service_accounts
    if accounts and not (account and any(matches(account, pattern) for pattern in accounts)):
        yield f"spec.destination.serviceAccountName: one of {', '.join(accounts)} is required"
