"""
Webhooks: push events of Git servers and registries, hints to read them now, and audit events of the API server.

Which repository an event names is read from the payload of each server, with the spellings that it is known by.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import tempfile
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any, Final
from urllib.parse import parse_qs, unquote

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from gitsync.edit.images import full_name, parse_image
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.record import Push
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import AuditedWrite, edit_link, sent_writes
from gitsync.plan.field_owners import is_interactive
from gitsync.plan.running import POD, Execution
from gitsync.server.backend import Backend
from gitsync.source.refs import HEADS
from gitsync.source.validation import is_commit

# bounded before it is normalised; without spaces, queries and fragments, which no clone URL has
_URL = re.compile(r"(?:(?:https?|ssh)://)?[A-Za-z0-9._~@:/%+-]{3,500}", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9._:/@-]{1,300}", re.ASCII)
_NAMES = (
    *("clone_url", "ssh_url", "git_url", "html_url", "git_http_url", "git_ssh_url", "homepage", "url"),
    *("remoteUrl", "sshUrl", "webUrl"),  # Azure DevOps
)
# names by which servers are reached where a firewall blocks their usual port or host
_OTHER_HOSTS = {
    "ssh.github.com": "github.com",  # docs.github.com, "Using SSH over the HTTPS port"
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
# Azure DevOps: one repository has the hosts dev.azure.com and ORG.visualstudio.com, and a path of its own by SSH
_AZURE_SSH = re.compile(r"(?:ssh\.dev\.azure\.com|vs-ssh\.visualstudio\.com)/v3/([^/]+)/([^/]+)/([^/]+)")
_AZURE_OLD = re.compile(r"([^/.]+)\.visualstudio\.com/(?:defaultcollection/)?(.*)")
_AZURE_SHORT = re.compile(r"dev\.azure\.com/([^/]+)/_git/([^/]+)")
# Of more, an event may lack some: GitLab lists 20 commits, and servers shorten long lists of files.
_LISTED_COMMITS = 20
_LISTED_PATHS = 300
_BITBUCKET_PAGE = re.compile(r"(.*?/)?(projects|users)/([^/]+)/repos/([^/]+)(?:/browse)?")
_BITBUCKET_API = re.compile(r"api\.bitbucket\.org/2\.0/repositories/(.+)")


def repository_urls(payload: Any) -> frozenset[str]:
    """Return the URLs that a payload gives its repository, normalised; raise ValueError when there is none."""
    repository = _repository(payload)
    names = [repository.get(name) for name in _NAMES]
    links = repository.get("links")
    if isinstance(links, dict):
        names += _hrefs(links.get("clone"))
        names += _hrefs(links.get("html"))  # Bitbucket Cloud names no clone URL
    urls = frozenset(normal(url) for url in names if isinstance(url, str) and _URL.fullmatch(url))
    if not urls and isinstance(links, dict):
        urls = frozenset(clone for page in _hrefs(links.get("self")) for clone in _clones_of(page))
    if not urls:
        raise ValueError("no URL")
    return urls


def listed_push(payload: Any) -> Push | None:
    """
    Return the push of an event that lists the files of each of its commits, None for any other event.

    The payloads are those of GitHub, GitLab, Gitea, Forgejo and Gogs.
    """
    if not isinstance(payload, dict) or payload.get("forced"):
        return None
    ref, before, after = (str(payload.get(name)) for name in ("ref", "before", "after"))
    if not ref.startswith(HEADS) or not is_commit(before) or not is_commit(after):
        return None
    commits = payload.get("commits")
    # GitLab and Gitea count those that they leave out
    total = payload.get("total_commits_count", payload.get("total_commits", len(commits or ())))
    if not isinstance(commits, list) or total != len(commits) or not 0 < total <= _LISTED_COMMITS:
        return None
    listed = [_listed_paths(commit) for commit in commits]
    paths = frozenset(path for of_commit in listed for path in of_commit)
    # a commit without files may be a merge, whose own changes are not listed
    return Push(ref.removeprefix(HEADS), before, after, paths) if all(listed) and len(paths) <= _LISTED_PATHS else None


def _listed_paths(commit: Any) -> list[str]:
    """Return the paths that a commit of a push event lists, none where a list of them is missing."""
    lists = [_member(commit, name) for name in ("added", "removed", "modified")]
    if not all(isinstance(paths, list) for paths in lists):
        return []
    return [path for paths in lists for path in paths if isinstance(path, str)]


def image_names(payload: Any) -> frozenset[str]:
    """
    Return the full names of the images that an event of a registry is about, none for any other payload.

    The payloads are those of Docker's distribution, Harbor, Quay, Docker Hub and GitHub's packages.
    """
    if not isinstance(payload, dict):
        return frozenset()
    names = (name for name in _images_in(payload) if isinstance(name, str) and _IMAGE.fullmatch(name))
    return frozenset(full_name(parse_image(name.partition("@")[0]).name) for name in names)


def _images_in(payload: dict[str, Any]) -> Iterator[Any]:
    # https://distribution.github.io/distribution/about/notifications/
    for event in _dicts(payload.get("events")):
        host, repository = _member(event, "request", "host"), _member(event, "target", "repository")
        if event.get("action") == "push" and host and repository:
            yield f"{host}/{repository}"
    # https://goharbor.io/docs/main/working-with-projects/project-configuration/configure-webhooks/
    if payload.get("type") == "PUSH_ARTIFACT":
        yield from (resource.get("resource_url") for resource in _dicts(_member(payload, "event_data", "resources")))
    # https://docs.quay.io/guides/notifications.html
    yield payload.get("docker_url")
    # https://docs.docker.com/docker-hub/repos/manage/webhooks/
    if "push_data" in payload:
        yield _member(payload, "repository", "repo_name")
    # https://docs.github.com/webhooks/webhook-events-and-payloads#package
    for package in _dicts([payload.get("package"), payload.get("registry_package")]):
        if str(package.get("package_type", "")).lower() == "container":
            owner = package.get("namespace") or _member(package, "owner", "login")
            yield f"ghcr.io/{owner}/{package.get('name')}".lower()


def _dicts(items: Any) -> Iterator[dict[str, Any]]:
    return (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))


def _member(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _repository(payload: Any) -> dict[str, Any]:
    """Return the part of a payload that describes the repository."""
    if isinstance(payload, dict) and isinstance(payload.get("Message"), str):  # Amazon SNS wraps events as text
        # orjson's error is a ValueError too, as of any payload without a repository
        payload = orjson.loads(payload["Message"])
    if not isinstance(payload, dict):
        raise ValueError("not an object")
    if payload.get("source") == "aws.codecommit":
        return {"clone_url": _codecommit_url(payload)}
    resource = payload.get("resource")  # Azure DevOps
    holder = resource if isinstance(resource, dict) and "repository" in resource else payload
    repository = holder.get("repository", holder.get("project"))
    if not isinstance(repository, dict):
        raise ValueError("no repository")
    return repository


def _codecommit_url(event: dict[str, Any]) -> str:
    """Return the URL of the repository of an event of AWS CodeCommit, which names region and repository."""
    detail = event.get("detail")
    if not isinstance(detail, dict):
        raise ValueError("no detail")
    region = str(event.get("region"))
    # the regions of China are a partition with a domain of its own
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://git-codecommit.{region}.{domain}/v1/repos/{detail.get('repositoryName')}"


def _hrefs(links: Any) -> Iterator[str]:
    """Yield the targets of a link or of a list of links."""
    for link in links if isinstance(links, list) else [links]:
        if isinstance(link, dict) and isinstance(link.get("href"), str):
            yield link["href"]


def _clones_of(page: str) -> Iterator[str]:
    """Yield the normal form of the clone URLs of a repository that Bitbucket names by its own page or API only."""
    if _URL.fullmatch(page) is None:
        return
    place = normal(page)
    if cloud := _BITBUCKET_API.fullmatch(place):
        yield f"bitbucket.org/{cloud[1]}"
    host, _, path = place.partition("/")
    if data_center := _BITBUCKET_PAGE.fullmatch(path):
        context, kind, owner, name = data_center.groups()
        project = f"~{owner}" if kind == "users" else owner
        yield f"{host}/{context or ''}scm/{project}/{name}"  # by HTTPS
        yield f"{host}/{project}/{name}"  # by SSH


def normal(url: str) -> str:
    """Return ``host/path`` of a repository URL in any of its spellings, so that they can be compared."""
    # in lower case also the path: of two that differ by case, one is polled without need, which does no harm
    rest = re.sub(r"^[a-z]+://", "", unquote(url.strip()).lower())
    # a user, such as git@, does not name the repository
    rest = re.sub(r"^[^/@]*@", "", rest)
    host, slash, path = rest.partition("/")
    # git@host:path, as scp writes it: what follows the colon is not a port
    if (":" in host and not slash) or (":" in host and not host.rpartition(":")[2].isdecimal()):
        host, _, path = rest.partition(":")
    # without its port: a server has several, by HTTPS and by SSH
    name = host.partition(":")[0]
    return _azure(f"{_OTHER_HOSTS.get(name, name)}/{path.strip('/').removesuffix('.git')}")


def _azure(place: str) -> str:
    """Return the one form of a repository of Azure DevOps; others as they are."""
    if ssh := _AZURE_SSH.fullmatch(place):
        return "dev.azure.com/{}/{}/_git/{}".format(*ssh.groups())
    if old := _AZURE_OLD.fullmatch(place):
        place = f"dev.azure.com/{old[1]}/{old[2]}"
    if short := _AZURE_SHORT.fullmatch(place):  # a project's repository of the same name
        return f"dev.azure.com/{short[1]}/{short[2]}/_git/{short[2]}"
    return place


_UNSIGNED = "unauthorized: the signature is missing or wrong"
"""One answer for all: a client that has no secret learns nothing about it."""
_LIMIT = 25 << 20
"""Bytes of a payload; the limit of GitHub, the largest of the providers."""
# The sender of a body has not shown yet that it knows the secret: most push events have 10 to 50 KiB and are kept in
# memory, and of larger ones few are stored at a time, each for some seconds.
_IN_MEMORY = 256 << 10
_LARGE_BODIES = 2
_SECONDS = 10.0
_REMEMBERED = 4096


class _Proof(Enum):
    """How a request shows that its sender knows the secret."""

    HMAC = "HMAC-SHA256 of the raw body"
    TOKEN = "the secret itself"
    PASSWORD = "the secret as the password of basic authentication, with any user name"
    AUTHORIZATION = "the secret as the header's text, as a bearer token or as the password of basic authentication"


@dataclass(frozen=True, slots=True)
class _Provider:
    """How a Git server shows that it knows the secret: in which header, and before an HMAC what else is there."""

    header: str
    proof: _Proof = _Proof.HMAC
    prefix: str = ""

    def knows(self, headers: Mapping[str, str], secret: bytes) -> bool:
        """Return whether the headers alone contain the secret; True where the body is needed to tell."""
        text = headers.get(self.header, "")
        if self.proof is _Proof.TOKEN:
            return hmac.compare_digest(text.encode(), secret)
        if self.proof is _Proof.PASSWORD:
            return hmac.compare_digest(_password(text), secret)
        if self.proof is _Proof.AUTHORIZATION:
            scheme, _, token = text.partition(" ")
            value = _password(text) or (token if scheme.lower() == "bearer" else text).encode()
            return hmac.compare_digest(value, secret)
        return True

    def signs(self, headers: Mapping[str, str], digest: hmac.HMAC) -> bool:
        """Return whether the body is signed by the secret, where this server signs."""
        expected = f"{self.prefix}{digest.hexdigest()}"
        is_signed = hmac.compare_digest(headers.get(self.header, "").encode(), expected.encode())
        return is_signed or self.proof is not _Proof.HMAC


def _password(authorization: str) -> bytes:
    """Return the password of HTTP's basic authentication, empty where there is none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        # validate: b64decode would skip characters that are not of the alphabet
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except ValueError:
        return b""


