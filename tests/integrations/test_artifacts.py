"""Helm repositories and OCI registries over real HTTP; what lies, redirects or is too large is one line."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gitsync.errors import InvalidInput, MissingRevision, SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.integrations.artifacts import CHART_LAYER, FLUX_LAYER, ArtifactClient, chart_entries
from gitsync.integrations.registry import digest_of
from gitsync.ports import Credentials
from gitsync.ports.source import Artifact, ArtifactAccess, ArtifactSignature
from tests.cosign import (
    BOB,
    BUNDLE,
    SIGNATURE_ARTIFACT,
    bundle_layer,
    envelope,
    put_manifest,
    refer,
    sign_by_tag,
    signature,
    simple_layer,
)
from tests.fakes.artifacts import ArtifactWeb, artifact_web, chart_archive, packed

LIMIT = 1 << 20
SIGNED = f"Basic {base64.b64encode(b'ann:secret').decode()}"
CHART = chart_archive()
OTHER = chart_archive("2.0.0")


@pytest.fixture
def web() -> Iterator[ArtifactWeb]:
    with artifact_web() as served:
        yield served


def release(version: str, archive: bytes, url: str) -> dict[str, Any]:
    return {"name": "web", "version": version, "digest": hashlib.sha256(archive).hexdigest(), "urls": [url]}


def index_of(*releases: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "entries": {"web": list(releases)}})


CHART_URL = "helm+http://{}/stable/web"


@pytest.fixture
def repository(web: ArtifactWeb) -> ArtifactWeb:
    """A Helm repository with two versions of ``web``."""
    web.put(
        "/stable/index.yaml", index_of(release("1.0.0", CHART, "web-1.tgz"), release("2.0.0", OTHER, "/a/web-2.tgz"))
    )
    web.put("/stable/web-1.tgz", CHART)
    web.put("/a/web-2.tgz", OTHER)
    return web


@pytest.mark.parametrize(("version", "archive"), [("1.0.0", CHART), ("2.0.0", OTHER)])
def test_a_chart_is_pulled_by_the_url_of_the_index(repository: ArtifactWeb, version: str, archive: bytes) -> None:
    client = ArtifactClient()
    access = repository.access(CHART_URL)
    assert client.versions(access) == {"1.0.0": digest_of(CHART), "2.0.0": digest_of(OTHER)}
    artifact = client.find(access, version)
    assert artifact == Artifact(version, digest_of(archive))
    pulled = client.pull(access, artifact, LIMIT)
    assert (pulled.archive, pulled.is_chart) == (archive, True)


def test_an_unchanged_index_is_not_sent_again(repository: ArtifactWeb) -> None:
    client = ArtifactClient()
    status, body, _ = repository.answers["/stable/index.yaml"]
    repository.answers["/stable/index.yaml"] = (status, body, {"ETag": '"1"'})
    access = repository.access(CHART_URL)
    assert client.versions(access) == client.versions(access)
    repository.put("/stable/index.yaml", index_of(release("3.0.0", CHART, "web-1.tgz")), ETag='"2"')
    assert list(client.versions(access)) == ["3.0.0"]


def test_a_password_stays_at_the_host_of_the_repository(repository: ArtifactWeb) -> None:
    elsewhere = f"http://localhost:{repository.port}/a/web-2.tgz"
    repository.put(
        "/stable/index.yaml", index_of(release("1.0.0", CHART, "web-1.tgz"), release("2.0.0", OTHER, elsewhere))
    )
    client = ArtifactClient()
    access = repository.access(CHART_URL, "secret")
    for version in ("1.0.0", "2.0.0"):
        client.pull(access, client.find(access, version), LIMIT)
    sent = dict(repository.requests)
    assert sent == {"/stable/index.yaml": SIGNED, "/stable/web-1.tgz": SIGNED, "/a/web-2.tgz": ""}


def test_a_redirect_to_another_host_gets_no_password(repository: ArtifactWeb) -> None:
    repository.put("/stable/web-1.tgz", status=302, Location=f"http://localhost:{repository.port}/storage")
    repository.put("/storage", CHART)
    client = ArtifactClient()
    access = repository.access(CHART_URL, "secret")
    assert client.pull(access, client.find(access, "1.0.0"), LIMIT).archive == CHART
    assert repository.requests[-2:] == [("/stable/web-1.tgz", SIGNED), ("/storage", "")]


def refused(web: ArtifactWeb, url: str = CHART_URL, version: str = "1.0.0") -> str:
    """Return the one line by which a version is refused."""
    client = ArtifactClient()
    access = web.access(url)
    with pytest.raises((InvalidInput, SourceUnavailable)) as caught:
        client.pull(access, client.find(access, version), LIMIT)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_archive_than_the_index_lists_is_refused(repository: ArtifactWeb) -> None:
    repository.put("/stable/web-1.tgz", OTHER)
    assert f"has the digest {digest_of(OTHER)}, and the index of http://" in refused(repository)


def test_redirects_end(repository: ArtifactWeb) -> None:
    repository.put("/stable/web-1.tgz", status=302, Location="/stable/web-1.tgz")
    assert "the server redirects more than 5 times" in refused(repository)
    assert repository.paths().count("/stable/web-1.tgz") == 6


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://a.example/x", "http://ann:x@a.example/x"])
def test_a_redirect_leads_to_the_web_alone(repository: ArtifactWeb, location: str) -> None:
    repository.put("/stable/web-1.tgz", status=302, Location=location)
    assert "by something else than https" in refused(repository)


def test_a_redirect_leads_to_no_host_without_tls(repository: ArtifactWeb) -> None:
    repository.put("/stable/web-1.tgz", status=302, Location="http://other.example/web.tgz")
    own = f"http://127.0.0.1:{repository.port}/"
    access = ArtifactAccess(
        CHART_URL.replace("{}", f"127.0.0.1:{repository.port}"),
        Credentials(),
        plain=lambda url: url.startswith(own),
    )
    client = ArtifactClient()
    with pytest.raises(InvalidInput, match="by something else than https"):
        client.pull(access, client.find(access, "1.0.0"), LIMIT)


def test_an_archive_above_the_limit_is_not_read(repository: ArtifactWeb) -> None:
    repository.put("/stable/web-1.tgz", b"x" * (LIMIT + 1))
    assert "sends more than the limit of 1 MiB" in refused(repository)


def test_an_archive_that_breaks_off_is_asked_again(repository: ArtifactWeb) -> None:
    repository.put("/stable/web-1.tgz", CHART, Content_Length=str(len(CHART) + 5))
    client = ArtifactClient()
    access = repository.access(CHART_URL)
    with pytest.raises(SourceUnavailable, match="the server cannot be reached"):
        client.pull(access, client.find(access, "1.0.0"), LIMIT)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, SourceDenied), (403, SourceDenied), (404, InvalidInput), (429, SourceThrottled), (503, SourceUnavailable)],
)
def test_another_status_of_an_index_is_an_error(web: ArtifactWeb, status: int, error: type[Exception]) -> None:
    web.put("/stable/index.yaml", status=status)
    with pytest.raises(error, match=f"the index of http://.*/stable: the server answers {status}"):
        ArtifactClient().versions(web.access(CHART_URL))


def test_a_version_that_is_missing_has_similar_ones(repository: ArtifactWeb) -> None:
    with pytest.raises(MissingRevision, match=r"no version '1\.0' in http.*write a version such as 1\.0\.0"):
        ArtifactClient().find(repository.access(CHART_URL), "1.0")


INDEX = """\
# written by a server
apiVersion: v1
entries:
  # all of them
  "a b":
    - version: 9.0.0

  web:
  - name: web
    version: 1.0.0
    description: |
      entries:
        db:
    urls: [web.tgz]
  - version: '2.0.0'
  db: []
  web-extra:
  - version: 3.0.0
