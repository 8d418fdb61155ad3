"""Registries by the distribution API: the tags of a repository, and manifests and blobs by tag and digest."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import orjson

from gitsync.errors import InvalidInput, MissingRevision, SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.integrations.http import Downloads, RequestFailed, WebAnswer, joined
from gitsync.objects.manifest import at as member_at

_TIMEOUT: Final = 15.0
"""Seconds that one request may wait for its answer."""
_HANDSHAKE: Final = 3.0
"""Seconds for a handshake with a server of this machine; one without TLS may wait for the rest of a request."""
_MAX_BYTES: Final = 4 << 20
_MOST_PAGES: Final = 20
"""Pages of tags that are read; registries return 100 to 1,000 tags a page."""
_DEFAULT_DELAY: Final = 60.0
SHA256: Final = "sha256:"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_WITHOUT_REFERRERS: Final = (400, 404, 405)
"""How registries answer that have no API of referrers."""
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_PUSH: Final = "pull,push"
"""What a token is requested for where something is written."""
_MANIFESTS: Final = ", ".join(
    (
        # the index first: its digest is the same for every platform
        _INDEX,
        "application/vnd.docker.distribution.manifest.list.v2+json",
        OCI_MANIFEST,
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_REPOSITORY: Final = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class _Location(NamedTuple):
    """A repository at a registry, whose server is a scheme with a host."""

    server: str
    repository: str

    @property
    def url(self) -> str:
        return f"{self.server}/v2/{self.repository}"


class Registries:
    """
    Read and write registries over HTTPS, those that ``downloads`` allows over HTTP too.

    ``passwords`` returns the user and password for a registry's host, None without. They go to that host, and to the
    token server that its answer names, where that has TLS.
    """

    def __init__(self, passwords: Callable[[str], tuple[str, str] | None], downloads: Downloads | None = None) -> None:
        self._passwords = passwords
        self._downloads = downloads or Downloads(is_plain=is_loopback, seconds=_TIMEOUT)
        self._tokens: dict[tuple[str, str, str], str] = {}

    def tags(self, image: str) -> tuple[str, ...]:
        """Return the tags of an image by its name without a tag; raise SourceUnavailable and its kin, InvalidInput."""
        return tuple(self._pages(self._located(image)))

    def _pages(self, at: _Location) -> Iterator[str]:
        url = f"{at.url}/tags/list?n=1000"
        for _ in range(_MOST_PAGES):
            answer = self._request("GET", url, at, {"Accept": "application/json"})
            try:
                tags = orjson.loads(answer.body).get("tags") or ()
                yield from (tag for tag in tags if isinstance(tag, str))
            except (ValueError, AttributeError, TypeError) as error:
                raise SourceUnavailable("the registry did not answer with tags", location=at.server) from error
            link = re.match(r'\s*<([^>]+)>\s*;\s*rel="?next"?', answer.headers.get("Link", ""))
            if link is None:
                return
            following = joined(url, link[1])
            # the token is for this registry alone
            if urlsplit(following)[:2] != urlsplit(at.server)[:2] or following == url:
                return
            url = following

    def digest(self, image: str, tag: str) -> str:
        """Return the digest of a tag; raise InvalidInput where the registry has other content for the one it names."""
        # computed from the content: a digest that nothing has would be written to Git, and no Pod could pull it
        return self.manifest(image, self.named_digest(image, tag) or tag)[0]

    def named_digest(self, image: str, tag: str) -> str:
        """Return the digest that the registry names for a tag, empty where it names none; its content is not read."""
        at = self._located(image)
        # HEAD is not counted by the limits of Docker Hub
        answer = self._request("HEAD", f"{at.url}/manifests/{tag}", at, {"Accept": _MANIFESTS})
        named = str(answer.headers.get("Docker-Content-Digest", ""))
        if named and not _DIGEST.fullmatch(named):
            raise InvalidInput(
                "the registry names something else than a digest", location=f"{at.server}/{at.repository}"
            )
        return named

    def manifest(self, image: str, reference: str) -> tuple[str, dict[str, Any]]:
        """Return the digest of a manifest, computed here, and its members; ``reference`` is a tag or a digest."""
        at = self._located(image)
        headers = {"Accept": _MANIFESTS}
        answer = self._request("GET", f"{at.url}/manifests/{reference}", at, headers, accepts=(200, 404))
        if answer.status == 404:
            raise MissingRevision(
                f"the registry has no {reference} of {at.repository}",
                location=urlsplit(at.server).netloc,
                hint="push it, or correct the name or the tag",
            )
        digest = digest_of(answer.body)
        if reference.startswith(SHA256) and digest != reference:
            raise _other_content(reference, digest, at)
        try:
            manifest = orjson.loads(answer.body)
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict):
            raise InvalidInput(
                f"what the registry has for {reference} is not a manifest", location=f"{at.server}/{at.repository}"
            )
        return digest, manifest

    def referrers(self, image: str, digest: str) -> tuple[dict[str, Any], ...]:
        """
        Return the descriptors of what refers to a manifest: signatures and the like.

        Registries without the API for it have a tag instead. Source: OCI Distribution Specification 1.1, "Listing
        Referrers" and "Referrers Tag Schema".
        """
        at = self._located(image)
        answer = self._request(
            "GET", f"{at.url}/referrers/{digest}", at, {"Accept": _INDEX}, accepts=(200, *_WITHOUT_REFERRERS)
        )
        try:
            if answer.status == 200:
                index = orjson.loads(answer.body)
            else:
                _, index = self.manifest(image, digest.replace(":", "-"))
        except MissingRevision:
            return ()
        except ValueError as error:
            raise SourceUnavailable("the registry did not answer with referrers", location=at.server) from error
        listed = member_at(index, "manifests", default=())
        return tuple(item for item in listed if isinstance(item, dict)) if isinstance(listed, list) else ()

    def created(self, image: str, reference: str) -> str:
        """
        Return when an image was built, as its configuration has it, empty where it names no time.

        Of an image for several platforms that is the time of the first one. Source: OCI Image Format, "Image
        Configuration".
        """
        _, manifest = self.manifest(image, reference)
        platforms = manifest.get("manifests")
        if isinstance(platforms, list) and platforms:
            _, manifest = self.manifest(image, str(member_at(platforms[0], "digest", default="")))
        digest = str(member_at(manifest, "config", "digest", default=""))
        if not _DIGEST.fullmatch(digest):
            return ""
        try:
            configuration = orjson.loads(self.blob(image, digest, _MAX_BYTES))
        except ValueError:
            return ""
        return str(member_at(configuration, "created", default=""))

    def blob(self, image: str, digest: str, max_bytes: int) -> bytes:
        """Return a blob; raise InvalidInput where it is larger, or not what its digest names."""
        at = self._located(image)
        # without Accept: registries answer a blob with their redirect or its bytes
        content = self._request("GET", f"{at.url}/blobs/{digest}", at, {}, max_bytes=max_bytes).body
        if digest_of(content) != digest:
            raise _other_content(digest, digest_of(content), at)
        return content

    def put_blob(self, image: str, content: bytes) -> str:
        """Upload a blob unless the registry has it, and return its digest."""
        at = self._located(image)
        digest = digest_of(content)
        if self._request("HEAD", f"{at.url}/blobs/{digest}", at, {}, accepts=(200, 404), right=_PUSH).status == 200:
            return digest
        opened = self._request("POST", f"{at.url}/blobs/uploads/", at, {}, body=b"", accepts=(202,), right=_PUSH)
        # the state of an upload is in the query of its address, to which the digest is added
        location = joined(f"{at.server}/", opened.headers.get("Location", ""))
        if urlsplit(location)[:2] != urlsplit(at.server)[:2]:
            raise SourceUnavailable("the registry wants the upload at another host", location=at.server)
        target = f"{location}{'&' if '?' in location else '?'}{urlencode({'digest': digest})}"
        binary = {"Content-Type": "application/octet-stream"}
        self._request("PUT", target, at, binary, body=content, accepts=(201,), right=_PUSH)
        return digest

    def put_manifest(self, image: str, tag: str, content: bytes) -> str:
        """Upload a manifest under a tag, and return its digest."""
        at = self._located(image)
        headers = {"Content-Type": OCI_MANIFEST}
        self._request("PUT", f"{at.url}/manifests/{tag}", at, headers, body=content, accepts=(201,), right=_PUSH)
        return digest_of(content)

    def _located(self, image: str) -> _Location:
        server, repository = _located(image)
        if self._downloads.is_plain(f"http://{urlsplit(server).netloc}/"):
            server = server.replace("https://", "http://", 1)
        return _Location(server, repository)

    def _request(
        self,
        method: str,
        url: str,
        at: _Location,
        headers: Mapping[str, str],
        *,
        body: bytes | None = None,
        accepts: Collection[int] = (200,),
        right: str = "pull",
        max_bytes: int = _MAX_BYTES,
    ) -> WebAnswer:
        key = (at.server, at.repository, right)
        token = self._tokens.get(key, "")
        answer = self._send(method, url, _signed(headers, token), max_bytes, body)
        if answer.status == 401:
            token = self._authorization(at, answer.headers.get("WWW-Authenticate", ""), right)
            self._tokens[key] = token
            answer = self._send(method, url, _signed(headers, token), max_bytes, body)
        if answer.status in accepts:
            return answer
        what = f"the registry answers {answer.status} for {at.repository}"
        server = urlsplit(at.server).netloc
        if answer.status == 429:
            after = answer.headers.get("Retry-After", "")
            raise SourceThrottled(
                what, location=server, retry_after=float(after) if after.isdecimal() else _DEFAULT_DELAY
            )
        if answer.status in (401, 403):
            raise SourceDenied(what, location=server, hint="sign in: docker login, or another entry of its config file")
        if answer.status == 404:
            raise MissingRevision(what, location=server, hint="does the repository exist, and has it a tag?")
        if answer.status < 500:
            raise InvalidInput(what, location=server)
        raise SourceUnavailable(what, location=server)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], max_bytes: int, body: bytes | None = None
    ) -> WebAnswer:
        try:
            return self._downloads.send(method, url, headers, max_bytes, body)
        except RequestFailed as error:
            kind = SourceUnavailable if error.retryable else InvalidInput
            raise kind(f"the registry {error}", location=urlsplit(url).netloc) from error

    def _authorization(self, at: _Location, challenge: str, right: str) -> str:
        """Return the header that a challenge asks for: https://distribution.github.io/distribution/spec/auth/token/"""
        password = self._passwords(urlsplit(at.server).netloc)
        basic = "Basic " + base64.b64encode(":".join(password).encode()).decode() if password else ""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() != "bearer":
            return basic
        members = dict(_CHALLENGE.findall(rest))
        realm = urlsplit(joined("", members.get("realm", "")))
        if realm.scheme != "https" and not self._downloads.is_plain(realm.geturl()):
            raise SourceDenied("the registry names a token server without TLS", location=at.server)
        query = {"service": members.get("service", ""), "scope": f"repository:{at.repository}:{right}"}
        headers = {"Authorization": basic} if basic else {}
        answer = self._send("GET", f"{realm.geturl()}?{urlencode(query)}", headers, _MAX_BYTES)
        try:
            body = orjson.loads(answer.body) if answer.status == 200 else {}
            token = body.get("token") or body.get("access_token") or ""
        except (ValueError, AttributeError):
            token = ""
        return f"Bearer {token}"