PROVIDERS = {
    # not x-hub-signature, which GitHub signs by SHA-1
    "github": _Provider("x-hub-signature-256", prefix="sha256="),
    "gitea": _Provider("x-gitea-signature"),
    "forgejo": _Provider("x-forgejo-signature"),
    "gogs": _Provider("x-gogs-signature"),
    "bitbucket": _Provider("x-hub-signature", prefix="sha256="),
    # GitLab sends the secret itself
    "gitlab": _Provider("x-gitlab-token", _Proof.TOKEN),
    "azure-devops": _Provider("authorization", _Proof.PASSWORD),  # its service hooks sign nothing
    "codecommit": _Provider("authorization", _Proof.PASSWORD),  # an API destination of Amazon EventBridge
    # registries sign nothing: Harbor sends a text, distribution any header, Quay and Docker Hub what the URL has
    "registry": _Provider("authorization", _Proof.AUTHORIZATION),
}
_DELIVERIES = (
    *("x-github-delivery", "x-gitea-delivery", "x-forgejo-delivery", "x-gogs-delivery"),
    *("x-request-uuid", "x-request-id", "x-gitlab-event-uuid"),
)
_EVENTS = ("x-github-event", "x-gitea-event", "x-forgejo-event", "x-gogs-event", "x-gitlab-event", "x-event-key")


