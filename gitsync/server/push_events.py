"""Which repository a push event names, in the payload of each Git server, and by which spellings it is known. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import orjson

# bounded before it is normalised; without spaces, queries and fragments, which no clone URL has
_URL = re.compile(r"(?:(?:https?|ssh)://)?[A-Za-z0-9._~@:/%+-]{3,500}", re.ASCII)
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
