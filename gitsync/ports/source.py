"""Git and rendering: read commits, push reverts, render a path of a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gitsync.errors import FileNotFetched
from gitsync.objects.application import Application, GitSource, NamedSource, SourceGroup
from gitsync.objects.charts import ChartOptions
from gitsync.objects.record import Commit
from gitsync.objects.signers import Trust
from gitsync.objects.tree import Tree
from gitsync.render.build import Build
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.secrets import DecryptionKeys, WrappedKey

FetchFile = Callable[[str], None]
"""Fetch a file of a repository by its object id; raise SourceUnavailable where that fails."""

CREDENTIALS_SECRET = "the Secret of spec.source.credentials"
"""How errors of a source name the Secret with the credentials; the engine knows its name."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """
    How to sign in at a Git server; empty members are not used. Never logged, never in an error.

    ``ca`` are the certificates (PEM) that are trusted instead of the system's. A GitHub App signs in by its id, the id
    of its installation and its private key (PEM). ``token`` is for the API of the Git host, where git needs another.
    """

    username: str = ""
    password: str = ""
    ssh_key: str = ""
    known_hosts: str = ""
    ca: str = ""
    app_id: str = ""
    app_installation: str = ""
    app_key: str = ""
    token: str = ""
    signing_key: str = ""
    """The private SSH key that signs the commits of gitsync."""
    parts: tuple[Credentials, ...] = ()
    """Those of each of several sources, in their order, where these are for all of them."""

    # the members are secrets, and a repr ends in logs and tracebacks
    def __repr__(self) -> str:
        return "Credentials(…)"


@dataclass(frozen=True, slots=True)
class RemoteBase:
    """A folder in another repository that a kustomization names: the reference as written, and the commit."""

    reference: str
    mount: str
    """Where the files of the repository are among those of the build."""
    folder: str
    commit: str
    tree: Tree
    git_dir: str
    fetch_file: FetchFile | None = None


@dataclass(frozen=True, slots=True)
class SourcePart:
    """One of several sources: the folder of its repository, and its commit in a joined one."""

    source: NamedSource
    git_dir: str
    commit: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The files of one commit. ``warnings`` are things left out on purpose, such as submodules.

    ``remotes`` are folders in other repositories; the tree has their files too. ``fetch_file`` fetches a large file
    that a reader of ``git_dir`` without credentials lacks; the tree does so by itself. ``tenant`` is the namespace of
    the Application, by which renders that wait are ordered; ``max_objects`` is how many objects it may declare.
    """

    commit: Commit
    tree: Tree
    git_dir: str
    warnings: tuple[str, ...] = ()
    remotes: tuple[RemoteBase, ...] = ()
    # files above 1 MiB may be missing in a mirror until they are read (decision 0026)
    fetch_file: FetchFile | None = None
    tenant: str = ""
    max_objects: int = 10**9
    parts: tuple[SourcePart, ...] = ()
    """Where the commit joins those of several sources."""
    joined: tuple[Snapshot, ...] = ()
    """The commits of several sources, of which this is one, that a preview reads beside it."""

    def fetch(self, missing: FileNotFetched) -> bool:
        """Fetch a file into the mirror that lacks it; return False where that one belongs to no part of this."""
        places: tuple[Snapshot | RemoteBase, ...] = (self, *self.remotes, *self.joined)
        # by folder: the error names the mirror that lacks the file, and each repository has one
        for part in places:
            if part.git_dir == missing.git_dir and part.fetch_file is not None:
                part.fetch_file(missing.id)
                return True
        return False


@dataclass(frozen=True, slots=True)
class Tag:
    """An annotated tag: the id of its object, and its name without ``refs/tags/``."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class SourceRevision:
    """A commit whose signatures are verified, the folder that is rendered, and the commit that was applied before."""

    git_dir: str
    commit: str
    path: str = ""
    since: str = ""
    tag: Tag | None = None
    digest: str = ""
    """The digest of an artifact, whose signatures are in the mirror beside it; empty for a commit of Git."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A commit that changed a file, and the content of the file in it."""

    commit: Commit
    content: bytes


