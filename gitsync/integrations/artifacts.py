"""
Charts of Helm repositories, and charts and artifacts of OCI registries: their versions, the archive of one, and a push.

Source: the index of a Helm repository (helm.sh/docs/topics/chart_repository), Helm's use of registries
(helm.sh/docs/topics/registries), the media types of Flux (fluxcd/pkg, ``oci``) and of Argo CD (its page on OCI).
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import itertools
import json
import re
import tarfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from gitsync.errors import InvalidInput, MissingRevision, SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.integrations.http import Downloads, RequestFailed, WebAnswer, joined
from gitsync.integrations.registry import OCI_MANIFEST, SHA256, Registries, digest_of
from gitsync.objects.manifest import at
from gitsync.objects.record import Commit
from gitsync.objects.semver import parse_version
from gitsync.objects.urls import CHART_SCHEME, OCI_SCHEME
from gitsync.ports import CREDENTIALS_SECRET, Credentials
from gitsync.ports.source import Artifact, ArtifactAccess, ArtifactSignature, PulledArtifact
from gitsync.render.yaml.reader import read_all

CHART_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
FLUX_LAYER: Final = "application/vnd.cncf.flux.content.v1.tar+gzip"
OCI_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_LAYERS: Final = frozenset(
    {
        CHART_LAYER,
        FLUX_LAYER,
        "application/vnd.oci.image.layer.v1.tar",
        OCI_LAYER,
        # what `oras push` and older tools write
        "application/tar",
        "application/tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    }
)
_CREATED: Final = "org.opencontainers.image.created"
_REVISION: Final = "org.opencontainers.image.revision"
_SIMPLE_SIGNING: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_SIGNATURE_ARTIFACTS: Final = frozenset({_BUNDLE, "application/vnd.dev.cosign.artifact.sig.v1+json"})
_MOST_SIGNATURES: Final = 50
_MOST_SIGNED: Final = 1 << 20
"""Bytes of a signed statement: it names a digest; a bundle has certificates and log entries too."""
_WHERE: Final = "spec.source.revision"
_MOST_INDEX: Final = 64 << 20
"""Bytes of an index: that of the largest public repositories has about 20 MiB."""
_KEPT_INDEXES: Final = 256
_SIMILAR: Final = 5


class ArtifactClient:
    """Implement the port ``ArtifactServers``: the scheme of the URL tells which kind of server has the artifact."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[tuple[str, Credentials], _ChartIndex] = OrderedDict()

    def versions(self, access: ArtifactAccess) -> Mapping[str, str]:
        """Return the versions or tags with their digests; see the port."""
        if access.url.startswith(OCI_SCHEME):
            return dict.fromkeys(_OciArtifact(access).versions(), "")
        return {release.version: release.digest for release in self._releases(access).values()}

    def find(self, access: ArtifactAccess, version: str) -> Artifact:
        """Return what a version, a tag or a digest names now; see the port."""
        if access.url.startswith(OCI_SCHEME):
            return _OciArtifact(access).find(version)
        releases = self._releases(access)
        release = releases.get(version)
        if release is None:
            similar = get_close_matches(version, releases, _SIMILAR, 0.5) or list(releases)[:_SIMILAR]
            raise MissingRevision(
                f"the chart {_chart_of(access)[1]} has no version {version!r} in {_chart_of(access)[0]}",
                location=_WHERE,
                hint=f"write a version such as {', '.join(similar)}, or a range such as >=1 <2",
            )
        return Artifact(release.version, release.digest)

    def pull(self, access: ArtifactAccess, artifact: Artifact, max_bytes: int) -> PulledArtifact:
        """Return the content of an artifact; see the port."""
        if access.url.startswith(OCI_SCHEME):
            return _OciArtifact(access).pull(artifact.digest, max_bytes)
        repository, chart = _chart_of(access)
        release = self._releases(access).get(artifact.version)
        url = joined(f"{repository}/", release.url) if release else ""
        archive = _get(access, url, max_bytes, f"the archive of the chart {chart}").body
        if digest_of(archive) != artifact.digest:
            raise InvalidInput(
                f"the archive of the chart {chart} {artifact.version} has the digest {digest_of(archive)}, and the"
                f" index of {repository} lists {artifact.digest}",
                location=_WHERE,
                hint="the repository has to be indexed again, or the archive was replaced: name another version",
            )
        return PulledArtifact(archive, is_chart=True)

    def signatures(self, access: ArtifactAccess, digest: str) -> tuple[ArtifactSignature, ...]:
        """Return what the server has as signatures of an artifact; see the port."""
        if not access.url.startswith(OCI_SCHEME):
            return ()  # a Helm repository has provenance files of OpenPGP, which nothing here verifies
        return tuple(itertools.islice(_OciArtifact(access).signatures(digest), _MOST_SIGNATURES))

    def _releases(self, access: ArtifactAccess) -> Mapping[str, _Release]:
        """Return the releases of a chart, from the last answer where the index did not change since."""
        repository, chart = _chart_of(access)
        key = (access.url, access.credentials)
        known = self._indexes.get(key)
        headers = {"If-None-Match": known.etag} if known and known.etag else {}
        answer = _get(access, f"{repository}/index.yaml", _MOST_INDEX, f"the index of {repository}", headers)
        if answer.status == 304 and known is not None:
            return known.releases
        releases = {release.version: release for release in _listed(answer.body, chart, repository)}
        self._indexes[key] = _ChartIndex(answer.headers.get("ETag", ""), releases)
        self._indexes.move_to_end(key)
        if len(self._indexes) > _KEPT_INDEXES:
            self._indexes.popitem(last=False)
        return releases


