"""Edits that a command proposes for an Application: proved by rendering, then a pull request, a branch or a patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gitsync.cli.comparison import Evaluator
from gitsync.cli.options import GitTarget
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import audit_request, user_name
from gitsync.edit.adopt import KEEP, Adoption, ClusterValue, EditPurpose
from gitsync.edit.adopt import adopt as adoption_of
from gitsync.edit.proof import EditTarget
from gitsync.errors import Refused
from gitsync.gate.policy import update_violations
from gitsync.objects.application import Application
from gitsync.objects.tree import Tree
from gitsync.plan.commit_effect import commit_effect, effect_risk
from gitsync.plan.normalize import desired_objects
from gitsync.preview.compare import cluster_scoped_kinds
from gitsync.preview.roots import find_roots
from gitsync.render.build import Build, build
from gitsync.services.adopt import AdoptService, ProposedAdoption
from gitsync.source.validation import clean_path
from gitsync.workers.helm import HelmProgram


@dataclass(frozen=True)
class EditedFolder:
    """The folder of an Application at a commit of its repository."""

    evaluator: Evaluator
    app: Application
    commit: str

    @classmethod
    def newest(cls, evaluator: Evaluator, app: Application) -> EditedFolder:
        """Return the folder at the newest commit of the branch that is followed."""
        return cls(evaluator, app, evaluator.source.resolve(app.source, evaluator.secrets.credentials(app)))

    @property
    def path(self) -> str:
        """The path of the folder in its repository."""
        return clean_path(self.app.source.path)

    @cached_property
    def tree(self) -> Tree:
        """The files of the commit."""
        source = self.evaluator.source
        return source.snapshot(self.app.source, self.evaluator.secrets.credentials(self.app), self.commit).tree

    @cached_property
    def build(self) -> Build:
        """What the folder renders to; raises InvalidInput where it does not."""
        source = self.app.source
        return build(self.tree, self.path, renderer=source.renderer, chart=self.app.chart, helm=HelmProgram())

    def _roots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.path, *(root.path for root in find_roots(self.tree, lambda _: True)))))

    def propose(
        self, target: GitTarget, values: Sequence[ClusterValue], purpose: EditPurpose, options: EditOptions
    ) -> Exit:
        """Propose the edits that give fields these values, and print what became of them."""
        found = adoption_of(
            EditTarget(self.tree, self.path, self._roots, HelmProgram()), values, self.app.destination.namespace
        )
        adoption = replace(found, purpose=purpose)
        for kept, problem in adoption.refused:
            say(f"not taken: {kept.ref} {kept.path}: {problem}", "yellow", is_warning=True)
        if not adoption.values:
            return Exit.DIFFERENT
        for value in adoption.values:
            say(f"take: {value}", is_warning=True)
        if purpose is not KEEP:
            self._check_bounds(adoption)
        if options.dry_run:
            return Exit.DIFFERENT
        user = user_name()
        # before the push: without its record it is not made
        audit_request(target, purpose.word, options.author or user, options.reason)
        service = AdoptService(self.evaluator.source, self.evaluator.hosts, self.evaluator.secrets.credentials)
        identity = options.author or f"{user} <{user}@localhost>"
        _print(
            service.propose(
                self.app, self.commit, adoption, author=identity, reason=options.reason, branch=options.branch
            )
        )
        return Exit.DIFFERENT if adoption.refused else Exit.OK

    def _check_bounds(self, adoption: Adoption) -> None:
        """Raise Refused for edits that the operator's policies do not let an update propose."""
        edited = EditTarget(self.tree, self.path, self._roots, HelmProgram()).after(adoption.files)
        manifests = edited.build(edited.tree, self.path).manifests
        cluster_scoped = cluster_scoped_kinds((*self.build.manifests, *manifests))
        old, new = (
            desired_objects(self.app, side, lambda of: of not in cluster_scoped).values()
            for side in (self.build.manifests, manifests)
        )
        risk = effect_risk(commit_effect(old, new, self.app))
        policy = self.evaluator.policies.of(self.app)
        reasons = list(update_violations(policy, self.app, adoption.files, risk))
        if reasons:
            raise Refused("; ".join(reasons), object=f"Application {self.app.key}", hint="change it by hand")


@dataclass(frozen=True, slots=True)
class EditOptions:
    """Where and as whom edits are committed; with ``dry_run`` they are only printed."""

    branch: str = ""
    author: str = ""
    reason: str = ""
    dry_run: bool = False


def _print(proposed: ProposedAdoption) -> None:
    if proposed.url:
        say(f"opened {proposed.url}")
    elif proposed.branch:
        say(f"pushed: {proposed.commit.id[:12]} {proposed.commit.subject} to {proposed.branch}")
    else:
        print(proposed.patch, end="")
