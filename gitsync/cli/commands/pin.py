"""``gitsync pin`` and its inverse, ``gitsync unpin``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.applications import change_application, connect, one_application, pinned_from
from gitsync.cli.errors import exit_on_error
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.identity import audit_request, user_name
from gitsync.cli.options import DATA, NAMESPACE, Data, FileUrls, Kubeconfig, Name, Namespace, Reason, Requester, Target
from gitsync.cli.output import Exit, say
from gitsync.cli.revisions import find_commit
from gitsync.errors import InvalidInput
from gitsync.objects.application import parse_application
from gitsync.objects.keys import PIN_MANAGER, PINNED_FROM
from gitsync.objects.manifest import at


@exit_on_error
def pin(
    name: Name,
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="A commit, the number of a sync, a branch or a tag.")
    ],
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
) -> Exit:
    """Follow one commit until unpinned, whatever the branch does."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data, file_urls=allow_file_urls)
    evaluator = Evaluator(target)
    manifest = one_application(evaluator.client, namespace, name)
    followed = pinned_from(manifest) or parse_application(manifest).source.revision
    commit = find_commit(evaluator, manifest, revision, followed)
    audit_request(target, "pin", user_name(by, "--by"), reason, commit=commit.id)
    change_application(
        evaluator.client,
        target,
        PIN_MANAGER,
        annotations={PINNED_FROM: followed},
        spec={"source": {"revision": commit.id}},
    )
    option = f" -n {namespace}" if namespace != NAMESPACE else ""
    say(f"{target.key} pinned to {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"newer commits of {followed} are not applied until: gitsync unpin {name}{option}")
    return Exit.OK


@exit_on_error
def unpin(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Follow the revision again that was followed before the pin."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data)
    client = connect(target.cluster)
    manifest = one_application(client, namespace, name)
    followed = pinned_from(manifest)
    if not followed:
        raise InvalidInput(
            f"is not pinned: it follows {at(manifest, 'spec', 'source', 'revision')}",
            object=f"Application {target.key}",
        )
    audit_request(target, "unpin", user_name(by, "--by"), reason)
    change_application(client, target, PIN_MANAGER, spec={"source": {"revision": followed}})
    say(f"{target.key} follows {followed} again")
    return Exit.OK