class _Release(NamedTuple):
    version: str
    digest: str
    url: str


class _ChartIndex(NamedTuple):
    etag: str
    releases: Mapping[str, _Release]


def _chart_of(access: ArtifactAccess) -> tuple[str, str]:
    """Return the URL of the Helm repository and the chart that a URL names."""
    repository, _, chart = access.url.removeprefix(CHART_SCHEME).rpartition("/")
    return repository, chart


def _get(
    access: ArtifactAccess, url: str, max_bytes: int, what: str, headers: Mapping[str, str] | None = None
) -> WebAnswer:
    """Return an answer of a Helm repository, or of another host that its index names, which gets no password."""
    own = urlsplit(_chart_of(access)[0])
    all_headers = dict(headers or {})
    password = _password(access)
    if password and urlsplit(url)[:2] == own[:2]:
        all_headers["Authorization"] = f"Basic {base64.b64encode(':'.join(password).encode()).decode()}"
    try:
        answer = Downloads(access.authorities, access.plain, access.seconds).get(url, all_headers, max_bytes)
    except RequestFailed as error:
        kind = SourceUnavailable if error.retryable else InvalidInput
        raise kind(f"{what}: the server {error}", location=own.netloc) from error
    if answer.status in (200, 304):
        return answer
    message = f"{what}: the server answers {answer.status}"
    if answer.status == 429:
        raise SourceThrottled(message, location=own.netloc)
    if answer.status in (401, 403):
        raise SourceDenied(message, location=own.netloc, hint=f"correct {CREDENTIALS_SECRET}")
    if answer.status < 500:
        raise InvalidInput(message, location=own.netloc, hint="is spec.source.repoURL the URL of a Helm repository?")
    raise SourceUnavailable(message, location=own.netloc)


def _password(access: ArtifactAccess) -> tuple[str, str] | None:
    credentials = access.credentials
    return (credentials.username, credentials.password) if credentials.password else None


def _listed(index: bytes, chart: str, repository: str) -> list[_Release]:
    """Return the releases of a chart that an index lists in full."""
    releases: list[_Release] = []
    for entry in chart_entries(index.decode("utf-8", "replace"), chart, repository):
        urls = entry.get("urls")
        url = urls[0] if isinstance(urls, list) and urls else None
        version = entry.get("version")
        digest = entry.get("digest")
        if isinstance(url, str) and isinstance(version, str) and isinstance(digest, str):
            # by Helm without, by others with the name of the algorithm
            releases.append(_Release(version, f"{SHA256}{digest.removeprefix(SHA256)}", url))
    if not releases:
        raise InvalidInput(
            f"the index of {repository} lists no version of {chart} with a URL and a digest",
            location=_WHERE,
            hint="the repository has to be indexed by 'helm repo index'",
        )
    return releases


def chart_entries(index: str, chart: str, repository: str) -> list[dict[str, Any]]:
    """
    Return the entries of one chart in the index of a Helm repository, which is YAML or JSON.

    Only their part of the text is parsed: an index may have 100,000 entries, and is read at each poll.
    """
    try:
        entries, names = _entries_of_json(index, chart) if index.lstrip()[:1] == "{" else _entries_of_yaml(index, chart)
    except ValueError as error:
        raise InvalidInput(f"the index of {repository} is not valid: {error}", location=repository) from error
    if entries is None:
        similar = get_close_matches(chart, names, _SIMILAR, 0.4) or names[:_SIMILAR]
        raise InvalidInput(
            f"the Helm repository {repository} has no chart {chart}",
            location="spec.source.chart",
            hint=f"similar names: {', '.join(similar)}" if similar else "correct spec.source.repoURL",
        )
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _entries_of_json(index: str, chart: str) -> tuple[Any, list[str]]:
    # not json, which raises RecursionError for lists in lists without end; so wherever a server answers
    document = orjson.loads(index)
    entries = document.get("entries")
    if not isinstance(entries, dict):
        raise ValueError("it has no entries")
    return entries.get(chart), list(entries)