def router(engine: Backend, secret: str) -> APIRouter:
    """
    Return ``POST /webhook/{provider}``; without a secret every request is refused.

    A payload is only a hint: what is fetched is what the applications name. A delivery that was seen before is not
    acted on again.
    """
    routes = APIRouter()
    deliveries: OrderedDict[str, None] = OrderedDict()
    large_bodies = _Slots(_LARGE_BODIES)

    @routes.post("/webhook/{name}")
    async def push(name: str, request: Request) -> JSONResponse:
        provider = PROVIDERS.get(name)
        if provider is None:
            return _failure(404, f"unknown provider; use one of {', '.join(PROVIDERS)}")
        # what the headers show is checked before a body is received
        if not secret or provider.header not in request.headers or not provider.knows(request.headers, secret.encode()):
            return _failure(401, _UNSIGNED)
        with ExitStack() as files:
            body = files.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            # over the bytes as they arrive: JSON that is written again would differ from them
            digest = hmac.new(secret.encode(), digestmod=hashlib.sha256)
            failure = await _received(request, body, digest, files, large_bodies)
            if failure is not None:
                return failure
            if not provider.signs(request.headers, digest):
                return _failure(401, _UNSIGNED)
            event = _header(request, _EVENTS)
            # Bitbucket sends diagnostics:ping
            if event.rpartition(":")[2] == "ping":
                return JSONResponse({"accepted": True, "ping": True})
            try:
                # JSON of 25 MiB would block the event loop, and with it all pages
                payload = await run_in_threadpool(_payload, body, request.headers.get("content-type", ""))
                images = image_names(payload)
                if name == "registry" and not images:
                    # a registry sends events of pulls and deletions to the same address
                    return _ignored(event)
                urls = frozenset() if images else repository_urls(payload)
            except ValueError:
                # a server that sends every event gets no error for it: GitLab disables webhooks that fail
                is_other = event and "push" not in event.lower()
                return _ignored(event) if is_other else _failure(400, "invalid payload: it names no repository")
        # after the signature: without the secret no delivery can be made to seem repeated
        if _is_repeated(_header(request, _DELIVERIES), deliveries):
            return JSONResponse({"accepted": True, "again": True}, 202)
        matched = engine.updates.images_changed(images) if images else _poll(engine, urls, listed_push(payload))
        return JSONResponse({"accepted": True, "matched": matched}, 202)

    return routes


