"""Where a Git host shows a file of a commit, worked out from the URL of the repository. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

_SSH = re.compile(r"(?:ssh://)?[^@/]+@(?P<host>[^:/]+)(?::\d+/|:|/)(?P<path>.+)")
_HOST = re.compile(r"[\w.-]+(:\d+)?", re.ASCII)
_PAGES = (  # first match decides, by a part of the host's name
    ("github", "{root}/blob/{commit}/{file}#L{line}"),
    ("gitlab", "{root}/-/blob/{commit}/{file}#L{line}"),
    ("bitbucket.org", "{root}/src/{commit}/{file}#lines-{line}"),
    ("codeberg.org", "{root}/src/commit/{commit}/{file}#L{line}"),
    ("gitea", "{root}/src/commit/{commit}/{file}#L{line}"),
    ("forgejo", "{root}/src/commit/{commit}/{file}#L{line}"),
)


def file_url(repository: str, commit: str, location: str) -> str:
    """Return the page of ``file:line`` at a commit; empty for a host whose pages are not known."""
    host, path = _host_and_path(repository)
    page = next((page for name, page in _PAGES if name in host), "")
    file, _, line = location.rpartition(":")
    if not page or not commit or not line.isdigit() or not _HOST.fullmatch(host):
        return ""
    root = f"https://{host}/{quote(path.strip('/').removesuffix('.git'))}"
    return page.format(
        root=root, commit=quote(commit, safe=""), file=quote(file.encode(errors="surrogateescape")), line=line
    )


def _host_and_path(repository: str) -> tuple[str, str]:
    """Return the host and path of a repository, without what signs in; empty for what is not on a host."""
    ssh = _SSH.fullmatch(repository)
    if ssh:
        return ssh["host"].lower(), ssh["path"]
    try:
        url = urlsplit(repository)
        port = f":{url.port}" if url.port not in (None, 443) else ""
    except ValueError:
        return "", ""
    return (f"{url.hostname}{port}", url.path) if url.scheme == "https" else ("", "")