@dataclass(frozen=True, slots=True)
class RevertResult:
    """A revert that was pushed: the new commit, the branch it went to, and its pull request, empty without one."""

    commit: Commit
    branch: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The commits that are merged, the commit that has the result, and the paths that it changes in the base."""

    base: str
    head: str
    commit: str
    changed: frozenset[str]
    tree: str = ""
    """The id of the files of the result, which every way of merging has."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """
    New contents of files on top of a commit.

    ``author`` is ``Name <mail>`` or a name; without a ``branch`` nothing is pushed. A branch that exists is used only
    where its newest commit has the last line of the message too: with the same files nothing is pushed again, with
    others only where the edit ``updates`` it. With ``is_direct`` the branch is the tracked one: the commit becomes its
    head, unless that has moved.
    """

    head: str
    files: Mapping[str, bytes]
    message: str
    author: str
    branch: str = ""
    updates: bool = False
    is_direct: bool = False

    @property
    def trailer(self) -> str:
        """The last line of the message, which tells for whom and why the edit is made."""
        return self.message.rstrip().rpartition("\n")[2]


@dataclass(frozen=True, slots=True)
class ArtifactAccess:
    """
    An artifact at its server: a chart (``helm+https://HOST/PATH/CHART``) or an OCI repository (``oci://HOST/NAME``).

    ``authorities`` are the trusted certificates (PEM), empty for those of the system. The hosts in ``plain``, as
    ``host:port``, are reached over HTTP; no other one is, and credentials go to the host of the URL alone.
    """

    url: str
    credentials: Credentials
    authorities: str = ""
    plain: Callable[[str], bool] = lambda url: False
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact: its tag or version, and the digest (``sha256:…``) by which its server has it."""

    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class PulledArtifact:
    """
    The content of an artifact: a tar archive, with or without gzip, whose digest was compared.

    ``created`` and ``revision`` are what its author recorded: seconds since 1970, and the commit it was made from.
    """

    archive: bytes
    is_chart: bool
    created: int = 0
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactSignature:
    """
    What a registry has as a signature of an artifact, not verified: the signed statement, and the signature.

    ``payload_type`` is that of the DSSE envelope around the statement; empty: the statement is signed as it is.
    """

    statement: bytes
    signature: bytes
    payload_type: str = ""


class ArtifactServers(Protocol):
    """
    Read charts of Helm repositories and artifacts of OCI registries. Called by the mirrors of ``Source``.

    Each method raises SourceUnavailable where the server does not answer or refuses, InvalidInput for an answer that
    no retry corrects.
    """

    def versions(self, access: ArtifactAccess) -> Mapping[str, str]:
        """Return the versions or tags with their digests, empty where finding that takes another request."""
        ...

    def find(self, access: ArtifactAccess, version: str) -> Artifact:
        """Return what a version, a tag or a digest names now; raise MissingRevision where there is none."""
        ...

    def pull(self, access: ArtifactAccess, artifact: Artifact, max_bytes: int) -> PulledArtifact:
        """Return the content; raise InvalidInput where it is not what the digest names, or larger."""
        ...

    def signatures(self, access: ArtifactAccess, digest: str) -> tuple[ArtifactSignature, ...]:
        """Return what the server has as signatures of an artifact, none where its kind of server keeps none."""
        ...


class EditSource(Protocol):
    """Commit edits of files. Called where a user takes values of the cluster back into Git."""

    def edit(self, source: GitSource, credentials: Credentials, edit: FileEdit) -> tuple[Commit, str]:
        """
        Return a commit with new contents of files and its patch; push it where the edit names a branch.

        Raise Refused where nothing would change, or the server rejects the push.
        """
        ...

    def edited_branch(self, source: GitSource, credentials: Credentials, branch: str, trailer: str) -> str:
        """
        Return the head of a branch whose newest commit is an edit with this last line, empty for any other branch.

        The last answer of the server counts, so that a branch that does not exist costs no request.
        """
        ...

    def delete_branch(self, source: GitSource, credentials: Credentials, branch: str, head: str) -> None:
        """Delete a branch that still has this head, or is gone; raise Refused where it moved, or by the server."""
        ...

    def messages(self, source: GitSource, commit: str, text: str, *, limit: int) -> tuple[str, ...]:
        """Return the messages with a text of a commit and of all before it, newest first, from the mirror."""
        ...


class ProposalSource(Protocol):
    """Read branches that are proposed for another one. Called by the controller of pull requests."""

    def branches(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> Mapping[str, str]:
        """Return the commits of all branches by name; an answer at most ``max_age`` seconds old may be used."""
        ...

    def merge(
        self, source: GitSource, credentials: Credentials, base: str, head: str, *, ref: str = ""
    ) -> tuple[MergeResult, Snapshot]:
        """
        Return the merge of a head into a base, both commits, and its files; they are fetched if need be.

        ``ref`` names the head at servers that give out no commit by its id. Nothing is pushed. Raise Refused where the
        two conflict.
        """
        ...

    def merge_among(
        self,
        group: SourceGroup,
        credentials: Credentials,
        names: Collection[str],
        merge: MergeResult,
        *,
        max_age: float,
    ) -> tuple[MergeResult, Snapshot]:
        """
        Return a merge in the repository of some of several sources as one of commits that join all, and its files.

        The other sources are at the commits that their revisions name now.
        """
        ...

    def commits(self, source: GitSource, commit: str, *, limit: int = 20) -> tuple[Commit, ...]:
        """Return the commit and its first parents, newest first, from the mirror."""
        ...

    def tree(self, source: GitSource, credentials: Credentials, commit: str) -> str:
        """Return the id of the files of a commit, which is fetched if need be."""
        ...

    def authors(self, source: GitSource, earlier: str, later: str) -> frozenset[str]:
        """Return who wrote a commit and those since an earlier one; see ``Source``."""
        ...


class Source(Protocol):
    """
    Read commits of Git repositories, one shared mirror per URL, and push reverts.

    Called at the start of each reconcile (check, resolve, snapshot), and by the revert and history services.
    """

    def check(self, source: GitSource) -> None:
        """Raise InvalidInput when the URL, revision or path may not be used; touches nothing outside."""
        ...

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        """
        Return the full id of the commit that the revision names now.

        An answer or failure of the server at most ``max_age`` seconds old may be used, so applications share polls.
        Raise SourceUnavailable when the server does not answer, InvalidInput when the revision does not exist.
        """
        ...

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> Snapshot:
        """
        Return the files of a commit, fetched if need be.

        A failure of the server at most ``max_age`` seconds old may be raised again, so applications share failures.
        """
        ...

    def tag(self, source: GitSource, credentials: Credentials, commit: str) -> Tag | None:
        """Return the annotated tag by which the revision names a commit, fetched if need be; None for any other."""
        ...

    def fetch_signatures(self, source: GitSource, credentials: Credentials, commit: str) -> str:
        """Fetch the signatures of an artifact into its mirror and return its digest, empty for a commit of Git."""
        ...

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        """Fetch a commit into the mirror unless it is there; failures are shared as by ``snapshot``."""
        ...

    def changed_paths(self, source: GitSource, earlier: str, later: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits of the mirror; None when that is not known."""
        ...

    def is_forward(self, source: GitSource, earlier: str, later: str) -> bool:
        """
        Tell whether the revision may have moved from one commit to another without a rewritten branch.

        False only for a branch whose new commit, which is in the mirror, does not contain the earlier one; tags,
        ranges and commit ids may move to any commit.
        """
        ...

    def authors(self, source: GitSource, earlier: str, later: str) -> frozenset[str]:
        """
        Return names and e-mail addresses of authors and committers of a commit, and of those since an earlier one.

        An empty ``earlier``, or one that is not in the mirror, adds none. Raise SourceUnavailable when the mirror
        cannot be read.
        """
        ...

    def signing_users(self, source: GitSource, earlier: str, later: str, trust: Trust) -> frozenset[str]:
        """
        Return the users of the signers whose keys signed a commit, or one of those since an earlier one.

        Raise SourceUnavailable when the mirror cannot be read.
        """
        ...

    # bounded in time: a page waits for it, and the history of a line may be long
    def blame(self, source: GitSource, commit: str, places: Collection[str]) -> Mapping[str, Commit]:
        """
        Return the commits that wrote lines, by ``file:line`` as of a commit of the mirror; nothing is fetched.

        Lines that cannot be read within a second are left out.
        """
        ...

    def file_versions(
        self, source: GitSource, commit: str, files: Collection[str]
    ) -> Mapping[str, tuple[FileVersion, ...]]:
        """
        Return the latest versions of files as of a commit of the mirror, newest first; nothing is fetched.

        There are at most 20 of a file, of at most 64 KiB each; those that cannot be read within a second are left out.
        """
        ...

    def commits(self, source: GitSource, commit: str, *, limit: int = 20) -> tuple[Commit, ...]:
        """Return the commit and its first parents, newest first, from the mirror."""
        ...

    def revert(
        self,
        source: GitSource,
        credentials: Credentials,
        commits: Sequence[str],
        *,
        author: str,
        branch: str = "",
        reason: str = "",
    ) -> RevertResult:
        """
        Make a commit that undoes these commits and push it to the tracked branch, or to ``branch`` for review.

        Its message has the reason.
        Raise Refused when a revert conflicts or the branch moved meanwhile; nothing is pushed then.
        """
        ...

    def prepare_revert(self, source: GitSource, credentials: Credentials, commits: Sequence[str]) -> tuple[str, str]:
        """
        Return the newest commit of the branch, and one on top of it that undoes these; nothing is pushed.

        Raise Refused when a revert conflicts.
        """
        ...


class Renderer(Protocol):
    """
    Render a path of a snapshot.

    Called by a reconcile when commit, path, renderer or the options of a chart changed, and by the provenance service
    for the steps that set a field.
    """

    def render(self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions) -> Build:
        """Return the manifests and the files read; raise InvalidInput with ``file:line``."""
        ...

    def trace(
        self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions, wanted: FieldSelection
    ) -> Traces:
        """Return the steps that set these fields, in order; the empty field means the object."""
        ...


class RenderStore(Protocol):
    """
    The last build of each Application, over restarts.

    Called by the first reconcile of a source, and after each render. What cannot be read back is rendered again. No
    Application gets a build of another one, which may have other credentials.
    """

    def load(self, app: Application) -> tuple[str, Build] | None:
        """Return the commit and the build that were kept last for this source, None where there are none."""
        ...

    def keep(self, app: Application, commit: str, build: Build) -> None:
        """Keep a build instead of the one before; a failure is not raised."""
        ...


class KeyServices(Protocol):
    """What opens the data keys of SOPS files that need a program or a request."""

    def open(self, wrapped: WrappedKey, keys: DecryptionKeys) -> bytes | None:
        """
        Return a data key, or a share of one, in the clear; None without a key or credential for it.

        Raise InvalidInput where what there is does not open it, TransientError where a service does not answer.
        """