def audit_router(engine: Backend, secret: str) -> APIRouter:
    """
    Return ``POST /webhook/audit``, for the audit webhook of an API server; without a secret every request is refused.

    A body is an EventList of audit.k8s.io/v1. The API server repeats a batch that is not answered with success.
    """
    routes = APIRouter()
    large_bodies = _Slots(_LARGE_BODIES)
    expected = f"Bearer {secret}".encode()

    @routes.post("/webhook/audit")
    async def receive(request: Request) -> JSONResponse:
        authorization = request.headers.get("authorization", "")
        if not secret or not hmac.compare_digest(authorization.encode(), expected):
            return _failure(401, "unauthorized: the token is missing or wrong")
        with ExitStack() as files:
            body = files.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            failure = await _received(request, body, hmac.new(expected, digestmod=hashlib.sha256), files, large_bodies)
            if failure is not None:
                return failure
            try:
                count = await run_in_threadpool(_note_writes, engine, body)
            except ValueError:
                return _failure(400, "invalid payload: it is not an EventList of audit.k8s.io/v1")
        return JSONResponse({"accepted": True, "recorded": count})

    return routes


_LINKS: Final = 200
"""Edits of one batch that are recorded: the API server sends at most 400 events by default."""


def _note_writes(engine: Backend, body: IO[bytes]) -> int:
    """Record what people did to the objects of Applications and in their Pods; raise ValueError for another body."""
    document = orjson.loads(body.read())
    events = document.get("items") if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise ValueError("no events")
    writes = [write for write in sent_writes(events) if _is_by_person(write)]
    links = []
    now = engine.clock.now()
    for write in writes:
        if write.is_in_pod:
            pod = ObjectRef("", POD.kind, write.namespace, write.name)
            parts = engine.requests.pod_entered(pod, Execution(write.person, write.verb, write.time))
            links += [edit_link(key, ref, write, now) for key, ref in parts]
    edits: defaultdict[tuple[str, str], list[AuditedWrite]] = defaultdict(list)
    for write in writes:
        edits[write.namespace, write.name].append(write)
    # once for a batch: Applications may have many objects
    for view in engine.view.applications() if edits else ():
        for item in view.resources:
            matching = (write for write in edits.get((item.ref.namespace, item.ref.name), ()) if not write.is_in_pod)
            links += [edit_link(view.key, item.ref, write, now) for write in matching if write.is_about(item.ref)]
    if links:
        engine.records.audit(links[:_LINKS])
    return min(len(links), _LINKS)


