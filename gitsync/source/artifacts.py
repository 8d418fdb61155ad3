"""
ArtifactMirror: versions of a chart or an OCI artifact, each as a commit of a bare repository.

As a commit, an artifact is rendered, compared, applied again and explained by what does so for Git. Its id depends on
the digest of the artifact alone, so that every replica has the same one.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from gitsync.errors import InvalidInput, MissingRevision, Refused, SourceUnavailable
from gitsync.objects.record import Commit
from gitsync.objects.semver import parse_range
from gitsync.objects.urls import CHART_SCHEME
from gitsync.ports import Credentials
from gitsync.ports.source import Artifact, ArtifactAccess, ArtifactServers, PulledArtifact
from gitsync.source.authentication import trusted_certificates
from gitsync.source.git import GitFailed
from gitsync.source.mirror import Mirror
from gitsync.source.object_reader import CORRUPT, ObjectReader
from gitsync.source.remote import Transport
from gitsync.source.server_errors import disk_failure, unusable
from gitsync.source.signatures import keep_signatures, kept_signatures
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import artifact_host, is_commit

_ARTIFACTS: Final = "refs/gitsync/artifacts"
"""Where the commits of artifacts are, by digest: what has a ref is complete."""
_KEPT_ARCHIVES: Final = 30
"""Largest archives that a mirror has room for; past that it begins again with the version that is named now."""
_MOST_SIGNATURES: Final = 100
_NEVER: Final = float("-inf")
_WHERE: Final = "spec.source.revision"


class ArtifactMirror(Mirror):
    """
    Keep the versions of one artifact that were pulled, and answer what a version, range or digest names.

    ``servers`` reach its server. A version is pulled when its digest is new, which is so before ``resolve`` returns;
    a pulled one stays while the mirror does, also when the server deletes it.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        transport: Transport,
        servers: ArtifactServers,
        on_read: Callable[[ObjectReader], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(url, folder, transport, on_read, clock)
        self._servers = servers
        self._transport = transport
        self._answers: dict[tuple[str, Credentials], tuple[float, str]] = {}
        self._versions: dict[str, str] = {}

    def resolve(self, revision: str, credentials: Credentials, max_age: float) -> str:
        """Return the commit of the artifact that a version, a range or a digest names now; see Source.resolve."""
        if is_commit(revision):
            return revision
        with self._locked():
            answered_at, commit = self._answers.get((revision, credentials), (_NEVER, ""))
            if self._clock() - answered_at < max_age:
                return commit
            with self._failures.shared((revision, credentials), max_age):
                commit = self._named(revision, credentials)
            self._answers[revision, credentials] = (self._clock(), commit)
            return commit

    def fetch(self, revision: str, commit: str, credentials: Credentials, max_age: float = 0.0) -> None:
        """Make sure that a commit is here, and that the server lets these credentials read the artifact."""
        with self._locked():
            self._admit(credentials, max_age)
            if self._is_whole(commit):
                return
            if not is_commit(revision):
                self.resolve(revision, credentials, 0.0)
            if not self._is_whole(commit):
                raise InvalidInput(
                    f"the artifact of commit {commit[:12]} is not kept here any more, and {self.shown} has none by"
                    " such an id",
                    location=_WHERE,
                    hint="set spec.source.revision to its version or digest",
                )

    @staticmethod
    def max_bytes(limits: SourceLimits) -> int:
        """Return the bytes of the disk that the kept versions may take."""
        return _KEPT_ARCHIVES * limits.artifact_bytes

    @property
    def shown(self) -> str:
        """The URL, as in messages."""
        return self.url.removeprefix(CHART_SCHEME)

    def branch(self, revision: str) -> str:
        """Return nothing: what an artifact is named by is like a tag, which may move to any other one."""
        return ""

    def commit(self, commit: str) -> Commit:
        """Return the commit of an artifact; its subject has the version by which it was found last."""
        made = super().commit(commit)
        version = self._versions.get(commit, "")
        if not version or version in made.subject:
            return made
        name, _, digest = made.subject.partition(" ")
        return replace(made, message=made.message.replace(made.subject, f"{name} {version} {digest}", 1))

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Raise Refused: an artifact is made from files that are elsewhere."""
        raise Refused(
            f"{self.shown} is an artifact, which is not edited",
            location="spec.source.repoURL",
            hint="change the files that it is made from, and push another version",
        )

    def digest(self, commit: str) -> str:
        """Return the digest of the artifact that a commit is."""
        # by the ref: a chart decides on the subject of its commit
        refs = self.git("for-each-ref", "--format=%(refname)", f"--points-at={commit}", _ARTIFACTS).decode().split()
        if not refs:
            raise SourceUnavailable(f"the artifact of commit {commit[:12]} is not in the mirror any more")
        return f"sha256:{refs[0].rpartition('/')[2]}"

    def fetch_signatures(self, commit: str, credentials: Credentials) -> str:
        """Add the signatures that the server has for the artifact of a commit to those here, and return its digest."""
        digest = self.digest(commit)
        access = self._access(credentials)
        with self._locked():
            kept = kept_signatures(self.path, digest)
            try:
                listed = self._answer(credentials, lambda: self._servers.signatures(access, digest))
            except SourceUnavailable:
                # like the artifact, they stay when the server is away or has deleted the version
                if kept:
                    return digest
                raise
            signatures = (*kept, *(signature for signature in listed if signature not in kept))
            if signatures != kept:
                keep_signatures(self.path, digest, signatures[-_MOST_SIGNATURES:])
        return digest

    def _ask(self, credentials: Credentials) -> None:
        """Show credentials to the server, whatever it answers."""
        access = self._access(credentials)
        self._answer(credentials, lambda: self._servers.versions(access))
        self._open("")
        self._let_in(credentials)

    def _named(self, revision: str, credentials: Credentials) -> str:
        access = self._access(credentials)
        artifact = self._answer(credentials, lambda: self._found(access, revision))
        if (self.path / CORRUPT).exists() or self._is_too_large():
            self._swap(self._make(""))
        self._open("")
        commit = self._known(artifact.digest)
        if not commit:
            max_bytes = self._transport.limits.artifact_bytes
            pulled = self._answer(credentials, lambda: self._servers.pull(access, artifact, max_bytes))
            commit = self._import(artifact, pulled)
        self._let_in(credentials)
        self._versions[commit] = artifact.version
        return commit

    def _found(self, access: ArtifactAccess, revision: str) -> Artifact:
        versions = parse_range(revision)
        if versions is None:
            return self._servers.find(access, revision)
        tags = self._servers.versions(access)
        highest = versions.highest(tags)
        if highest is None:
            examples = ", ".join(list(tags)[:5])
            raise MissingRevision(
                f"no version of {self.shown} is in the range {revision!r}",
                location=_WHERE,
                hint=f"it has, among others, {examples}" if examples else "it has none: push one",
            )
        digest = tags[highest]
        return Artifact(highest, digest) if digest else self._servers.find(access, highest)

    def _access(self, credentials: Credentials) -> ArtifactAccess:
        transport = self._transport
        plain_url = f"http://{artifact_host(self.url)}/"
        if not self.url.startswith(f"{CHART_SCHEME}https:") and self._is_plain(plain_url):
            transport.check_sign_in(plain_url, credentials)
        authorities = trusted_certificates(credentials, transport.ca_file)
        return ArtifactAccess(self.url, credentials, authorities, self._is_plain, transport.limits.seconds)

    def _is_plain(self, url: str) -> bool:
        """Return whether a URL may be reached without TLS."""
        return "http" in self._transport.schemes or self._transport.plain.allow(url)

    def _known(self, digest: str) -> str:
        """Return the commit of a digest, empty where it was not pulled."""
        ref = self.path / _ARTIFACTS / digest.removeprefix("sha256:")
        # read as a file: nothing packs the refs of a mirror
        commit = ref.read_text(errors="replace").strip() if ref.exists() else ""
        return commit if commit and self._is_whole(commit) else ""

    def _is_whole(self, commit: str) -> bool:
        return not (self.path / CORRUPT).exists() and self._has(self.path, commit)

    def _import(self, artifact: Artifact, pulled: PulledArtifact) -> str:
        """Write the files of an archive as a commit, and return its id."""
        files = archive_files(pulled, self._transport.limits, f"{self.shown} {artifact.version}")
        name = self.shown.rpartition("/")[2]
        version = f" {_chart_version(files)}" if pulled.is_chart else ""
        created = pulled.created or max(file.time for file in files.values())
        message = f"{name}{version} {artifact.digest}\n\nArtifact: {self.shown}\n"
        if pulled.revision:
            message += f"Revision: {' '.join(pulled.revision.split())[:200]}\n"
        ref = f"{_ARTIFACTS}/{artifact.digest.removeprefix('sha256:')}"
        stream = b"".join(_fast_import(ref, f"{artifact_host(self.url)} <> {created} +0000", message, files))
        try:
            self.git(
                "fast-import", "--quiet", "--done", "--force", "--date-format=raw", stdin=stream, timeout=self._seconds
            )
            return self.git("rev-parse", "--verify", ref).decode().strip()
        except GitFailed as error:
            raise disk_failure(str(error)) or unusable(str(error)) from error


# tarfile raises much for odd headers: a time of infinity, a number without digits, headers of headers without end
_UNREADABLE: Final = (
    tarfile.TarError,
    EOFError,
    OSError,
    zlib.error,
    ValueError,
    ArithmeticError,
    LookupError,
    RecursionError,
)


class ArchiveFile(NamedTuple):
    """A file of an archive, or a link with its target; ``time`` is in seconds since 1970."""

    content: bytes
    is_link: bool
    is_executable: bool
    time: int


_BAD_NAME: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_DRIVE: Final = re.compile(r"[a-zA-Z]:")


def archive_files(pulled: PulledArtifact, limits: SourceLimits, what: str) -> Mapping[str, ArchiveFile]:
    """
    Return the files of a tar archive by their clean paths; those of a chart without its folder, as Helm takes them.

    Raise InvalidInput for one that is damaged, larger than the limits, or has an entry that leads out of it; its
    location is ``what``.
    """
    try:
        files = dict(_entries(pulled.archive, limits))
        _reject_overlaps(files)
        files = _chart_files(files) if pulled.is_chart else files
    except _BadArchive as error:
        raise InvalidInput(f"the archive {error}", location=what, hint="package it again") from None
    except _UNREADABLE as error:
        raise InvalidInput("the archive is not a whole tar archive", location=what, hint="package it again") from error
    if not files:
        raise InvalidInput("the archive has no files", location=what, hint="package it again")
    return files


class _BadArchive(Exception):
    """An archive whose files are not taken; the text is a predicate."""


_TOO_LARGE: Final = "is larger than GITSYNC_ARTIFACT_MIB once it is unpacked"


class _Bounded(io.RawIOBase):
    """A stream that may be read up to a number of bytes: a megabyte of gzip may hold a gigabyte."""

    def __init__(self, stream: io.BufferedIOBase, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return bytes; raise past the limit."""
        # also before the read: tarfile asks for as many bytes as the header of an entry names
        if size < 0 or size > self._left:
            raise _BadArchive(_TOO_LARGE)
        content = self._stream.read(size)
        self._left -= len(content)
        return content


_MAGIC: Final = b"\x1f\x8b"
_ROOM: Final = 16 << 20
"""Bytes beside the content: each entry has a header of 512 bytes, and is filled up to a multiple of that."""


def _entries(archive: bytes, limits: SourceLimits) -> Iterator[tuple[str, ArchiveFile]]:
    stream = io.BytesIO(archive)
    unpacked = gzip.GzipFile(fileobj=stream) if archive.startswith(_MAGIC) else stream
    bounded = _Bounded(unpacked, limits.artifact_bytes + _ROOM)
    known: set[str] = set()
    size = 0
    # a stream: tarfile would seek to the end of each entry, which unpacks it twice
    with tarfile.open(fileobj=bounded, mode="r|", errorlevel=1) as tar:
        for count, entry in enumerate(tar):
            if count > limits.files:
                raise _BadArchive(f"has more than {limits.files} entries")
            path = _clean(entry.name)
            if entry.isdir() or not path:
                continue
            if path in known:
                raise _BadArchive(f"has two entries {path}")
            known.add(path)
            if entry.issym():
                yield path, ArchiveFile(_target(path, entry.linkname), True, False, 0)
            elif entry.isreg() and not entry.issparse():
                size += entry.size
                if size > limits.artifact_bytes:
                    raise _BadArchive(_TOO_LARGE)
                if entry.size > limits.file_bytes:
                    raise _BadArchive(f"has a file of more than {limits.file_bytes >> 20} MiB: {path}")
                content = tar.extractfile(entry)
                assert content is not None
                mode = bool(entry.mode & 0o100)
                yield path, ArchiveFile(content.read(), False, mode, min(max(int(entry.mtime), 0), 1 << 40))
            else:
                raise _BadArchive(f"has an entry that is neither a file nor a folder nor a symbolic link: {path}")


def _clean(name: str) -> str:
    """Return the path of an entry without dots; raise for one that leads out of the archive or that Git has not."""
    if _BAD_NAME.search(name):
        raise _BadArchive(f"has a name with a control character or a backslash: {name[:80]!r}")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or _DRIVE.match(name):
        raise _BadArchive(f"has an entry that leads out of it: {name[:80]}")
    if any(part.lower() == ".git" for part in parts):
        raise _BadArchive(f"has an entry of a Git repository: {name[:80]}")
    return "/".join(parts)


def _target(path: str, target: str) -> bytes:
    """Return the target of a symbolic link; raise for one that leads out of the archive."""
    real = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if not target or target.startswith("/") or real == ".." or real.startswith("../") or _BAD_NAME.search(target):
        raise _BadArchive(f"has a link that leads out of it: {path}")
    return target.encode("utf-8", "surrogateescape")


def _reject_overlaps(files: Mapping[str, ArchiveFile]) -> None:
    for path in files:
        for above in _parents(path):
            if above in files:
                raise _BadArchive(f"has {above} as a file and as a folder")


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _chart_files(files: Mapping[str, ArchiveFile]) -> dict[str, ArchiveFile]:
    """Return the files of a chart without the folder that all of them are in."""
    folders = {path.partition("/")[0] for path in files}
    inside = {path.partition("/")[2]: file for path, file in files.items()}
    if len(folders) != 1 or "" in inside:
        raise _BadArchive("has files outside of the one folder of its chart")
    if "Chart.yaml" not in inside:
        raise _BadArchive("has no Chart.yaml in its folder, so that it is not a chart")
    return inside


_VERSION: Final = re.compile(rb"""^version:[ \t]*["']?([0-9A-Za-z.+-]{1,64})""", re.MULTILINE)


def _chart_version(files: Mapping[str, ArchiveFile]) -> str:
    version = _VERSION.search(files["Chart.yaml"].content)
    return version[1].decode() if version else ""


def _fast_import(ref: str, person: str, message: str, files: Mapping[str, ArchiveFile]) -> Iterator[bytes]:
    """Yield a commit in the format of git-fast-import(1), without parents."""
    text = message.encode()
    yield f"commit {ref}\nauthor {person}\ncommitter {person}\ndata {len(text)}\n".encode() + text + b"\n"
    for path, file in sorted(files.items()):
        mode = "120000" if file.is_link else "100755" if file.is_executable else "100644"
        quoted = path.replace('"', '\\"').encode("utf-8", "surrogateescape")
        yield b'M %s inline "%s"\ndata %d\n' % (mode.encode(), quoted, len(file.content)) + file.content + b"\n"
    yield b"done\n"
