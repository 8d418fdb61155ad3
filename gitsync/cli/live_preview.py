"""Compare a previewed change with a cluster: what a sync of the merge would write, drift included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitsync.cli.applications import all_applications, connect, one_application
from gitsync.cli.change import PreviewedChange
from gitsync.cli.comparison import Evaluator
from gitsync.cli.options import ClusterTarget, GitTarget
from gitsync.errors import GitsyncError
from gitsync.objects.application import parse_application
from gitsync.objects.change import Decision
from gitsync.preview.compare import Preview, RootChange
from gitsync.preview.effects import effects_of
from gitsync.preview.roots import Root
from gitsync.source.validation import clean_path


def known_roots(cluster: ClusterTarget, change: PreviewedChange) -> tuple[Root, ...]:
    """Return the folders of the repository that Applications of the cluster deploy, declared in it or not."""
    applications = (parse_application(manifest) for manifest in all_applications(connect(cluster.cluster)))
    return tuple(Root(clean_path(app.source.path), app) for app in applications if change.is_own(app.source.repo_url))


def live_changes(
    cluster: ClusterTarget, change: PreviewedChange, comparison: Preview, policies: Path | None
) -> Iterator[RootChange]:
    """Yield what a sync of the merge would write for each Application whose folder changes, drift included."""
    roots = {root for item in comparison.changes for root in item.roots if root.application}
    for root in sorted(roots, key=lambda item: item.name):
        app = root.application
        if app is None:
            continue
        target = GitTarget(
            kubeconfig=cluster.kubeconfig, data=cluster.data, name=app.name, namespace=app.namespace, policies=policies
        )
        try:
            evaluator = Evaluator(target)
            manifest = one_application(evaluator.client, app.namespace, app.name)
            evaluated = evaluator.evaluate_tree(manifest, change.result, root.path)
        except GitsyncError as error:  # the others are compared all the same
            yield RootChange((root,), problem=str(error))
            continue
        steps = tuple(evaluated.plan.outstanding)
        is_rejected = evaluated.verdict.decision is Decision.REFUSED
        violations = evaluated.verdict.reasons if is_rejected else ()
        yield RootChange((root,), steps, effects_of(steps, {}), violations, evaluated.traces)
