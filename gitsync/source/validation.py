"""Which repository URLs, revisions and paths may be used at all. Pure, and checked before git is started."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from gitsync.errors import InvalidInput
from gitsync.objects.application import GitSource
from gitsync.objects.semver import parse_range
from gitsync.objects.urls import CHART_SCHEME, OCI_SCHEME, SCP, is_artifact, normalized_url

SAFE_SCHEMES = frozenset({"https", "ssh"})
"""What is allowed when the operator says nothing; ``http`` and ``file`` are for tests and demos."""


@dataclass(frozen=True, slots=True)
class PlainHosts:
    """
    Hosts, as ``host`` or ``host:port`` in small letters, that the operator lets be read over HTTP without TLS.

    ``signed_in`` are those that may also get credentials, which everyone on the way can read.
    """

    anonymous: frozenset[str] = frozenset()
    signed_in: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, anonymous: str, signed_in: str) -> PlainHosts:
        """Return the hosts of two comma-separated lists."""
        lists = (frozenset(filter(None, map(str.strip, text.lower().split(",")))) for text in (anonymous, signed_in))
        return cls(*lists)

    def allow(self, url: str) -> bool:
        """Return whether a URL is one of these hosts over HTTP."""
        return self.allow_credentials(url) or _is_plain(url, self.anonymous)

    def allow_credentials(self, url: str) -> bool:
        """Return whether credentials may be sent to a URL over HTTP."""
        return _is_plain(url, self.signed_in)


def _is_plain(url: str, hosts: Collection[str]) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        return False
    # a host without a port is that of the scheme alone: another port is another server
    names = {f"{parts.hostname}:{port}", *([str(parts.hostname)] if port == 80 else [])}
    return parts.scheme == "http" and not names.isdisjoint(hosts)


NO_PLAIN_HOSTS = PlainHosts()

# with _, which no host name has by RFC 952, but names of services in Docker Compose and old intranets do
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\.?|[0-9A-Fa-f:]+(?:\.[0-9.]+)?")
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]")
_CONTROL_PATH = re.compile(r"[\x00-\x1f\x7f]")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BAD_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)")


def is_commit(revision: str) -> bool:
    """Return whether a revision is a full commit id, SHA-1 or SHA-256."""
    return _COMMIT.fullmatch(revision) is not None


_ARTIFACT = re.compile(
    r"(?:oci|helm\+https?)://(?P<host>\[[0-9A-Fa-f:.]+\](?::\d{1,5})?|[A-Za-z0-9][A-Za-z0-9._-]*(?::\d{1,5})?)/(?P<path>.+)"
)
# with a dot or a port, as container engines read it: any other first part would be of Docker Hub
_OCI_HOST = re.compile(r".*[.:].*|localhost")
_OCI_PATH = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# a tag of a registry, or a version with + of a Helm repository
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}", re.ASCII)


def artifact_host(url: str) -> str:
    """Return the host, with its port, of the URL of a chart or an OCI artifact."""
    match = _ARTIFACT.fullmatch(url)
    return match["host"] if match else ""


def check_artifact(source: GitSource, schemes: Collection[str], plain: PlainHosts) -> None:
    """Raise InvalidInput naming the field of an artifact's source that may not be used as it is."""
    where = "spec.source.repoURL"
    url = source.repo_url
    match = _ARTIFACT.fullmatch(url)
    if match is None or _has_control(url):
        hint = "write oci://HOST/REPOSITORY, or the https URL of a Helm repository with chart; no user, no password"
        raise InvalidInput("the URL is not one of a Helm repository or an OCI registry", location=where, hint=hint)
    if url.startswith(OCI_SCHEME) and not _OCI_HOST.fullmatch(match["host"]):
        hint = f"write it with its port: oci://{match['host']}:443/{match['path']}"
        raise InvalidInput(f"the registry {match['host']} has neither a dot nor a port", location=where, hint=hint)
    if url.startswith(OCI_SCHEME) and not _OCI_PATH.fullmatch(match["path"]):
        hint = "write it in small letters, without a tag: the tag or digest is spec.source.revision"
        raise InvalidInput(f"{match['path'][:80]!r} is not a repository of a registry", location=where, hint=hint)
    if url.startswith(f"{CHART_SCHEME}http:") and not (
        "http" in schemes or plain.allow(url.removeprefix(CHART_SCHEME))
    ):
        hint = f"use https; {_way_to_read_plain(url.removeprefix(CHART_SCHEME))}"
        raise InvalidInput("the Helm repository is without TLS", location=where, hint=hint)
    _check_normal(url)
    revision = source.revision
    is_known = any(form.fullmatch(revision) for form in (_DIGEST, _TAG)) or parse_range(revision) is not None
    if not is_known:
        raise InvalidInput(
            f"the revision {revision[:80]!r} is not a tag, a version, a range or a digest",
            location="spec.source.revision",
            hint="write it as 6.5.0, >=6 <7, latest or sha256:…",
        )


def _way_to_read_plain(url: str) -> str:
    """Return what a user adds to the setting to read an HTTP URL, as ``PlainHosts`` compares it: with its port."""
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        return "GITSYNC_GIT_HTTP_HOSTS names the hosts that may be read over http"
    # nothing of a user or password, and nothing that is not a name of a host
    host = parts.hostname if parts.hostname and _HOST.fullmatch(parts.hostname) else "HOST"
    return f"{host if port == 80 else f'{host}:{port}'} in GITSYNC_GIT_HTTP_HOSTS lets it be read over http"


