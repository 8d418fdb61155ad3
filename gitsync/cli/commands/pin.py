"""``gitsync pin`` and ``gitsync unpin``."""

from __future__ import annotations

from gitsync.cli.applications import change_application, connect, one_application, pinned_from
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, say
from gitsync.cli.revisions import find_commit
from gitsync.errors import InvalidInput
from gitsync.objects.application import parse_application
from gitsync.objects.keys import PIN_MANAGER, PINNED_FROM
from gitsync.objects.manifest import at


def pin(name: str, namespace: str, revision: str, site: Target) -> Exit:
    """Make an Application follow one commit, and note on it what it followed before."""
    desk = Evaluator(site)
    manifest = one_application(desk.client, namespace, name)
    app = parse_application(manifest)
    followed = pinned_from(manifest) or app.source.revision
    commit = find_commit(desk, app, manifest, revision, followed)
    change_application(
        desk.client,
        namespace,
        name,
        PIN_MANAGER,
        annotations={PINNED_FROM: followed},
        spec={"source": {"revision": commit.id}},
    )
    say(f"{namespace}/{name} pinned to {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"newer commits of {followed} wait until: gitsync unpin {name}" + _option(namespace))
    return Exit.OK


def unpin(name: str, namespace: str, site: Target) -> Exit:
    """Make an Application follow again what it followed before it was pinned."""
    client = connect(site.kubeconfig)
    manifest = one_application(client, namespace, name)
    followed = pinned_from(manifest)
    if not followed:
        raise InvalidInput(
            f"is not pinned: it follows {at(manifest, 'spec', 'source', 'revision')}",
            object=f"Application {namespace}/{name}",
        )
    change_application(client, namespace, name, PIN_MANAGER, spec={"source": {"revision": followed}})
    say(f"{namespace}/{name} follows {followed} again")
    return Exit.OK


def _option(namespace: str) -> str:
    return f" -n {namespace}" if namespace != "gitsync" else ""
