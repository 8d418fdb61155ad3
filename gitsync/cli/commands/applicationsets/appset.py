"""``gitsync appset``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.applicationsets.changes import changes
from gitsync.applicationsets.expand import expand
from gitsync.applicationsets.model import parse_application_set
from gitsync.cli.applications import all_applications, connect
from gitsync.cli.commands.applicationsets.sets import (
    all_sets,
    approve_deletions,
    one_set,
    preview_rows,
    read_set,
    row_of,
)
from gitsync.cli.errors import exit_on_error
from gitsync.cli.identity import audit_request, user_name
from gitsync.cli.options import DATA, NAMESPACE, AnyNamespace, Data, Kubeconfig, Output, Reason, Requester, Target
from gitsync.cli.output import Exit, Format, say, show
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.source.local import open_path

appset = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Preview and list ApplicationSets, and approve their deletions."
)
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the ApplicationSet.")]


@appset.command()
@exit_on_error
def preview(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with the ApplicationSet.")],
    repo: Annotated[str, typer.Option("--repo", help="The folder that Git generators read, instead of Git.")] = ".",
    live: Annotated[bool, typer.Option("--live", help="Compare with the Applications of the cluster.")] = False,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Print what a set would create, change and delete. Exit code 1: with `--live`, it would change something."""
    manifest, known = read_set(file, namespace), dict[str, Manifest]()
    if live:
        client = connect(Target(kubeconfig=kubeconfig, data=data).cluster)
        place, name = metadata_of(manifest)["namespace"], str(metadata_of(manifest).get("name"))
        uid = uid_of(one_set(client, place, name) or {})
        manifest = {**manifest, "metadata": {**metadata_of(manifest), "uid": uid}}
        known = {str(at(one, "metadata", "name")): one for one in all_applications(client, place)}
    given = parse_application_set(manifest)
    tree = open_path(repo).tree
    found = expand(given, lambda git: tree)
    rows = list(preview_rows(found, changes(given, found, known)))
    show(rows, ("action", "name", "element", "path"), output, key="name")
    return Exit.DIFFERENT if live and any(row["action"] != "keep" for row in rows) else Exit.OK


@appset.command("list")
@exit_on_error
def list_sets(
    namespace: AnyNamespace = "", output: Output = Format.TABLE, kubeconfig: Kubeconfig = "", data: Data = DATA
) -> Exit:
    """List ApplicationSets with their state. Exit code 1: one is not Ready."""
    rows = [row_of(one) for one in all_sets(connect(Target(kubeconfig=kubeconfig, data=data).cluster), namespace)]
    columns = ("namespace", "name", "applications", "ready", "reason", "message")
    show(rows, columns, output, key=("namespace", "name"))
    return Exit.OK if all(row["ready"] == "True" for row in rows) else Exit.DIFFERENT


@appset.command()
@exit_on_error
def approve(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The ApplicationSet.")],
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Approve the deletions of Applications that wait, exactly these. Exit code 2: none wait."""
    target = Target(name=f"applicationset:{name}", namespace=namespace, kubeconfig=kubeconfig, data=data)
    client, subject = connect(target.cluster), f"ApplicationSet {namespace}/{name}"
    held = at(one_set(client, namespace, name), "status", "heldDeletions")
    if not held:
        raise InvalidInput("no deletions wait for approval", object=subject, hint="list sets by gitsync appset list")
    audit_request(target, "appset approve", user_name(by, "--by"), reason)
    approve_deletions(client, namespace, name, held["id"])
    say(f"{subject}: approved the deletion of {held['count']} Applications: {', '.join(held['names'])}")
    return Exit.OK
