"""``gitsync set``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from gitsync.cli.builds import find_object
from gitsync.cli.change import repository_at_host
from gitsync.cli.dashboard import read_token
from gitsync.cli.options import command
from gitsync.cli.output import Exit, say
from gitsync.edit.engine import Edit, Editor, EditScope
from gitsync.edit.proof import ChangedField, EditRoot, EditTarget
from gitsync.errors import InvalidInput
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.objects.ref import ref_of
from gitsync.objects.remote import without_user
from gitsync.objects.tree import Tree
from gitsync.plan.mask import MASK, is_secret
from gitsync.preview.roots import find_roots
from gitsync.services.revert import open_pull
from gitsync.source.hosts.opening import page_url
from gitsync.source.local import open_path, repository_of
from gitsync.source.work_tree import Upstream, commit_files, push_branch, require_unchanged
from gitsync.workers.helm import HelmProgram

# a key in brackets may contain "="
_ASSIGNMENT = re.compile(r"((?:[^=\[]|\[[^\]]*\])+)=(.*)", re.DOTALL)


@command
def set(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, as for build.")],
    object: Annotated[str, typer.Argument(metavar="KIND/NAME", help="The object, by its rendered name.")],
    assignments: Annotated[list[str], typer.Argument(metavar="FIELD=VALUE...", help="Fields such as spec.replicas=3.")],
    also: Annotated[bool, typer.Option("--also", help="Change other environments that read the file too.")] = False,
    overlay: Annotated[
        bool, typer.Option("--overlay", help="Add a patch to the folder's own kustomization instead.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and write nothing.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Commit the change.")] = False,
    branch: Annotated[str, typer.Option(help="Commit the change on a new branch of this name.")] = "",
    pull_request: Annotated[
        bool, typer.Option("--pr", help="Push the branch, and open its pull request into the one that is checked out.")
    ] = False,
    token: Annotated[
        Path | None,
        typer.Option("--token-file", envvar="GITSYNC_GIT_TOKEN_FILE", help="The file with your token for its host."),
    ] = None,
) -> Exit:
    """Change the one value in a file that sets a field of a rendered object, and prove it by rendering."""
    target = open_path(path)
    top, _ = repository_of(Path(path).resolve())
    is_committed = commit or bool(branch) or pull_request
    if is_committed and top is None:
        raise InvalidInput("is not inside a Git repository, so nothing can be committed", location=path)
    deployed = _roots(target.tree) if top else ()
    folder = EditTarget(target.tree, _root_of(target.path, deployed), lambda: deployed, HelmProgram())
    files: dict[str, bytes] = {}
    position = -1
    subject = ""
    lines: list[str] = []
    for field, text in map(_parsed, assignments):
        # each assignment is made on the result of those before
        editor = Editor(folder.after(files))
        if position < 0:
            position = find_object(editor.build, object)
        manifest = editor.build.manifests[position]
        subject = str(ref_of(manifest))
        edit = editor.set(position, field, text, EditScope(also, overlay))
        files[edit.file] = edit.content
        for line in _lines(manifest, field, edit):
            say(line)
            lines.append(line)
    if dry_run:
        return Exit.OK
    message = f"Set {', '.join(_names(assignments))} of {subject} in {target.path or '.'}"
    if pull_request and top is not None:
        # before anything is written: without a host the branch would be left over
        proposal = _Proposal.at(top, target.tree, branch or f"gitsync/set-{content_hash([message, *lines])[:8]}")
        _write(top, files, message, is_committed=True, branch=proposal.branch)
        say(f"opened {proposal.open(message, lines, read_token(token))}")
    else:
        _write(top or Path("/"), files, message, is_committed=is_committed, branch=branch)
    return Exit.OK


def _page(url: str) -> str:
    """Return the page of a repository at its host, empty where it is at none."""
    try:
        return page_url(url).lower()
    except InvalidInput:
        return ""


_PUBLIC_HOSTS: Final = {"github.com": "GitHub", "gitlab.com": "GitLab", "codeberg.org": "Gitea"}


@dataclass(frozen=True, slots=True)
class _Proposal:
    """A branch to push and to open a pull request of; ``kind`` is the program of the host of its remote."""

    top: Path
    branch: str
    upstream: Upstream
    kind: str

    @classmethod
    def at(cls, top: Path, tree: Tree, branch: str) -> _Proposal:
        """Return that of a work tree; raise InvalidInput where the host of its remote is not known."""
        upstream = Upstream.of(top)
        # by page: a clone by SSH is at the host that the Application names by HTTPS
        page = _page(upstream.url)
        roots = find_roots(tree, lambda url: bool(page) and _page(url) == page)
        settings = (root.application.pull_requests for root in roots if root.application is not None)
        # what the controller uses, else what every user knows of the address
        kind = next((named.host for named in settings if named is not None), None) or _PUBLIC_HOSTS.get(
            str(urlsplit(page).hostname)
        )
        if kind is None:
            raise InvalidInput(
                f"it is not known which program the Git host of {without_user(upstream.url)} is",
                location="--pr",
                hint="set spec.pullRequests.host of an Application of this repository, or use --branch",
            )
        return cls(top, branch, upstream, kind)

    def open(self, title: str, lines: Sequence[str], token: str) -> str:
        """Push the branch, and return the page of its pull request."""
        push_branch(self.top, self.upstream.remote, self.branch)
        return open_pull(
            lambda: repository_at_host(self.upstream.url, self.kind, token),
            self.branch,
            self.upstream.branch,
            title,
            lines,
        )


def _parsed(assignment: str) -> tuple[tuple[str, ...], str]:
    match = _ASSIGNMENT.fullmatch(assignment)
    if match is None:
        raise InvalidInput(f"{assignment!r} is not of the form FIELD=VALUE", hint="write spec.replicas=3")
    return parse_path(match[1]), match[2]


def _names(assignments: Iterable[str]) -> list[str]:
    return [show_path(_parsed(assignment)[0]).removeprefix(".") for assignment in assignments]


def _roots(tree: Tree) -> tuple[EditRoot, ...]:
    """Return what the repository deploys; an Application of another one counts if its path is here too."""
    roots = find_roots(tree, lambda _: True)
    return tuple(dict.fromkeys(EditRoot(root.renders, root.application is not None).in_tree(tree) for root in roots))


def _root_of(path: str, deployed: Iterable[EditRoot]) -> EditRoot:
    """Return a folder, as the only Application of the repository that deploys it renders it."""
    own = [root for root in deployed if [render.path for render in root.renders] == [path]]
    return own[0] if len(own) == 1 else EditRoot.folder(path)


def _lines(manifest: Manifest, field: Sequence[str], edit: Edit) -> Iterable[str]:
    is_hidden = is_secret(ref_of(manifest)) and field[0] in ("data", "stringData")
    values = (MASK, MASK) if is_hidden else (_shown(edit.old), _shown(edit.new))
    yield f"{edit.file}:{edit.line}: {show_path(tuple(field))}: {' -> '.join(values)}"
    for other in edit.others:
        yield f"  also {other.object} {show_path(other.field)}: {_change(other)} ({other.root})"


def _change(difference: ChangedField) -> str:
    if difference.object.startswith("Secret "):
        return f"{MASK} -> {MASK}"
    return f"{_shown(difference.old)} -> {_shown(difference.new)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _write(top: Path, files: dict[str, bytes], message: str, *, is_committed: bool, branch: str) -> None:
    """Write the files; the tree outside Git is the whole disk."""
    if is_committed:
        # before a file is written: its other changes would be committed too
        require_unchanged(top, list(files))
    for file, content in files.items():
        (top / file).write_bytes(content)
    if is_committed:
        say(f"committed {commit_files(top, list(files), message, branch)}")