def check_url(url: str, schemes: Collection[str] = SAFE_SCHEMES, plain: PlainHosts = NO_PLAIN_HOSTS) -> None:
    """Raise InvalidInput unless the URL is one that git may be given; nothing of a password is in the message."""
    where = "spec.source.repoURL"
    allowed = "allowed schemes: " + ", ".join(sorted(schemes))
    if url.lower().startswith("http://") and "http" not in schemes:
        allowed += f"; {_way_to_read_plain(url)}"
    if not url:
        raise InvalidInput("the repository URL is empty", location=where, hint=allowed)
    if url.startswith("-"):
        raise InvalidInput(
            "the repository URL starts with '-', so it is not a URL with a scheme", location=where, hint=allowed
        )
    if "::" in url.partition("//")[0]:  # a transport helper, which is a program
        _check_scheme(url.partition("::")[0], (), allowed)
    if _has_control(url):
        raise InvalidInput(
            "the repository URL holds a control character, raw or percent-encoded, or a space (a newline sends "
            "credentials to another host)",
            location=where,
            hint="write a space in the path as %20",
        )
    if _is_local(url):
        if "file" not in schemes:
            raise InvalidInput(
                "a local path or file:// URL is not allowed as a repository",
                location=where,
                hint=f"{allowed}; --allow-file-urls (GITSYNC_ALLOW_FILE_URLS=true) allows folders of this machine",
            )
        return
    if SCP.fullmatch(url):
        _check_scheme("ssh", schemes, allowed)
        _check_normal(url)
        return
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port  # raises ValueError for one that is not a number
    except ValueError as error:
        raise InvalidInput("the repository URL is an invalid URL", location=where, hint=allowed) from error
    if not plain.allow(url):
        _check_scheme(parts.scheme, schemes, allowed)
    if not _HOST.fullmatch(host) or (parts.username or "").startswith("-"):
        raise InvalidInput("the host of the repository URL is not a host name", location=where)
    _check_normal(url)
    if parts.password is not None:
        raise InvalidInput(
            "the repository URL holds a password", location=where, hint="put it in a Secret: spec.source.credentials"
        )


def _has_control(url: str) -> bool:
    """Return whether a URL has a control character or a space, other than %20 in the path, as at Azure DevOps."""
    place, _, path = url.partition("://")[2].partition("/") if "://" in url else url.partition(":")
    return any(map(_CONTROL.search, (url, unquote(place), unquote(path.replace("%20", "")))))


def _check_normal(url: str) -> None:
    """Raise InvalidInput for a URL that names another repository once a server or a policy normalizes it."""
    try:
        normalized_url(url)
    except ValueError as error:
        raise InvalidInput(
            f"the repository URL has {error}, so servers may read it as another one",
            location="spec.source.repoURL",
            hint="write the URL that the server shows for the repository",
        ) from error


def _is_local(url: str) -> bool:
    return url.startswith(("/", "./", "../", "~")) or url.lower().startswith("file:")


def _check_scheme(scheme: str, schemes: Collection[str], allowed: str) -> None:
    if scheme not in schemes:
        raise InvalidInput(
            f"the scheme {scheme!r} of the repository URL is not allowed", location="spec.source.repoURL", hint=allowed
        )


def check_revision(revision: str, location: str = "spec.source.revision") -> None:
    """
    Raise InvalidInput unless the revision is a branch or tag name, or a full commit id.

    Source: ``git check-ref-format``; expressions such as ``HEAD~3`` are not names.
    """
    bad = (
        not revision
        or len(revision) > 255
        or revision.startswith(("-", "/", "."))
        or revision.endswith(("/", "."))
        or revision == "@"
        or _BAD_REF.search(revision)
    )
    if bad:
        raise InvalidInput(
            f"the revision {revision[:80]!r} is invalid: not a valid branch, tag or commit name",
            location=location,
            hint="use a branch such as main, a tag, a range such as >=1.2 <2, or a full commit id",
        )


def clean_path(path: str) -> str:
    """Return the path of an application without ``.`` parts; raise InvalidInput when it could leave the repository."""
    decoded = unquote(path)  # other readers of the Application, such as a link in the dashboard, may decode it
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or "\\" in decoded or ".." in decoded.split("/") or _CONTROL_PATH.search(decoded):
        raise InvalidInput(
            f"the path {path[:80]!r} is not a relative path inside the repository: no leading '/', '..', '\\' or "
            "control character",
            location="spec.source.path",
        )
    return "/".join(parts)


def check_source(
    source: GitSource, schemes: Collection[str] = SAFE_SCHEMES, plain: PlainHosts = NO_PLAIN_HOSTS
) -> None:
    """Raise InvalidInput naming the field that may not be used as it is."""
    if is_artifact(source.repo_url):
        check_artifact(source, schemes, plain)
        clean_path(source.path)
        return
    check_url(source.repo_url, schemes, plain)
    if parse_range(source.revision) is None:
        check_revision(source.revision)
    clean_path(source.path)


def shown_url(url: str) -> str:
    """Return the URL without user and password, for messages."""
    return re.sub(r"//[^/@]*@", "//", url)
