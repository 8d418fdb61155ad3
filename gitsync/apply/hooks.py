"""Hooks: objects that run before a sync, with it, after it, or when it failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from gitsync.apply.change import ApplyProgress, ApplyRequest, StepResult
from gitsync.apply.execute import Applier, live_object, missing_definitions
from gitsync.errors import Terminating, TransientError
from gitsync.kube.times import finish_of
from gitsync.objects.change import Action, Change
from gitsync.objects.health import Health
from gitsync.objects.keys import HOOK_RUN
from gitsync.objects.manifest import Manifest, annotations_of, has_generated_name, metadata_of, uid_of
from gitsync.objects.options import HookDelete, HookPhase, Options
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import options_of
from gitsync.plan.order import hook_stage
from gitsync.ports import Cluster, LiveCache


@dataclass(slots=True)
class HookRun:
    """
    How far one hook of one sync is.

    ``deleting_uid`` is the uid of the object whose deletion before the hook was accepted, ``uid`` of the one that runs.
    ``is_deleted`` is set once its delete policy was carried out, ``is_counted`` once the sync has counted its success.
    """

    deleting_uid: str = ""
    uid: str = ""
    result: StepResult | None = None
    is_deleted: bool = False
    is_counted: bool = False


HOOK_DELETION = "a hook that is over"
"""The reason of the deletion of a hook."""

HookRuns = dict[tuple[ObjectRef, HookPhase], HookRun]


def is_hook(change: Change) -> bool:
    """Whether the step is one of a hook, also where the hook does not run."""
    return change.desired is not None and bool(change.options.hooks)


class Hooks:
    """
    Run the hooks of a phase, wave by wave; each once in a sync, also after a crash: an annotation of a hook names the
    sync that started it.

    A hook is done when it is healthy (a Job: complete), and has failed when it is Degraded or disappears before it
    is done. Its delete policies apply; without one, the object of the last run is deleted before the next. A failed
    delete is retried by ``delete_completed``.
    """

    def __init__(self, applier: Applier, cluster: Cluster, live: LiveCache) -> None:
        self._applier = applier
        self._cluster = cluster
        self._live = live

    def run(self, request: ApplyRequest, runs: HookRuns, phase: HookPhase) -> ApplyProgress:
        """Start due hooks, poll running ones, and return the results that are not counted yet."""
        stage = hook_stage(phase)
        hooks = [change for change in request.plan.changes if change.stage == stage and is_hook(change)]
        results: list[StepResult] = []
        # the plan is in apply order, so hooks of one wave are neighbours
        for _, group in groupby(hooks, key=lambda change: change.wave):
            wave = tuple(group)
            undefined = missing_definitions(request, wave, self._cluster, self._live)
            # a hook may be a custom resource whose definition this very commit brings
            if undefined:
                return ApplyProgress(tuple(results), next(iter(undefined.values())))
            waiting = ""
            for change in wave:
                run = runs.setdefault((change.ref, phase), HookRun())
                if run.result is None:
                    waiting = self._advance(request, change, run, f"{request.sync}-{phase.value}") or waiting
                if run.result is not None and not run.is_counted:
                    results.append(run.result)
            if waiting or any(result.outcome is Outcome.FAILED for result in results):
                return ApplyProgress(tuple(results), waiting)
        return ApplyProgress(tuple(results))

    def stop(self, request: ApplyRequest, runs: HookRuns) -> None:
        """Delete the hooks that still run after the timeout."""
        # by uid: an object of the same name that another client created meanwhile stays
        late = {ref: run.uid for (ref, _), run in runs.items() if run.uid and run.result is None}
        self._delete(request, late)

    def delete_completed(self, request: ApplyRequest, runs: HookRuns) -> tuple[StepResult, ...]:
        """Delete the hooks that have ended and that their policies want gone, but for those that these runs deleted."""
        deleted = {ref for (ref, _), run in runs.items() if run.is_deleted}
        leftovers = {}
        # what the caches have may still show a hook that was deleted a moment ago
        for ref in {change.ref for change in request.plan.changes if is_hook(change)} - deleted:
            hook = live_object(request, ref, self._cluster, self._live)
            if hook is not None and _is_completed(request, ref, hook):
                leftovers[ref] = uid_of(hook)
        return tuple(self._delete(request, leftovers))

    def _advance(self, request: ApplyRequest, change: Change, run: HookRun, mark: str) -> str:
        """Take one hook a step further; return what it waits for, empty when it has ended."""
        if change.desired is None:
            raise ValueError(f"{change.ref}: a hook needs the desired object")
        options = change.options
        hook = live_object(request, change.ref, self._cluster, self._live)
        # after a restart the mark of the live object is all that tells that this sync has started it
        if not run.uid and hook is not None and annotations_of(hook).get(HOOK_RUN) == mark:
            run.uid = uid_of(hook)
        if run.uid:
            return self._watch(request, change, run, hook, options)
        is_over = hook is not None and _is_completed(request, change.ref, hook)
        if hook is not None and (is_over or _deletes_before_creation(change.desired, options)):
            # one delete for each object: while finalizers hold it, every reconcile comes by here
            if run.deleting_uid != uid_of(hook):
                (deleted,) = self._delete(request, {change.ref: uid_of(hook)})
                if isinstance(deleted.error, TransientError):
                    return f"the last {change.ref} to be deleted ({deleted.message})"
                if deleted.outcome is not Outcome.SUCCEEDED:
                    run.result = replace(deleted, change=change)
                    return ""
                run.deleting_uid = uid_of(hook)
                hook = live_object(request, change.ref, self._cluster, self._live)
            if hook is not None:
                return f"the last {change.ref} to be gone"
        done = self._applier.write(
            request, [replace(change, action=Action.HOOK, desired=_marked(change.desired, mark))]
        )[0]
        if isinstance(done.error, Terminating) and request.app.is_deleted:
            run.result = replace(done, outcome=Outcome.REFUSED)  # waiting for it would block its namespace forever
            return ""
        # not a failure of the hook: a webhook may time out, and the write is repeated with the same mark
        if isinstance(done.error, TransientError):
            return f"hook {change.ref} to be accepted ({done.message})"
        if done.outcome is Outcome.FAILED or done.live is None:
            run.result = done
            return ""
        run.uid = uid_of(done.live)
        return self._watch(request, change, run, done.live, options)

    def _watch(
        self, request: ApplyRequest, change: Change, run: HookRun, hook: Manifest | None, options: Options
    ) -> str:
        if hook is None or uid_of(hook) != run.uid:
            run.result = self._end_of(change, run.uid)
            run.is_deleted = True
            return ""
        status = request.health(change.ref, hook)
        if status.health is Health.PROGRESSING:
            return f"hook {change.ref} to finish"
        failed = status.health is Health.DEGRADED
        outcome = Outcome.FAILED if failed else Outcome.SUCCEEDED
        run.result = StepResult(change, outcome, f"{change.ref}: {status.message}" if failed else "")
        if _policy_for(status.health) in options.hook_delete:
            (deleted,) = self._delete(request, {change.ref: run.uid})
            run.is_deleted = deleted.outcome is Outcome.SUCCEEDED
        return ""

    def _end_of(self, change: Change, uid: str) -> StepResult:
        """Return how a hook ended that is gone: a TTL may delete a Job before a reconcile has observed it finished."""
        last = self._live.last_finished(change.ref)
        # not its health: what was being deleted is Progressing, however it ended
        finish = finish_of(last) if last is not None and uid_of(last) == uid else None
        if finish is None:
            return StepResult(change, Outcome.FAILED, f"{change.ref} disappeared before it was done")
        if not finish.succeeded:
            return StepResult(change, Outcome.FAILED, f"{change.ref} failed, and was deleted by its TTL")
        return StepResult(change, Outcome.SUCCEEDED)

    def _delete(self, request: ApplyRequest, uids: dict[ObjectRef, str]) -> list[StepResult]:
        changes = [
            Change(ref, Action.PRUNE, reason=HOOK_DELETION, live={"metadata": {"uid": uid}})
            for ref, uid in uids.items()
        ]
        return self._applier.write(request, changes)


def _is_completed(request: ApplyRequest, ref: ObjectRef, hook: Manifest) -> bool:
    """Whether a hook that we started has ended, and its policies want it gone, and it is not going yet."""
    if HOOK_RUN not in annotations_of(hook) or metadata_of(hook).get("deletionTimestamp"):
        return False
    health = request.health(ref, hook).health
    return health is not Health.PROGRESSING and _policy_for(health) in options_of(hook).hook_delete


def _policy_for(health: Health) -> HookDelete:
    return HookDelete.FAILED if health is Health.DEGRADED else HookDelete.SUCCEEDED


def _deletes_before_creation(hook: Manifest, options: Options) -> bool:
    """Whether the object of the last run goes first; one with a ``generateName`` runs again in each sync."""
    is_default = not options.hook_delete or has_generated_name(hook)
    return is_default or HookDelete.BEFORE_CREATION in options.hook_delete


def _marked(hook: Manifest, mark: str) -> Manifest:
    annotations = {**annotations_of(hook), HOOK_RUN: mark}
    return {**hook, "metadata": {**metadata_of(hook), "annotations": annotations}}
