"""Charts and artifacts of servers that lie, lead elsewhere or send bombs: each is one line, and a neighbour is read."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.integrations.artifacts import CHART_LAYER, FLUX_LAYER, ArtifactClient
from gitsync.integrations.registry import digest_of
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import PlainHosts
from tests.fakes.artifacts import ArtifactWeb, artifact_web, chart_archive, file_entry, packed, tar_of

LIMITS = SourceLimits(file_bytes=1000, files=50, artifact_bytes=30_000, seconds=20.0)
MANIFEST = "/v2/team/web/manifests/1.0.0"
TAGS = "/v2/team/web/tags/list"
INDEX = "/bad/index.yaml"
FILES = packed({"web.yaml": "kind: ConfigMap\n"})
CHART_ARCHIVE = chart_archive()
LONGEST = 700
"""Characters of a line that a user still reads."""


class Servers:
    """Servers over HTTP: a Helm repository and a registry that each case breaks, and a repository beside them."""

    def __init__(self, web: ArtifactWeb, folder: Path) -> None:
        self.web = web
        self.folder = folder
        self._host = f"127.0.0.1:{web.port}"
        transport = Transport(plain=PlainHosts.parse(self._host, ""), limits=LIMITS)
        self.repositories = Repositories(folder / "mirrors", transport, ArtifactClient())
        self.put_index("/good/index.yaml", {"version": "1.0.0"})
        web.put("/good/web.tgz", CHART_ARCHIVE)
        self.assert_neighbour_is_read()

    def put_index(self, path: str, *releases: dict[str, Any]) -> None:
        """Have a Helm repository list releases of ``web``, each with the digest of the chart unless it has another."""
        defaults = {"name": "web", "digest": digest_of(CHART_ARCHIVE), "urls": ["web.tgz"]}
        self.web.put(path, json.dumps({"entries": {"web": [{**defaults, **release} for release in releases]}}))

    def artifact(self, revision: str = "1.0.0") -> str:
        """Return the one line by which an artifact of the registry is refused."""
        return self._refusal({"repoURL": f"oci://{self._host}/team/web", "revision": revision})

    def chart(self, revision: str = "1.0.0") -> str:
        """Return the one line by which a chart of the Helm repository is refused."""
        return self._refusal({"repoURL": f"http://{self._host}/bad", "chart": "web", "revision": revision})

    def assert_neighbour_is_read(self) -> None:
        """Read a chart of the repository beside the broken ones."""
        source = GitSource.model_validate({"repoURL": f"http://{self._host}/good", "chart": "web", "revision": "1.0.0"})
        commit = self.repositories.resolve(source, Credentials())
        tree = self.repositories.snapshot(source, Credentials(), commit).tree
        assert tree.names("") == ("Chart.yaml", "values.yaml")

    def _refusal(self, source: dict[str, str]) -> str:
        with pytest.raises((InvalidInput, SourceUnavailable)) as caught:
            self.repositories.resolve(GitSource.model_validate(source), Credentials())
        line = str(caught.value)
        assert line.isprintable()
        assert len(line) < LONGEST
        self.assert_neighbour_is_read()
        assert [path.name for path in self.folder.iterdir()] == ["mirrors"]  # nothing was unpacked
        return line


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with artifact_web() as web:
        made = Servers(web, tmp_path)
        yield made
        made.repositories.close()


def entry_of(kind: bytes, path: str, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type = kind
    entry.linkname = target
    return entry


def header_of(size: int) -> bytes:
    """Return the header of members for all entries, which are as long as it says."""
    entry = file_entry("pax")
    entry.type = tarfile.XGLTYPE
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT)


def files_of(count: int, size: int) -> bytes:
    """Return an archive with a number of files, each of some bytes."""
    return gzip.compress(tar_of(*((file_entry(str(number)), b"x" * size) for number in range(count))))


MANY_BYTES = files_of(40, 900)
MANY_FILES = files_of(60, 0)
BOMB = gzip.compress(header_of(20 << 20) + bytes(20 << 20))
LINK = tarfile.SYMTYPE
CHART = (file_entry("web/Chart.yaml"), b"version: 1.0.0\n")
SPARSE = file_entry("zeros")
SPARSE.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9999999999"}


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        pytest.param(b"", "not a whole tar archive", id="empty"),
        pytest.param(b"<html>", "not a whole tar archive", id="page"),
        pytest.param(packed({"a": "b" * 5000})[:-20], "not a whole tar archive", id="cut gzip"),
        pytest.param(tar_of((file_entry("a"), b"b" * 900))[:700], "not a whole tar archive", id="cut tar"),
        pytest.param(b"\x1f\x8b" + b"x" * 50, "not a whole tar archive", id="damaged gzip"),
        pytest.param(tar_of(), "no files", id="no entry"),
        pytest.param(tar_of((entry_of(tarfile.DIRTYPE, "a"), b"")), "no files", id="folders alone"),
        pytest.param(tar_of((file_entry("../a"), b"")), r"an entry that leads out of it: \.\./a", id="parent"),
        pytest.param(tar_of((file_entry("a/../../b"), b"")), "an entry that leads out of it", id="parent inside"),
        pytest.param(tar_of((file_entry("/etc/passwd"), b"")), "an entry that leads out of it", id="absolute"),
        pytest.param(tar_of((file_entry("C:/x"), b"")), "an entry that leads out of it", id="drive"),
        pytest.param(tar_of((file_entry("a\\b"), b"")), "control character or a backslash", id="backslash"),
        pytest.param(tar_of((file_entry("a\nb"), b"")), "control character or a backslash", id="line break"),
        pytest.param(tar_of((file_entry("a/.GIT/hooks"), b"")), "an entry of a Git repository", id="git"),
        pytest.param(tar_of((entry_of(LINK, "a", "/etc/passwd"), b"")), "a link that leads out of it: a", id="link"),
        pytest.param(tar_of((entry_of(LINK, "a/b", "../../c"), b"")), "a link that leads out of it: a/b", id="up"),
        pytest.param(tar_of((entry_of(LINK, "a", ""), b"")), "a link that leads out of it: a", id="empty link"),
        pytest.param(tar_of((entry_of(tarfile.LNKTYPE, "a", "b"), b"")), "neither a file nor a folder", id="hard link"),
        pytest.param(tar_of((entry_of(tarfile.CHRTYPE, "a"), b"")), "neither a file nor a folder", id="device"),
        pytest.param(tar_of((entry_of(tarfile.FIFOTYPE, "a"), b"")), "neither a file nor a folder", id="pipe"),
        pytest.param(tar_of((SPARSE, b"1\n0\n1\n" + b"\0" * 506)), "not a whole|neither a file", id="sparse"),
        pytest.param(tar_of((file_entry("a"), b""), (file_entry("./a"), b"")), "two entries a", id="twice"),
        pytest.param(tar_of((file_entry("a"), b""), (file_entry("a/b"), b"")), "a as a file and as a fol", id="both"),
        pytest.param(tar_of((entry_of(LINK, "a", "b"), b""), (file_entry("a/c"), b"")), "a as a file", id="a link"),
        pytest.param(tar_of((file_entry("a"), b"x" * 1100)), "a file of more than 0 MiB: a", id="large file"),
        pytest.param(
            MANY_BYTES, "larger than GITSYNC_ARTIFACT_MIB once it is unpacked", id="large"
        ),
        pytest.param(gzip.compress(b"\0" * (1 << 20)), "no files", id="zeros"),
        pytest.param(BOMB, "larger than GITSYNC_ARTIFACT_MIB once", id="bomb"),
        pytest.param(MANY_FILES, "more than 50", id="many"),
        pytest.param(header_of(1 << 30) + bytes(1024), "is", id="a header of a gigabyte"),
        pytest.param(header_of(0) * 20, "not a whole|no files", id="headers of headers"),
        pytest.param(gzip.compress(header_of(0) * 5000), "not a whole", id="headers without end"),
        pytest.param(gzip.compress(gzip.compress(FILES)), "not a whole", id="gzip in gzip"),
        pytest.param(b"PK\x03\x04" + bytes(600), "not a whole", id="zip"),
    ],
)  # fmt: skip
def test_an_archive_of_a_registry_is_refused(servers: Servers, archive: bytes, says: str) -> None:
    servers.web.push((FLUX_LAYER, archive))

    line = servers.artifact()

    assert "/team/web 1.0.0: the archive " in line
    assert re.search(says, line)


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        pytest.param(tar_of(CHART, (file_entry("b/a"), b"")), "outside of the one folder", id="two folders"),
        pytest.param(tar_of(CHART, (file_entry("README"), b"")), "outside of the one folder", id="file beside"),
        pytest.param(tar_of((file_entry("Chart.yaml"), b"")), "outside of the one folder", id="no folder"),
        pytest.param(tar_of((file_entry("web/values.yaml"), b"")), "has no Chart.yaml", id="no chart"),
        pytest.param(tar_of((file_entry("web/web/Chart.yaml"), b"")), "has no Chart.yaml", id="too deep"),
        pytest.param(tar_of((entry_of(LINK, "web/Chart.yaml", "../../../etc/passwd"), b"")), "a link that", id="out"),
        pytest.param(tar_of(CHART, (file_entry("web/../../x"), b"")), "leads out of it: web/", id="path"),
        pytest.param(tar_of(CHART, (file_entry("web/charts/a.tgz"), b"x" * 1100)), "more than 0 MiB", id="dependency"),
    ],
)
def test_an_archive_that_is_no_chart_is_refused(servers: Servers, archive: bytes, says: str) -> None:
    servers.put_index(INDEX, {"version": "1.0.0", "digest": digest_of(archive)})
    servers.web.put("/bad/web.tgz", archive)

    assert re.search(says, servers.chart())


def layer(**members: Any) -> dict[str, Any]:
    return {"mediaType": FLUX_LAYER, "digest": digest_of(FILES), "size": len(FILES), **members}


@pytest.mark.parametrize(
    ("members", "says"),
    [
        pytest.param({"layers": "all"}, "has no layers", id="layers are a text"),
        pytest.param({"layers": {"0": layer()}}, "has no layers", id="layers are a mapping"),
        pytest.param({"layers": [layer()] * 40}, "has 40 layers", id="image"),
        pytest.param({"layers": [layer(mediaType=["x"])]}, "has 0 layers", id="type is a list"),
        pytest.param({"layers": [layer(mediaType={})]}, "has 0 layers", id="type is a mapping"),
        pytest.param({"layers": [layer(size="9")]}, "larger than the limit", id="size is a text"),
        pytest.param({"layers": [layer(size=1 << 60)]}, "raise GITSYNC_ARTIFACT_MIB", id="size of an exabyte"),
        pytest.param({"layers": [layer(size=1e300)]}, "larger than the limit", id="size is a float"),
        pytest.param({"layers": [layer(digest="md5:1")]}, "answers 404", id="md5"),
        pytest.param({"layers": [layer(digest=7)]}, "answers 404", id="digest is a number"),
        pytest.param({"layers": [layer(digest="../manifests/1.0.0")]}, "answers 404|other content", id="path"),
        pytest.param({"layers": [layer(digest="a b\nc")]}, "cannot be reached|404", id="line break"),
        pytest.param({"layers": [layer(digest=f"sha256:{'0' * 64}")]}, "answers 404", id="missing layer"),
        pytest.param({"layers": [layer(mediaType=CHART_LAYER)]}, "outside of the one folder", id="not a chart"),
        pytest.param({"manifests": [layer()], "layers": None}, "as an index of images", id="index"),
    ],
)
def test_a_manifest_of_the_wrong_form_is_refused(servers: Servers, members: dict[str, Any], says: str) -> None:
    servers.web.push((FLUX_LAYER, FILES))
    servers.web.push(**members)

    assert re.search(says, servers.artifact())


def signed_by(realm: str) -> dict[str, Any]:
    """Return the answer of a registry that sends its readers to a token server."""
    return {"status": 401, "WWW-Authenticate": f'Bearer realm="{realm}"'}


@pytest.mark.parametrize(
    ("path", "answer", "says"),
    [
        pytest.param("LAYER", {"body": b"other"}, "with other content, of the digest", id="lies about a layer"),
        pytest.param("DIGEST", {"body": b"{}"}, "with other content, of the digest", id="lies about a manifest"),
        pytest.param("LAYER", {"body": b"x" * 40_000}, "more than the limit", id="layer without end"),
        pytest.param(MANIFEST, {"body": b"[" * 100_000}, "is not a manifest", id="lists in lists"),
        pytest.param(MANIFEST, {"body": b"\xff\xfe"}, "is not a manifest", id="no text"),
        pytest.param(MANIFEST, {"body": b"x" * (9 << 20)}, "limit", id="manifest without end"),
        pytest.param(MANIFEST, {"status": 418}, "answers 418", id="teapot"),
        pytest.param(MANIFEST, {"status": 302, "Location": MANIFEST}, "redirects more than 5", id="circle"),
        pytest.param(MANIFEST, {"status": 302, "Location": "file:///etc/passwd"}, "else than https", id="file"),
        pytest.param(MANIFEST, {"status": 307, "Location": "gopher://a/x"}, "else than https", id="gopher"),
        pytest.param(MANIFEST, {"status": 302, "Location": "http://169.254.1.1/x"}, "else than https", id="metadata"),
        pytest.param(MANIFEST, {"status": 302}, "answers 302", id="redirect to nothing"),
        pytest.param(MANIFEST, {"status": 302, "Location": "https://["}, "else than https", id="no address"),
        pytest.param(MANIFEST, {"status": 401}, "answers 401", id="denied without a challenge"),
        pytest.param(MANIFEST, signed_by("file:///etc/passwd"), "without TLS", id="token of a file"),
        pytest.param(MANIFEST, signed_by(""), "without TLS", id="no token server"),
        pytest.param(MANIFEST, signed_by("http://["), "without TLS", id="token server without address"),
        pytest.param(MANIFEST, signed_by("HOST/loop"), "redirects more than 5", id="circle of the token server"),
        pytest.param(MANIFEST, signed_by("HOST/token"), "cannot be reached", id="token with a line break"),
    ],
)  # fmt: skip
def test_a_registry_that_lies_is_refused(servers: Servers, path: str, answer: dict[str, Any], says: str) -> None:
    digest = servers.web.push((FLUX_LAYER, FILES))
    servers.web.put("/loop", status=302, Location="/loop")
    servers.web.put("/token", json.dumps({"token": "a\r\nHost: evil"}))
    places = {"LAYER": f"/v2/team/web/blobs/{digest_of(FILES)}", "DIGEST": f"/v2/team/web/manifests/{digest}"}
    own = f"http://127.0.0.1:{servers.web.port}"
    headers: dict[str, Any] = {
        name: value.replace("HOST", own) if isinstance(value, str) else value for name, value in answer.items()
    }
    servers.web.put(places.get(path, path), **headers)

    assert re.search(says, servers.artifact())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param({"body": "null"}, "did not answer with tags", id="null"),
        pytest.param({"body": '{"tags": 7}'}, "did not answer with tags", id="a number"),
        pytest.param({"body": '{"tags": [1, null, {}]}'}, "no version of", id="numbers"),
        pytest.param({"body": '{"tags": ["../../x", "1 2", "-"]}'}, "no version of", id="tags are paths"),
        pytest.param({"body": "[" * 9999}, "did not answer with tags", id="lists in lists"),
        pytest.param({"body": '{"tags": []}', "Link": f"<{TAGS}?a>; rel=next"}, "no version of", id="endless pages"),
        pytest.param({"body": '{"tags": []}', "Link": "<https://e.example>; rel=next"}, "no version", id="page away"),
        pytest.param({"body": '{"tags": []}', "Link": "<https://[>; rel=next"}, "no version", id="page of no address"),
    ],
)  # fmt: skip
def test_a_list_of_tags_of_the_wrong_form_is_refused(servers: Servers, answer: dict[str, Any], says: str) -> None:
    servers.web.put(TAGS, **answer)

    assert re.search(says, servers.artifact(">=1"))


@pytest.mark.parametrize(
    ("release", "says"),
    [
        pytest.param({"urls": ["file:///etc/passwd"]}, "else than https", id="file"),
        pytest.param({"urls": ["ftp://a.example/web.tgz"]}, "else than https", id="ftp"),
        pytest.param({"urls": ["//evil.example/web.tgz"]}, "else than https", id="other host"),
        pytest.param({"urls": ["http://["]}, "https|reached", id="no address"),
        pytest.param({"urls": ["web.tgz\nx"]}, "reached|404", id="line break"),
        pytest.param({"urls": [None]}, "no version of web with a URL", id="no text"),
        pytest.param({"digest": f"sha256:{'0' * 64}"}, "lists sha256:000", id="another digest"),
        pytest.param({"digest": "md5:1"}, "lists sha256:md5:1", id="md5"),
        pytest.param({"digest": "../../x"}, r"lists sha256:\.\./", id="digest is a path"),
        pytest.param({"digest": ["a"]}, "no version of web with a URL", id="digest is a list"),
        pytest.param({"version": "2.0.0"}, "has no version '1.0.0'", id="another version"),
        pytest.param({"version": ["1.0.0"]}, "no version of web with a URL", id="version is a list"),
    ],
)
def test_a_release_of_the_wrong_form_is_refused(servers: Servers, release: dict[str, Any], says: str) -> None:
    servers.put_index(INDEX, {"version": "1.0.0", **release})
    servers.web.put("/bad/web.tgz", CHART_ARCHIVE)

    assert re.search(says, servers.chart())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param({"body": b"\xff\x00" * 50}, "is not valid", id="no text"),
        pytest.param({"body": "entries:\n  web: &a [*a, *a]\n"}, "is not valid", id="alias of itself"),
        pytest.param({"body": "entries:\n  web: [" + "[" * 5000}, "is not valid", id="lists in lists"),
        pytest.param({"body": '{"entries": {"web": ["1.0.0"]}}'}, "no version of web", id="entries are texts"),
        pytest.param({"body": '{"entries": {"web": {"1.0.0": {}}}}'}, "no version of web", id="entries are a mapping"),
        pytest.param({"status": 302, "Location": INDEX}, "redirects more than 5", id="circle"),
        pytest.param({"status": 302, "Location": "file:///etc/passwd"}, "else than https", id="file"),
        pytest.param({"body": "<html>" * 500}, "has no entries", id="page"),
    ],
)
def test_an_index_of_the_wrong_form_is_refused(servers: Servers, answer: dict[str, Any], says: str) -> None:
    servers.web.put(INDEX, **answer)

    assert re.search(says, servers.chart())