def _entries_of_yaml(index: str, chart: str) -> tuple[Any, list[str]]:
    names: list[str] = []
    wanted: list[str] | None = None
    key: re.Pattern[str] | None = None
    for line in _lines_of_entries(index):
        if key is None and line.strip():
            key = re.compile(rf"{line[: len(line) - len(line.lstrip())]}{_KEY}")
        match = key.match(line) if key is not None else None
        if match is not None:
            names.append(match["name"])
            if match["name"] == chart:
                wanted = [f"entries:{line[match.end() :]}"]
        # what is of the chart is indented further, and the dashes of its list may be as far as its name
        elif wanted is not None and names[-1] == chart:
            wanted.append(line)
    if wanted is None:
        return None, names
    try:
        documents = read_all("\n".join(wanted))
    except InvalidInput as error:  # its line is one of this part
        raise ValueError(error.message) from error
    return documents[0].get("entries"), names


_KEY: Final = r"(?P<quote>[\"']?)(?P<name>[^\s\"'#-][^\"':]*)(?P=quote):(?=\s|$)"


def _lines_of_entries(index: str) -> Iterator[str]:
    """Yield the lines below the member ``entries``, without comments; raise ValueError where there is none."""
    lines = iter(index.splitlines())
    if not any(line.rstrip() == "entries:" for line in lines):
        raise ValueError("it has no entries")
    for line in lines:
        if line[:1].strip() and not line.startswith("#"):
            return  # the next member of the index
        if not line.lstrip().startswith("#"):
            yield line


