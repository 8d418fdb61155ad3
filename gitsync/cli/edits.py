"""Edits that a command proposes for an Application: proved by rendering, then a pull request, a branch or a patch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from gitsync.cli.adapters import InProcessRenderer
from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.options import GitTarget
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import audit_request, user_name
from gitsync.edit.adopt import Adoption, ClusterValue
from gitsync.errors import GitsyncError, InvalidInput, Refused
from gitsync.integrations.registry import Registries
from gitsync.objects.application import Application, parse_application
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import at
from gitsync.objects.ref import ObjectRef
from gitsync.plan.running import is_current, newest_digests
from gitsync.runtime.clock import SystemClock
from gitsync.services.adopt import AdoptService, ProposedAdoption, find_edits
from gitsync.services.updates import AppState, FoundUpdate, ImageRegistry, UpdatePorts, UpdateService


@dataclass(frozen=True, slots=True)
class EditOptions:
    """Where and as whom edits are committed; with ``dry_run`` they are only printed."""

    branch: str = ""
    author: str = ""
    reason: str = ""
    dry_run: bool = False

    @property
    def identity(self) -> str:
        """The author of the commit, by default the user of this machine."""
        user = user_name()
        return self.author or f"{user} <{user}@localhost>"


class CommandEdits:
    """The edits of one command, found in this process with the rights of its user."""

    def __init__(self, evaluator: Evaluator, target: GitTarget, registry: ImageRegistry | None = None) -> None:
        self._evaluator = evaluator
        self._target = target
        self._adopter = InProcessRenderer()
        self._proposals = AdoptService(evaluator.source, evaluator.hosts, evaluator.secrets.credentials)
        self.updates = UpdateService(
            UpdatePorts(
                evaluator.source,
                evaluator.renderer,
                self._adopter,
                self._proposals,
                lambda app: registry or Registries(partial(evaluator.secrets.registry_password, app)),
                SystemClock(),
                evaluator.secrets.credentials,
                evaluator.policies.of,
                self._state_of,
                lambda key, ref: evaluator.cluster.read(ref, VERSION),
                self._running,
            )
        )

    def _running(self, key: str, ref: ObjectRef) -> dict[str, str]:
        """Return the digests that a workload runs, nothing for a user who may not read it or its Pods."""
        with suppress(GitsyncError):
            workload = self._evaluator.cluster.read(ref, "v1") or {}
            labels = at(workload, "spec", "selector", "matchLabels", default={})
            if labels:
                selector = ",".join(f"{name}={value}" for name, value in labels.items())
                path = f"/api/v1/namespaces/{ref.namespace}/pods"
                pods = self._evaluator.client.get(path, {"labelSelector": selector})["items"]
                return newest_digests([pod for pod in pods if is_current(pod)])
        return {}

    def _state_of(self, key: str) -> AppState | None:
        namespace, _, name = key.partition("/")
        try:
            manifest = one_application(self._evaluator.client, namespace, name)
        except InvalidInput:  # it does not exist
            return None
        return AppState(parse_application(manifest), at(manifest, "status", default={}))

    def keep(self, app: Application, values: Sequence[ClusterValue], options: EditOptions) -> Exit:
        """Propose values of the cluster, and print what became of them."""
        credentials = self._evaluator.secrets.credentials(app)
        source = self._evaluator.source
        head = source.resolve(app.source, credentials)
        snapshot = source.snapshot(app.source, credentials, head)
        build = self._evaluator.renderer.render(app, snapshot)
        edits = find_edits(self._adopter, self._evaluator.renderer, app, snapshot, build, values)
        adoption = edits.adoption
        _print_values(adoption)
        if not adoption.values:
            return Exit.DIFFERENT
        self._audit(adoption, options)
        _print(
            self._proposals.propose(
                edits.app, edits.head, adoption, author=options.identity, reason=options.reason, branch=options.branch
            )
        )
        return Exit.DIFFERENT if adoption.refused else Exit.OK

    def propose(self, update: FoundUpdate, options: EditOptions) -> Exit:
        """Propose an update, and print what became of its values."""
        adoption = update.adoption
        _print_values(adoption)
        if not adoption.values:
            return Exit.DIFFERENT
        if update.refusal:
            raise Refused(update.refusal, object=f"Application {update.app.key}", hint="change it by hand")
        if options.dry_run:
            return Exit.DIFFERENT
        self._audit(adoption, options)
        _print(self.updates.propose(update, author=options.identity, reason=options.reason, branch=options.branch))
        return Exit.DIFFERENT if adoption.refused else Exit.OK

    def _audit(self, adoption: Adoption, options: EditOptions) -> None:
        # before the push: without its record it is not made
        audit_request(self._target, adoption.purpose.word, options.author or user_name(), options.reason)


def _print_values(adoption: Adoption) -> None:
    for kept, problem in adoption.refused:
        say(f"not taken: {kept.ref} {kept.path}: {problem}", "yellow", is_warning=True)
    for value in adoption.values:
        say(f"take: {value}", is_warning=True)


def _print(proposed: ProposedAdoption) -> None:
    if proposed.url:
        say(f"opened {proposed.url}")
    elif proposed.branch:
        say(f"pushed: {proposed.commit.id[:12]} {proposed.commit.subject} to {proposed.branch}")
    else:
        print(proposed.patch, end="")