def _signed(headers: Mapping[str, str], token: str) -> dict[str, str]:
    return {**headers, **({"Authorization": token} if token else {})}


def digest_of(content: bytes) -> str:
    """Return the digest by which a registry names content."""
    return f"{SHA256}{hashlib.sha256(content).hexdigest()}"


def _other_content(wanted: str, digest: str, at: _Location) -> InvalidInput:
    return InvalidInput(
        f"the registry answers {wanted} with other content, of the digest {digest}",
        location=f"{urlsplit(at.server).netloc}/{at.repository}",
        hint="push the artifact again, or name another registry",
    )


def is_loopback(url: str) -> bool:
    """Return whether a URL is of this machine, which container engines reach over HTTP too."""
    return urlsplit(url).hostname in _LOOPBACK


@lru_cache(maxsize=8)
def speaks_tls(host: str, port: int) -> bool:
    """Return whether the server at a port accepts TLS, with whatever certificate: container engines try that first."""
    context = ssl.create_default_context()
    # nothing is sent: the request that follows verifies the certificate
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_HANDSHAKE) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except OSError:  # also one that does not answer, which the request reports
        return False


def _located(image: str) -> tuple[str, str]:
    """Return the URL of the registry and the repository that an image names, as container engines read it."""
    first, slash, rest = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    host = first if is_host else "registry-1.docker.io"
    repository = rest if is_host else image if slash else f"library/{image}"
    if host == "docker.io":
        host = "registry-1.docker.io"
    if not _REPOSITORY.fullmatch(repository):
        raise InvalidInput(f"{image!r} is not the name of an image")
    return f"https://{host}", repository


def docker_passwords(file: Path) -> Callable[[str], tuple[str, str] | None]:
    """Return who signs in where, from the config file of a container engine; helpers of it are not run."""

    def password(server: str) -> tuple[str, str] | None:
        try:
            entries = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
            # Docker Hub is listed by the address of its index
            names = ("https://index.docker.io/v1/", "docker.io") if server == "registry-1.docker.io" else (server,)
            text = next((entries[name]["auth"] for name in names if entries.get(name, {}).get("auth")), "")
            user, colon, secret = base64.b64decode(text).decode().partition(":")
        except (OSError, ValueError, AttributeError, TypeError):
            return None
        return (user, secret) if colon else None

    return password
