"""Routing: a method and a path to a verb on a resource, as the API server understands them."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.sandbox.http.transport.messages import HttpRequest

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class RequestRoute:
    """Where a request goes: ``resource`` is the plural, empty for the discovery of a group version."""

    verb: str
    group: str
    version: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watched_name: str = ""
    """The one object that a path under ``/watch/`` selects."""

    @property
    def group_version(self) -> str:
        """The apiVersion of the path."""
        return f"{self.group}/{self.version}" if self.group else self.version


def parse_route(request: HttpRequest) -> RequestRoute | None:
    """Return the route of a path under ``/api/v1`` or ``/apis/GROUP/VERSION``, None for any other path."""
    parts = [part for part in request.path.split("/") if part]
    if len(parts) >= 2 and parts[0] == "api":
        group = ""
        version = parts[1]
        rest = parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group = parts[1]
        version = parts[2]
        rest = parts[3:]
    else:
        return None
    watched = rest[:1] == ["watch"]  # the form that watch=1 replaced: everything behind it selects
    rest = rest[1:] if watched else rest
    namespace = ""
    # /namespaces/x/status is a subresource of the Namespace itself, not a resource inside it.
    if len(rest) >= 3 and rest[0] == "namespaces" and (len(rest) > 3 or rest[2] not in _NAMESPACE_SUBRESOURCES):
        namespace = rest[1]
        rest = rest[2:]
    resource, name = [*rest, "", ""][:2]
    if watched and request.method in _READS:
        return RequestRoute("watch", group, version, resource, namespace, watched_name=name)
    return RequestRoute(
        verb=_verb(request, bool(name)),
        group=group,
        version=version,
        resource=resource,
        namespace=namespace,
        name=name,
        subresource="/".join(rest[2:]),
    )


def _verb(request: HttpRequest, named: bool) -> str:
    if request.method in _READS:
        if named:
            return "get"
        return "watch" if request.flag("watch") else "list"
    verb = _VERBS.get(request.method, request.method.lower())
    return "deletecollection" if verb == "delete" and not named else verb
