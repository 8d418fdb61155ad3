"""
The errors that cross a package's boundary.

    GitsyncError
    ├── TransientError          the world may be better in a moment: requeue with backoff
    │   ├── SourceUnavailable     the Git server does not answer
    │   │   ├── SourceDenied          the Git server, or its host key, was not accepted: correct the credentials
    │   │   ├── SourceThrottled       the Git server limits the rate of requests
    │   │   └── FileNotFetched        a large file that the mirror lacks has to be fetched
    │   ├── ClusterUnavailable    the API server does not answer, or is overloaded
    │   │   └── GroupUnavailable      the aggregated API server of one group does not answer
    │   ├── Conflict              another writer was first: read and plan again
    │   │   ├── AlreadyExists       an object to create has the name of another one
    │   │   └── Terminating         the namespace is being deleted, and takes nothing new
    │   ├── RecordUnavailable     the history cannot be written, so nothing is applied
    │   └── UnexpectedError       a defect of gitsync: the log has the details
    └── TerminalError           the same input fails again: wait for another input
        ├── InvalidInput          what Git or the Application says cannot be used
        │   ├── EmptyRender         the path declares nothing at all: it is gone, or was emptied
        │   ├── MissingRevision       no branch or tag has the name of the revision, until one is pushed
        │   └── RemoteNeeded        a kustomization names files of another repository, which are not here
        ├── Refused               a policy says no
        │   └── AuditMismatch         the audit chain does not confirm a review
        ├── WrongState            the state of an object does not permit what a user requests of it
        └── Rejected              the API server says no to this object

Each is one line that a user can act on: where, which object, what, a hint. Adapters translate library
exceptions into these with ``raise … from``. Expected outcomes, such as a held plan, are values instead.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

_LIMIT = 1024


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, as users read it: ``1 object``, ``3 objects``."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def one_line(text: str, limit: int = _LIMIT) -> str:
    """Return the text as one printable line of at most ``limit`` characters; control characters are escaped."""
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text.strip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class GitsyncError(Exception):
    """
    What went wrong, where, for which object, and how to fix it.

    ``location`` is ``file:line`` or the path of a field; ``object`` one such as ``Deployment shop/web``.
    """

    def __init__(self, message: str, *, location: str = "", object: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.object = object
        self.hint = hint

    def __str__(self) -> str:
        place = "".join(f"{part}: " for part in (self.location, self.object) if part)
        return one_line(f"{place}{self.message}" + (f"; {self.hint}" if self.hint else ""))


_E = TypeVar("_E", bound=GitsyncError)


def detached(error: _E) -> _E:
    """
    Return an equal error without traceback, cause and context: what is kept, and what is raised again later.

    A traceback refers to the frames of the work that failed, and so to all that it had in memory. Kept there, an error
    is part of a cycle, which only a garbage collection frees.
    """
    copy = type(error).__new__(type(error))  # the constructors differ, and what they set is in __dict__
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy


OUTAGE_PAUSE = 10.0
"""Longest pause in seconds between attempts at what an outage stopped, so that all is as before soon after its end."""


class TransientError(GitsyncError):
    """A retry may succeed; ``retry_after`` is the delay in seconds that the server asked for, if any."""

    def __init__(
        self,
        message: str,
        *,
        location: str = "",
        object: str = "",
        hint: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, location=location, object=object, hint=hint)
        self.retry_after = retry_after


class SourceUnavailable(TransientError):
    """The Git server cannot be reached or did not answer in time."""


class SourceDenied(SourceUnavailable):
    """The Git server rejected the credentials, or its SSH host key is not trusted; another Secret corrects it."""


class SourceUntrusted(SourceDenied):
    """The certificate or SSH host key of the Git server is not trusted here: it was asked nothing."""


class SourceThrottled(SourceUnavailable):
    """The Git server limits the rate of requests."""


class FileNotFetched(SourceUnavailable):
    """
    A build reads a large file that the first fetch left out.

    ``git_dir`` is the mirror that lacks it, and ``id`` its object id, by which a part with credentials fetches it.
    """

    def __init__(self, message: str, *, location: str = "", object: str = "", hint: str = "") -> None:
        super().__init__(message, location=location, object=object, hint=hint)
        self.git_dir = ""
        self.id = ""


class ClusterUnavailable(TransientError):
    """The API server cannot be reached, did not answer in time, or asked for a delay."""


class GroupUnavailable(ClusterUnavailable):
    """
    The API server cannot read the objects of a group or kind, other ones are not affected.

    The aggregated API server of the group is down, or the conversion webhook of the kind.
    """


class Conflict(TransientError):
    """The object changed since it was read, or another field manager owns a field."""


class AlreadyExists(Conflict):
    """An object that was to be created exists already, and may be another writer's."""


class WebhookUnavailable(TransientError):
    """An admission webhook that the API server has to call for this object failed; other objects are not affected."""


class Terminating(Conflict):
    """The namespace of a new object is being deleted: it can be created once the namespace exists again."""


class RecordUnavailable(TransientError):
    """The history and audit database cannot be written."""


class UnexpectedError(TransientError):
    """
    A defect of gitsync: the type of the exception, and an id that is the same for the same cause and also in the log.

    It has no text of the exception, which may be a value of a Secret.
    """

    def __init__(self, kind: str, id: str) -> None:
        hint = f"the log of the controller has the details under {id}; please report them"
        super().__init__(f"gitsync has a defect ({kind}, id {id})", hint=hint)
        self.id = id


class TerminalError(GitsyncError):
    """The same input will fail again; wait until it changes."""


class InvalidInput(TerminalError):
    """Something in Git or in an Application cannot be used as it is."""


class EmptyRender(InvalidInput):
    """The path of an application declares nothing at all; for one that holds objects it would mean deleting them."""


class MissingRevision(InvalidInput):
    """No branch or tag has the name of a revision: a push may create it, so it is polled again soon."""


class RemoteNeeded(InvalidInput):
    """Files of another repository are needed; ``reference`` is their URL as it is written."""

    def __init__(self, message: str, *, location: str = "", object: str = "", hint: str = "") -> None:
        super().__init__(message, location=location, object=object, hint=hint)
        self.reference = ""


class Refused(TerminalError):
    """A policy of the operator forbids it."""


class WrongState(TerminalError):
    """The state of an object does not permit a request of a user: it changed since it was shown, or nothing waits."""


class AuditMismatch(Refused):
    """The audit chain does not confirm the review of a plan: a record was changed, removed or never written."""


class Cause(NamedTuple):
    """One field error of a Status: the type of the error (``FieldValueInvalid``), its message, and the field's path."""

    reason: str
    message: str
    field: str = ""


class Refusal(NamedTuple):
    """Why the API server refused a request: the reason of its Status (``Invalid``), and the errors of fields."""

    reason: str = ""
    causes: tuple[Cause, ...] = ()


_NOT_EXPLAINED = Refusal()


class Rejected(TerminalError):
    """The API server rejected the object, with an HTTP status ``code``; its fields are named by ``refusal``."""

    def __init__(
        self, message: str, *, object: str = "", hint: str = "", code: int = 0, refusal: Refusal = _NOT_EXPLAINED
    ) -> None:
        super().__init__(message, object=object, hint=hint)
        self.code = code
        self.refusal = refusal