class _OciArtifact:
    """An artifact of an OCI registry."""

    def __init__(self, access: ArtifactAccess) -> None:
        self._name = access.url.removeprefix(OCI_SCHEME).rstrip("/")
        host = self._name.partition("/")[0]
        password = _password(access)
        self._registries = Registries(
            lambda server: password if server == host else None,
            Downloads(access.authorities, access.plain, access.seconds),
        )

    def versions(self) -> list[str]:
        """Return the tags; those of charts, which may have no +, as the versions that they are."""
        with _named_secret():
            tags = self._registries.tags(self._name)
        return [tag.replace("_", "+") if parse_version(tag.replace("_", "+")) else tag for tag in tags]

    def find(self, version: str) -> Artifact:
        """Return the digest of a tag, or of itself."""
        with _named_secret():
            digest, _ = self._registries.manifest(self._name, version.replace("+", "_"))
        return Artifact(version, digest)

    def pull(self, digest: str, max_bytes: int) -> PulledArtifact:
        """Return the content of the one layer that holds files."""
        with _named_secret():
            _, manifest = self._registries.manifest(self._name, digest)
            layer = self._layer(manifest)
            size = layer.get("size")
            if not isinstance(size, int) or size > max_bytes:
                raise self._unusable(
                    f"is larger than the limit of {max_bytes >> 20} MiB",
                    "make it smaller, or raise GITSYNC_ARTIFACT_MIB",
                )
            archive = self._registries.blob(self._name, str(layer.get("digest", "")), max_bytes)
        annotations = manifest.get("annotations")
        notes = annotations if isinstance(annotations, dict) else {}
        return PulledArtifact(
            archive,
            is_chart=layer["mediaType"] == CHART_LAYER,
            created=_seconds(notes.get(_CREATED)),
            revision=str(notes.get(_REVISION) or ""),
        )

    def signatures(self, digest: str) -> Iterator[ArtifactSignature]:
        """
        Yield what cosign signed of an artifact, in each layout that it has.

        Source: cosign's SIGNATURE_SPEC.md (the tag, and payloads in layers) and BUNDLE_SPEC.md (referrers).
        """
        with _named_secret():
            for reference in self._signature_manifests(digest):
                with contextlib.suppress(MissingRevision):
                    _, manifest = self._registries.manifest(self._name, reference)
                    layers = manifest.get("layers")
                    for layer in layers if isinstance(layers, list) else ():
                        if isinstance(layer, dict):
                            yield from self._signatures_in(layer)

    def _signature_manifests(self, digest: str) -> Iterator[str]:
        yield f"{digest.replace(':', '-')}.sig"
        for referrer in self._registries.referrers(self._name, digest):
            if str(referrer.get("artifactType")) in _SIGNATURE_ARTIFACTS:
                yield str(referrer.get("digest"))

    def _signatures_in(self, layer: Mapping[str, Any]) -> Iterator[ArtifactSignature]:
        kind = layer.get("mediaType")
        if kind not in (_SIMPLE_SIGNING, _BUNDLE):
            return
        content = self._registries.blob(self._name, str(layer.get("digest", "")), _MOST_SIGNED)
        # anyone with the right to push may refer to the artifact, by whatever content
        with contextlib.suppress(ValueError):
            if kind == _SIMPLE_SIGNING:
                yield ArtifactSignature(content, _bytes(at(layer, "annotations", _SIGNATURE, default="")))
                return
            envelope = at(orjson.loads(content), "dsseEnvelope", default={})
            statement = _bytes(at(envelope, "payload", default=""))
            listed = at(envelope, "signatures")
            for signature in listed if isinstance(listed, list) else ():
                signed = _bytes(at(signature, "sig", default=""))
                yield ArtifactSignature(statement, signed, str(at(envelope, "payloadType", default="")))

    def _layer(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        layers = manifest.get("layers")
        if not isinstance(layers, list):
            raise self._unusable("is not a single artifact: its manifest has no layers, as an index of images")
        # the provenance of a chart is a layer beside it
        usable = [layer for layer in layers if isinstance(layer, dict) and str(layer.get("mediaType")) in _LAYERS]
        if len(usable) != 1:
            raise self._unusable(f"has {len(usable)} layers with files, and an artifact has one: is it an image?")
        return usable[0]

    def _unusable(self, what: str, hint: str = "push it by gitsync, flux, helm or oras") -> InvalidInput:
        return InvalidInput(f"the artifact {what}", location=f"{OCI_SCHEME}{self._name}", hint=hint)


@contextlib.contextmanager
def _named_secret() -> Iterator[None]:
    """Name the Secret with the credentials where a registry denies them: its client knows config files only."""
    try:
        yield
    except SourceDenied as error:
        error.hint = f"correct {CREDENTIALS_SECRET}"
        raise


def _bytes(text: object) -> bytes:
    """Return the bytes of a text in base64; raise ValueError for any other one."""
    return base64.b64decode(str(text), validate=True)


def _seconds(created: object) -> int:
    """Return the seconds since 1970 of a time in RFC 3339, 0 for any other text."""
    try:
        return max(int(datetime.fromisoformat(str(created).replace("Z", "+00:00")).timestamp()), 0)
    except (ValueError, OverflowError):
        return 0


_EMPTY_CONFIG: Final = "application/vnd.oci.empty.v1+json"
_EMPTY: Final = b"{}"
"""The config of an artifact that has none, by the image specification 1.1."""


class ArtifactFile(NamedTuple):
    """A file to push, or a link with its target as the content."""

    path: str
    content: bytes
    is_link: bool = False


def push_artifact(registries: Registries, name: str, tag: str, files: Iterable[ArtifactFile], commit: Commit) -> str:
    """
    Push files as an artifact with one layer under a tag, and return its digest.

    The same files of the same commit have the same digest. ``name`` is a host with a repository.
    """
    layer = _archive(files, commit)
    descriptors = [
        {"mediaType": kind, "digest": registries.put_blob(name, content), "size": len(content)}
        for kind, content in ((_EMPTY_CONFIG, _EMPTY), (OCI_LAYER, layer))
    ]
    notes = {_REVISION: commit.id}
    if commit.time is not None:
        notes[_CREATED] = commit.time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": "application/vnd.gitsync.files.v1",
        "config": descriptors[0],
        "layers": descriptors[1:],
        "annotations": notes,
    }
    return registries.put_manifest(name, tag, json.dumps(manifest, sort_keys=True).encode())


def _archive(files: Iterable[ArtifactFile], commit: Commit) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(files):
            entry = tarfile.TarInfo(file.path)
            entry.mtime = int(commit.time.timestamp()) if commit.time is not None else 0
            if file.is_link:
                entry.type = tarfile.SYMTYPE
                entry.linkname = file.content.decode("utf-8", "surrogateescape")
            else:
                entry.size = len(file.content)
            tar.addfile(entry, io.BytesIO(file.content))
    # without the time of now and the name of a file, which would give the same files another digest
    return gzip.compress(stream.getvalue(), mtime=0)
