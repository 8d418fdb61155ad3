"""The report of a preview: the document that the command, the API and comments at a Git host show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gitsync.objects.application import SourceGroup
from gitsync.objects.change import ABSENT, DRIFT, Change, FieldDifference
from gitsync.objects.keys import APPLICATION_LABEL, TRACKING_ID
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.plan.display import changes_in, inner_lines, whole_object
from gitsync.plan.mask import json_value
from gitsync.preview.compare import Preview, RootChange
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import place

AuthorsOf = Callable[[Collection[str]], Mapping[str, Commit]]
"""The commits that wrote lines, by ``file:line``; lines of which that is not known are left out."""

_MARKS = (APPLICATION_LABEL, TRACKING_ID)
"""Labels and annotations that the controller adds: they are in no file of the change."""


class _Model(BaseModel):
    # By name, since aliases such as ``from`` are keywords of Python.
    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)


class TextLine(_Model):
    """A line of a long text: ``-`` before, ``+`` after, a space for context, ``…`` for lines that are left out."""

    mark: str
    text: str


class InnerChange(_Model):
    """A place inside a value that is replaced as a whole."""

    path: str = Field(description="Path below the field.")
    before: Any = Field(None, alias="from")
    after: Any = Field(None, alias="to")


class ReportedField(_Model):
    """A field with another value."""

    path: str = Field(description='Field as the API server spells it: `.spec.containers[name="a"].image`.')
    before: Any = Field(None, alias="from", description="Value before; null where the field is absent.")
    after: Any = Field(None, alias="to", description="Value after; null where the field is absent.")
    where: str = Field("", description="`file:line` of the new value; empty where no file sets it.")
    commit: str = Field("", description="Commit that wrote this line.")
    author: str = Field("", description="Author of that commit.")
    inside: tuple[InnerChange, ...] = Field((), description="What differs inside a list or mapping.")
    lines: tuple[TextLine, ...] = Field((), description="What differs in a text of several lines, such as a prompt.")


class ReportedStep(_Model):
    """An object that changes."""

    action: str = Field(description="create, update or prune.")
    object: str = Field(description="Kind, namespace and name.")
    risk: str = Field(alias="class", description="Safe, Moderate or Dangerous.")
    rule: str = Field(description="Rule that decided the class.")
    reason: str = Field(description="Why, in words.")
    replaces: str = Field("", description="Object of another generated name that it replaces.")
    where: str = Field("", description="`file:line` of a new object.")
    fields: tuple[ReportedField, ...] = ()
    content: dict[str, Any] | None = Field(None, description="The object that is created or deleted.")


class ReportedEffect(_Model):
    """What the change does to Pods, data or requested resources."""

    text: str
    is_loss: bool = Field(False, alias="loss", description="Whether a revert cannot undo it.")


class ReportedChange(_Model):
    """What changes in one deployed folder, or in the same way in several; the steps are those of the first."""

    roots: tuple[str, ...] = Field(description="Paths of the folders.")
    applications: tuple[str, ...] = Field((), description="Applications that deploy them, `namespace/name`.")
    risk: str = Field(alias="class", description="Highest class of the steps.")
    problem: str = Field("", description="Why the folder cannot be built after the change.")
    base_problem: str = Field("", alias="baseProblem", description="Why it could not be built before the change.")
    violations: tuple[str, ...] = Field((), description="What the operator's policies reject.")
    effects: tuple[ReportedEffect, ...] = ()
    steps: tuple[ReportedStep, ...] = ()
    plans: dict[str, str] = Field({}, description="A hash of what the plan of each Application will do, by its key.")


class ReportedRefusal(_Model):
    """What an API server refuses of a change or of its revert, or what a revert does not bring back."""

    folder: str
    object: str = Field(description="Kind, namespace and name.")
    step: str = Field(description="apply, prune or revert.")
    problem: str = Field(description="Why, in the API server's words.")
    where: str = Field("", description="`file:line` of the object.")


class ReportedRehearsal(_Model):
    """What became of a change in a sandbox; it never says that a change will be healthy."""

    refusals: tuple[ReportedRefusal, ...] = ()
    not_judged: tuple[str, ...] = Field(
        (), alias="notJudged", description="Kinds that no folder of the change defines, and what could not be read."
    )

    @property
    def is_valid(self) -> bool:
        """Whether the change itself is accepted; a revert that brings less back is for the reviewer to judge."""
        return all(refusal.step == "revert" for refusal in self.refusals)


class PreviewReport(_Model):
    """What a change will do."""

    base: str = Field(description="Commit that it is merged into.")
    head: str = Field(description="Commit that is merged.")
    risk: str = Field(alias="class", description="Highest class of all steps.")
    covered: tuple[str, ...] = Field(description="Deployed folders that were found.")
    unchanged: tuple[str, ...] = Field(description="Those in which nothing changes.")
    changes: tuple[ReportedChange, ...] = ()
    live: tuple[ReportedChange, ...] = Field(
        (), description="With --live: what a sync of the merge would do in the cluster, by Application."
    )
    rehearsal: ReportedRehearsal | None = Field(
        None, description="With --rehearse: what an API server in a sandbox refuses of the change and of its revert."
    )

    @property
    def is_valid(self) -> bool:
        """Whether every folder can be built, no policy rejects it, and no step was refused in a rehearsal."""
        is_accepted = self.rehearsal is None or self.rehearsal.is_valid
        return is_accepted and not any(change.problem or change.violations for change in (*self.changes, *self.live))


def report_of(preview: Preview, base: str, head: str, authors_of: AuthorsOf) -> PreviewReport:
    """Return the report of a preview between two commits, with the authors of the lines of new values."""
    of_one = (change for change in preview.changes if not _is_joined(change))
    traces = (setters for change in of_one for fields in change.traces.values() for setters in fields.values())
    places = {place(setters) for setters in traces}
    authors = authors_of(places - {""})
    changed = {root for change in preview.changes for root in change.roots}
    return PreviewReport(
        base=base,
        head=head,
        risk=preview.risk.value,
        covered=tuple(root.name for root in preview.covered),
        unchanged=tuple(root.name for root in preview.covered if root not in changed),
        changes=tuple(_change(change, {} if _is_joined(change) else authors) for change in preview.changes),
    )


def _is_joined(change: RootChange) -> bool:
    """Return whether the files of a change are those of several sources: the repository has others by these names."""
    app = change.roots[0].application
    return app is not None and isinstance(app.source, SourceGroup)


def with_live(report: PreviewReport, changes: Iterable[RootChange]) -> PreviewReport:
    """Return a report with what a sync of the merge would do in the cluster."""
    return report.model_copy(update={"live": tuple(_change(change, {}) for change in changes)})


def with_rehearsal(report: PreviewReport, rehearsal: ReportedRehearsal) -> PreviewReport:
    """Return a report with what a rehearsal found."""
    return report.model_copy(update={"rehearsal": rehearsal})


def _change(change: RootChange, authors: Mapping[str, Commit]) -> ReportedChange:
    return ReportedChange(
        roots=tuple(root.places for root in change.roots),
        applications=tuple(root.application.key for root in change.roots if root.application),
        risk=change.risk.value,
        problem=change.problem,
        base_problem=change.base_problem,
        violations=change.violations,
        effects=tuple(ReportedEffect(text=effect.text, is_loss=effect.is_loss) for effect in change.effects),
        steps=tuple(_step(step, change.traces.get(step.ref, {}), authors) for step in change.steps),
        plans=dict(change.plans),
    )


def _step(step: Change, traces: Mapping[str, Sequence[FieldSetter]], authors: Mapping[str, Commit]) -> ReportedStep:
    fields = (item for item in step.differences if item.kind in DRIFT)
    whole = whole_object(step)
    return ReportedStep(
        action=step.action.value,
        object=str(step.ref),
        risk=step.risk.value,
        rule=step.rule,
        reason=step.reason,
        replaces=str(step.follows) if step.follows else "",
        where=place(traces.get("", ())),
        fields=tuple(_field(step, item, traces.get(item.path, ()), authors) for item in fields),
        content=_without_marks(whole.live if whole.desired is ABSENT else whole.desired) if whole else None,
    )


def _field(
    step: Change, difference: FieldDifference, setters: Sequence[FieldSetter], authors: Mapping[str, Commit]
) -> ReportedField:
    where = place(setters)
    commit = authors.get(where, Commit(""))
    lines = inner_lines(difference.live, difference.desired)
    # A text of several lines is shown by lines: one that holds JSON would be shown twice.
    inside = () if lines else changes_in(difference, step.live)
    return ReportedField(
        path=difference.path,
        before=json_value(difference.live),
        after=json_value(difference.desired),
        where=where,
        commit=commit.id,
        author=commit.author,
        inside=tuple(
            InnerChange(path=item.path, before=json_value(item.live), after=json_value(item.desired)) for item in inside
        ),
        lines=tuple(TextLine(mark=line.mark, text=line.text) for line in lines),
    )


def _without_marks(manifest: Manifest) -> dict[str, Any]:
    """Return an object as its files declare it, without the labels and annotations of the controller."""
    metadata = dict(manifest.get("metadata") or {})
    for member in ("labels", "annotations"):
        entries = {key: value for key, value in (metadata.get(member) or {}).items() if key not in _MARKS}
        metadata.pop(member, None)
        if entries:
            metadata[member] = entries
    return {**manifest, "metadata": metadata}
