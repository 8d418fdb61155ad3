"""Open the pull request of a branch that was pushed for review."""

from __future__ import annotations

from gitsync.errors import GitsyncError, Refused
from gitsync.objects.application import Application
from gitsync.ports import Credentials
from gitsync.ports.hosts import CodeHosts, NewPullRequest
from gitsync.preview.markdown import fenced

_HEADS = "refs/heads/"


def open_review(
    hosts: CodeHosts, app: Application, credentials: Credentials, branch: str, title: str, lines: list[str]
) -> str:
    """
    Return the page of the pull request into the tracked branch, a new one where none is open.

    It is empty where the Application names no host. The lines are its text, as code: subjects, names and values in
    them neither mention users nor contain markup. Raise Refused where it cannot be opened: the branch stays.
    """
    tracked = app.source.revision.removeprefix(_HEADS)
    if app.pull_requests is None or branch == tracked:
        return ""
    try:
        host = hosts.host_of(app.source, app.pull_requests.host, credentials)
        # one may be open: of an update of its branch, or from before a crash
        for pull in host.pull_requests():
            if (pull.head_branch, pull.base_branch, pull.is_fork) == (branch, tracked, False):
                return pull.url
        return host.open_pull_request(NewPullRequest(branch, tracked, title, f"{fenced(lines, 'text')}\n")).url
    except GitsyncError as error:
        raise Refused(
            f"branch {branch} was pushed, but its pull request could not be opened: {error}", hint="open it at the host"
        ) from error