generated: "2026-01-01"
serverInfo:
  web:
  - version: 7.0.0
"""


@pytest.mark.parametrize("index", [INDEX, INDEX.replace("\n", "\r\n"), INDEX.replace("  web:", "  'web':")])
def test_entries_of_one_chart_are_read_from_an_index(index: str) -> None:
    assert [entry["version"] for entry in chart_entries(index, "web", "r")] == ["1.0.0", "2.0.0"]
    assert [entry["version"] for entry in chart_entries(index, "a b", "r")] == ["9.0.0"]
    assert chart_entries(index, "db", "r") == []


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("", "is not valid: it has no entries"),
        ("<html>", "is not valid: it has no entries"),
        ("apiVersion: v1\nentries: {}\n", "is not valid: it has no entries"),
        ('{"entries": []}', "is not valid: it has no entries"),
        ('{"entries"', "is not valid"),
        ('{"entries":' + '{"a":' * 100_000, "is not valid"),
        ("entries:\n", "has no chart web; correct"),
        ("entries:\n  wed:\n  - version: 1\n", "has no chart web; similar names: wed"),
        ('{"entries": {"wed": []}}', "has no chart web; similar names: wed"),
        ("entries:\n  web:\n  - {\n", "is not valid"),
    ],
)
def test_an_index_that_cannot_be_read_is_one_line(index: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        chart_entries(index, "web", "https://charts.example.com")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"version": "1.0.0", "digest": "0" * 64},
        {"version": "1.0.0", "digest": "0" * 64, "urls": []},
        {"version": "1.0.0", "digest": "0" * 64, "urls": [{}]},
        {"version": "1.0.0", "digest": "0" * 64, "urls": "web.tgz"},
        {"version": "1.0.0", "urls": ["web.tgz"]},
        {"version": 1.0, "digest": "0" * 64, "urls": ["web.tgz"]},
    ],
)
def test_a_version_without_url_or_digest_is_not_listed(web: ArtifactWeb, entry: dict[str, Any]) -> None:
    web.put("/stable/index.yaml", index_of(entry))
    assert "lists no version of web with a URL and a digest" in refused(web)


OCI_URL = "oci://{}/team/web"


FILES = packed({"deploy/web.yaml": "kind: ConfigMap\n"})


@pytest.mark.parametrize(
    ("layers", "is_chart"),
    [
        ([(CHART_LAYER, CHART)], True),
        ([("application/vnd.cncf.helm.chart.provenance.v1.prov", b"signed"), (CHART_LAYER, CHART)], True),
        ([(FLUX_LAYER, FILES)], False),
        ([("application/vnd.oci.image.layer.v1.tar+gzip", FILES)], False),
    ],
    ids=["chart", "chart with provenance", "flux", "argo cd"],
)
def test_the_layer_of_an_artifact_is_pulled(web: ArtifactWeb, layers: list[tuple[str, bytes]], is_chart: bool) -> None:
    created = {"org.opencontainers.image.created": "2023-11-14T22:13:20Z"}
    notes = {**created, "org.opencontainers.image.revision": "main@sha1:abc"}
    digest = web.push(*layers, annotations=notes)
    client = ArtifactClient()
    access = web.access(OCI_URL)
    assert client.find(access, "1.0.0") == Artifact("1.0.0", digest)
    assert client.find(access, digest) == Artifact(digest, digest)
    pulled = client.pull(access, Artifact("1.0.0", digest), LIMIT)
    assert (pulled.archive, pulled.is_chart) == (layers[-1][1], is_chart)
    assert (pulled.created, pulled.revision) == (1_700_000_000, "main@sha1:abc")


def test_tags_of_charts_are_versions(web: ArtifactWeb) -> None:
    web.push((CHART_LAYER, CHART), tag="1.2.3_b.1")
    web.put("/v2/team/web/tags/list", json.dumps({"tags": ["latest", "1.0.0", "1.2.3_b.1", "my_tag"]}))
    client = ArtifactClient()
    # a tag has no +, for which Helm writes _
    assert list(client.versions(web.access(OCI_URL))) == ["latest", "1.0.0", "1.2.3+b.1", "my_tag"]
    assert client.find(web.access(OCI_URL), "1.2.3+b.1").version == "1.2.3+b.1"


def test_a_tag_that_is_missing_is_polled_again(web: ArtifactWeb) -> None:
    with pytest.raises(MissingRevision, match=r"the registry has no 9\.9\.9 of team/web"):
        ArtifactClient().find(web.access(OCI_URL), "9.9.9")
    with pytest.raises(MissingRevision, match="the registry answers 404 for team/web"):
        ArtifactClient().versions(web.access(OCI_URL))


def test_a_registry_that_denies_names_the_secret(web: ArtifactWeb) -> None:
    web.put("/v2/team/web/manifests/1.0.0", status=403)
    with pytest.raises(SourceDenied, match=r"correct the Secret of spec\.source\.credentials"):
        ArtifactClient().find(web.access(OCI_URL, "secret"), "1.0.0")


def lying(web: ArtifactWeb, path: str, content: bytes) -> str:
    web.put(f"/v2/team/web/{path}", content)
    return refused(web, OCI_URL)


def test_a_manifest_of_another_digest_is_refused(web: ArtifactWeb) -> None:
    digest = web.push((FLUX_LAYER, FILES))
    assert f"the registry answers {digest} with other content" in lying(web, f"manifests/{digest}", b"{}")


def test_a_layer_of_another_digest_is_refused(web: ArtifactWeb) -> None:
    web.push((FLUX_LAYER, FILES))
    line = lying(web, f"blobs/{digest_of(FILES)}", b"other")
    assert f"the registry answers {digest_of(FILES)} with other content, of the digest {digest_of(b'other')}" in line


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"layers": None}, "its manifest has no layers, as an index of images"),
        ({"layers": []}, "has 0 layers with files"),
        ({"layers": [3]}, "has 0 layers with files"),
        ({"layers": [{"mediaType": "text/plain", "size": 3, "digest": "x"}]}, "has 0 layers with files"),
        ({"layers": [{"mediaType": FLUX_LAYER, "size": 3}] * 2}, "has 2 layers with files, and an artifact has one"),
        ({"layers": [{"mediaType": FLUX_LAYER}]}, "is larger than the limit of 1 MiB"),
        ({"layers": [{"mediaType": FLUX_LAYER, "size": LIMIT + 1}]}, "is larger than the limit of 1 MiB"),
        ({"layers": [{"mediaType": FLUX_LAYER, "size": 3, "digest": "../x"}]}, "the registry answers 404"),
    ],
)
def test_a_manifest_without_one_layer_of_files(web: ArtifactWeb, members: dict[str, Any], says: str) -> None:
    web.push(**members)
    assert says in refused(web, OCI_URL)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b'"x"', b'{"a":' * 100_000])
def test_what_is_not_a_manifest_is_one_line(web: ArtifactWeb, body: bytes) -> None:
    assert "what the registry has for 1.0.0 is not a manifest" in lying(web, "manifests/1.0.0", body)


def test_a_layer_larger_than_it_says_is_not_read(web: ArtifactWeb) -> None:
    content = b"x" * (LIMIT + 1)
    web.push(layers=[{"mediaType": FLUX_LAYER, "size": 3, "digest": digest_of(content)}])
    assert "sends more than the limit of 1 MiB" in lying(web, f"blobs/{digest_of(content)}", content)


@pytest.mark.parametrize("created", ["yesterday", "", "9999999-01-01T00:00:00Z", "1900-01-01T00:00:00Z"])
def test_an_odd_time_of_an_artifact_counts_as_none(web: ArtifactWeb, created: str) -> None:
    notes = {"org.opencontainers.image.created": created}
    digest = web.push((FLUX_LAYER, FILES), annotations=notes)
    assert ArtifactClient().pull(web.access(OCI_URL), Artifact("1", digest), LIMIT).created == 0


DIGEST = f"sha256:{'a' * 64}"


def signatures_in(web: ArtifactWeb) -> tuple[ArtifactSignature, ...]:
    return ArtifactClient().signatures(web.access("oci://{}/team/web"), DIGEST)


def test_signatures_are_read_from_the_tag_of_a_digest(web: ArtifactWeb) -> None:
    own = (signature(DIGEST), signature(DIGEST, BOB))
    sign_by_tag(web, DIGEST, *own)
    assert signatures_in(web) == own


@pytest.mark.parametrize("has_api", [True, False])
def test_signatures_are_read_from_what_refers_to_a_digest(web: ArtifactWeb, has_api: bool) -> None:
    plain, enveloped = signature(DIGEST), envelope(DIGEST)
    sbom = put_manifest(web, (b"{}", {"mediaType": "text/plain"}))
    refer(
        web,
        DIGEST,
        ("application/spdx+json", sbom),
        (SIGNATURE_ARTIFACT, put_manifest(web, simple_layer(plain))),
        (BUNDLE, put_manifest(web, bundle_layer(enveloped))),
        (BUNDLE, f"sha256:{'0' * 64}"),
        has_api=has_api,
    )
    assert signatures_in(web) == (plain, enveloped)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"dsseEnvelope": {"payload": "?", "signatures": 1}}', b'{"dsseEnvelope": []}', b"[" * 9999],
)
def test_a_bundle_that_is_none_is_no_signature(web: ArtifactWeb, content: bytes) -> None:
    refer(web, DIGEST, (BUNDLE, put_manifest(web, (content, {"mediaType": BUNDLE}))))
    assert signatures_in(web) == ()


def test_an_artifact_without_signatures_has_none(web: ArtifactWeb) -> None:
    assert signatures_in(web) == ()
    assert ArtifactClient().signatures(web.access("helm+http://{}/stable/web"), DIGEST) == ()


def test_a_registry_that_is_away_is_not_one_without_signatures(web: ArtifactWeb) -> None:
    web.put(f"/v2/team/web/referrers/{DIGEST}", status=503)
    with pytest.raises(SourceUnavailable):
        signatures_in(web)


def test_a_signed_statement_of_another_digest_is_refused(web: ArtifactWeb) -> None:
    sign_by_tag(web, DIGEST, signature(DIGEST))
    web.put(f"/v2/team/web/blobs/{digest_of(signature(DIGEST).statement)}", b"other")
    with pytest.raises(InvalidInput, match="with other content"):
        signatures_in(web)