def _is_by_person(write: AuditedWrite) -> bool:
    """Whether a person may have made a write: controllers write all the time, also in the name of ServiceAccounts."""
    is_own = write.manager.startswith(FIELD_MANAGER)
    return not is_own and (not write.person.startswith("system:") or is_interactive(write.manager))


def _header(request: Request, names: Iterable[str]) -> str:
    return next((request.headers[name] for name in names if name in request.headers), "")


def _is_repeated(delivery: str, deliveries: OrderedDict[str, None]) -> bool:
    """Return whether a delivery was seen before, and remember it; those without an id are never repeated."""
    if delivery and delivery in deliveries:
        return True
    deliveries[delivery] = None
    if len(deliveries) > _REMEMBERED:
        deliveries.popitem(last=False)
    return False


def _failure(code: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, code)


def _ignored(event: str) -> JSONResponse:
    return JSONResponse({"accepted": True, "matched": 0, "ignored": event[:100]})


def _poll(engine: Backend, urls: frozenset[str], push: Push | None) -> int:
    """Request a poll of the Applications and sets with one of these repositories; return how many there are."""

    def is_it(url: str) -> bool:
        return normal(url) in urls

    engine.pull_requests.repository_changed(is_it)
    return engine.requests.repository_changed(is_it, push) + engine.sets.repository_changed(is_it)


class _Busy(Exception):
    """As many large bodies as may be stored are being received."""


class _Slots:
    """Places for what only a few requests may do at a time; used in one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a place; raise _Busy where none is free."""
        if not self._free:
            raise _Busy
        # without a lock: the event loop runs one request at a time between two awaits
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


async def _received(
    request: Request, body: IO[bytes], digest: hmac.HMAC, files: ExitStack, large_bodies: _Slots
) -> JSONResponse | None:
    """Receive the body as ``_receive``; return the answer to one that cannot be, None for one that was."""
    try:
        # a client that sends slowly would hold its slot
        async with asyncio.timeout(_SECONDS):
            if not await _receive(request, body, digest, files, large_bodies):
                return _failure(413, f"the body is too large: at most {_LIMIT} bytes")
    except TimeoutError:
        return _failure(408, f"the body did not arrive within {_SECONDS:.0f} s")
    except _Busy:
        return _failure(503, "other large bodies are being received; the repository is polled at its interval")
    return None


async def _receive(
    request: Request, body: IO[bytes], digest: hmac.HMAC, files: ExitStack, large_bodies: _Slots
) -> bool:
    """
    Write the body to a file and its bytes to a digest; return False when it is larger than the limit.

    A large one takes a slot until ``files`` are closed, and with them its copy on the disk.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > _LIMIT:
        return False
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        # counted too: a chunked body has no Content-Length
        if size > _LIMIT:
            return False
        # once for each body, as it grows beyond what is kept in memory
        if size > _IN_MEMORY >= size - len(chunk):
            files.enter_context(large_bodies.taken())
        body.write(chunk)
        digest.update(chunk)
    body.seek(0)
    return True


def _payload(body: IO[bytes], content_type: str) -> Any:
    """Return a payload, which is JSON or has it in GitHub's form; raise ValueError where it is neither."""
    content = body.read()
    if content_type.partition(";")[0].strip() == "application/x-www-form-urlencoded":
        # GitHub's other content type has the JSON in a field of a form
        content = parse_qs(content.decode()).get("payload", [""])[0].encode()
    return orjson.loads(content)
