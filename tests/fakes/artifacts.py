"""Servers of artifacts, in memory and over HTTP, and the archives that they have."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gitsync.errors import GitsyncError, MissingRevision
from gitsync.integrations.registry import OCI_MANIFEST, digest_of
from gitsync.ports import Credentials
from gitsync.ports.source import Artifact, ArtifactAccess, ArtifactSignature, PulledArtifact
from tests.http_service import serve_http

TIME = 1_700_000_000


def file_entry(path: str, time: int = TIME, mode: int = 0o644) -> tarfile.TarInfo:
    """Return the header of a file."""
    entry = tarfile.TarInfo(path)
    entry.mtime = time
    entry.mode = mode
    return entry


def tar_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar archive without compression; files get the size of their content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry, content in entries:
            entry.size = len(content) if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def packed(files: Mapping[str, str]) -> bytes:
    """Return files as an archive with gzip, the same bytes for the same files."""
    return gzip.compress(tar_of(*((file_entry(path), text.encode()) for path, text in files.items())), mtime=0)


def chart_archive(version: str = "1.0.0", **templates: str) -> bytes:
    """Return the archive of the chart ``web``."""
    files = {
        "web/Chart.yaml": f"apiVersion: v2\nname: web\nversion: {version}\n",
        "web/values.yaml": "replicas: 1\n",
        **{f"web/templates/{name}.yaml": text for name, text in templates.items()},
    }
    return packed(files)


@dataclass
class FakeArtifacts:
    """
    Implements ``gitsync.ports.source.ArtifactServers``: ``archives`` by version.

    ``pulls`` are the versions that were pulled; ``failure`` is raised by each request while it is set.
    """

    archives: dict[str, bytes] = field(default_factory=dict)
    is_chart: bool = True
    lists_digests: bool = True
    failure: GitsyncError | None = None
    pulls: list[str] = field(default_factory=list)
    accesses: list[ArtifactAccess] = field(default_factory=list)
    signed: dict[str, list[ArtifactSignature]] = field(default_factory=dict)

    def versions(self, access: ArtifactAccess) -> Mapping[str, str]:
        self._request(access)
        return {version: digest_of(archive) if self.lists_digests else "" for version, archive in self.archives.items()}

    def find(self, access: ArtifactAccess, version: str) -> Artifact:
        self._request(access)
        for name, archive in self.archives.items():
            if version in (name, digest_of(archive)):
                return Artifact(version, digest_of(archive))
        raise MissingRevision(f"there is no {version}")

    def pull(self, access: ArtifactAccess, artifact: Artifact, max_bytes: int) -> PulledArtifact:
        self._request(access)
        self.pulls.append(artifact.version)
        archive = next(content for content in self.archives.values() if digest_of(content) == artifact.digest)
        return PulledArtifact(archive, self.is_chart)

    def signatures(self, access: ArtifactAccess, digest: str) -> tuple[ArtifactSignature, ...]:
        self._request(access)
        return tuple(self.signed.get(digest, ()))

    def sign(self, version: str, *signatures: ArtifactSignature) -> None:
        """Have signatures of a version beside those that it has."""
        self.signed.setdefault(digest_of(self.archives[version]), []).extend(signatures)

    def _request(self, access: ArtifactAccess) -> None:
        self.accesses.append(access)
        if self.failure is not None:
            raise self.failure


@dataclass
class ArtifactWeb:
    """Answers by path with a status, a body and headers; ``requests`` are paths with their Authorization."""

    port: int = 0
    answers: dict[str, tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def put(self, path: str, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.answers[path] = (status, content, {name.replace("_", "-"): value for name, value in headers.items()})

    def push(self, *layers: tuple[str, bytes], tag: str = "1.0.0", **members: Any) -> str:
        """Have a tag of ``team/web`` and its digest name a manifest of layers, and return the digest."""
        listed = []
        for kind, content in layers:
            self.put(f"/v2/team/web/blobs/{digest_of(content)}", content)
            listed.append({"mediaType": kind, "digest": digest_of(content), "size": len(content)})
        manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": listed, **members})
        digest = digest_of(manifest.encode())
        for reference in (tag, digest):
            self.put(f"/v2/team/web/manifests/{reference}", manifest)
        return digest

    def access(self, path: str, password: str = "", host: str = "127.0.0.1") -> ArtifactAccess:
        """Return the access to a chart or OCI repository, such as ``oci://{}/web``."""
        credentials = Credentials(username="ann", password=password) if password else Credentials()
        url = path.replace("{}", f"{host}:{self.port}")
        return ArtifactAccess(url, credentials, plain=lambda url: url.startswith("http://"), seconds=20.0)

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


@contextmanager
def artifact_web() -> Iterator[ArtifactWeb]:
    """Serve answers on loopback."""
    served = ArtifactWeb()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append((self.path, self.headers.get("Authorization", "")))
            status, body, headers = served.answers.get(self.path.partition("?")[0], (404, b"", {}))
            if headers.get("ETag") and self.headers.get("If-None-Match") == headers["ETag"]:
                status, body = 304, b""
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self._empty(served.answers.get(self.path, (404, b"", {}))[0])

        def do_POST(self) -> None:
            self._empty(202, Location=f"{self.path}1?state=a")

        def do_PUT(self) -> None:
            url = urlsplit(self.path)
            content = self.rfile.read(int(self.headers["Content-Length"]))
            repository = url.path.partition("/blobs/")[0].partition("/manifests/")[0]
            if "/manifests/" in url.path:
                served.put(url.path, content)
                served.put(f"{repository}/manifests/{digest_of(content)}", content)
            else:
                served.put(f"{repository}/blobs/{parse_qs(url.query)['digest'][0]}", content)
            self._empty(201)

        def _empty(self, status: int, **headers: str) -> None:
            served.requests.append((f"{self.command} {self.path}", self.headers.get("Authorization", "")))
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

    with serve_http(Handler) as port:
        served.port = port
        yield served
