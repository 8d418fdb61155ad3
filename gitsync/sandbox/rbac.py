"""Authorization: RBAC by the Roles and bindings in the store, who may grant rights, and impersonation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.errors import ApiError, bad_request, forbidden, path_forbidden
from gitsync.sandbox.users import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, ApiUser

GROUP = "rbac.authorization.k8s.io"

Rule = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """The attributes of a request to authorize: a verb on a resource, or on a non-resource path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Decide by the bindings that ``select`` lists; ``system:masters`` may do everything."""

    def __init__(self, select: Callable[[str, str], Iterable[Manifest]], get: Callable[..., Manifest | None]) -> None:
        self._select = select
        self._get = get

    def allowed(self, user: ApiUser, wanted: AccessAttributes) -> bool:
        """Tell whether some rule of the user allows it."""
        if MASTERS in user.groups:
            return True
        return any(_allows(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def require(self, user: ApiUser, wanted: AccessAttributes) -> None:
        """Raise the 403 that says what is not allowed."""
        if not self.allowed(user, wanted):
            raise _refusal(user, wanted)

    def rules(self, user: ApiUser, namespace: str) -> Iterator[Rule]:
        """Yield the rules that hold for a user: those of the cluster, then those of the namespace."""
        for binding in self._select("ClusterRoleBinding", ""):
            if _names(binding, user):
                yield from self._role_rules(binding, "")
        if namespace:
            for binding in self._select("RoleBinding", namespace):
                if _names(binding, user):
                    yield from self._role_rules(binding, namespace)

    def check_grant(self, user: ApiUser, plural: str, obj: Manifest, old: Manifest | None) -> None:
        """
        Refuse a role or binding that grants more than the user holds.

        The verbs ``escalate`` on roles and ``bind`` on the role referred to lift this.
        """
        if MASTERS in user.groups:
            return
        namespace = str(at(obj, "metadata", "namespace", default=""))
        name = str(at(obj, "metadata", "name", default=""))
        asked = AccessAttributes("escalate", GROUP, plural, "", namespace, name)
        if plural in ("roles", "clusterroles"):
            granted = obj.get("rules") or []
            # Labels of a role that grants more may be changed by anyone who may update it.
            if old is not None and old.get("rules") == obj.get("rules"):
                return
        else:
            if old is not None and old.get("subjects") == obj.get("subjects"):
                return
            granted = list(self._role_rules(obj, namespace))
            role = at(obj, "roleRef", default={})
            kind = "clusterroles" if role.get("kind") == "ClusterRole" else "roles"
            asked = replace(asked, verb="bind", resource=kind, name=str(role.get("name", "")))
        if self.allowed(user, asked):
            return
        held = list(self.rules(user, namespace))
        missing = [part for rule in granted for part in _parts(rule) if not any(_covers(h, part) for h in held)]
        if missing:
            lines = "\n".join(_spell(rule) for rule in _compact(missing))
            groups = ",".join(f'"{group}"' for group in user.groups)
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
                f"not currently held:\n{lines}"
            )
            raise forbidden(plural, GROUP, name, why)

    def _role_rules(self, binding: Manifest, namespace: str) -> Iterator[Rule]:
        role = at(binding, "roleRef", default={})
        of = "" if role.get("kind") == "ClusterRole" else namespace
        role_object = self._get(GROUP, role.get("kind", ""), of, role.get("name", ""))
        if role_object is not None:
            yield from role_object.get("rules") or []


def _names(binding: Manifest, user: ApiUser) -> bool:
    for subject in binding.get("subjects") or []:
        kind = subject.get("kind")
        name = subject.get("name")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or at(binding, "metadata", "namespace", default="")
            if user.name == f"system:serviceaccount:{namespace}:{name}":
                return True
    return False


def _allows(rule: Rule, wanted: AccessAttributes) -> bool:
    if not _has(rule.get("verbs"), wanted.verb):
        return False
    if not wanted.resource:
        return any(_path_matches(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or [])
    if not _has(rule.get("apiGroups"), wanted.group):
        return False
    names = rule.get("resourceNames")
    # Also a list or create, which have no name: rules with names never allow these.
    if names and wanted.name not in names:
        return False
    return _resource_matches(rule.get("resources") or [], wanted.full_resource)


def _has(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _resource_matches(patterns: list[str], resource: str) -> bool:
    if "*" in patterns or resource in patterns:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in patterns


def _path_matches(pattern: str, path: str) -> bool:
    if pattern == "*" or pattern == path:
        return True
    # Only a trailing asterisk is a wildcard in paths.
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def _refusal(user: ApiUser, wanted: AccessAttributes) -> ApiError:
    if not wanted.resource:
        return path_forbidden(user.name, wanted.verb, wanted.path)
    scope = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" '
        f'in API group "{wanted.group}" {scope}'
    )
    return forbidden(wanted.resource, wanted.group, wanted.name, why)


def _parts(rule: Rule) -> Iterator[Rule]:
    """Break a rule into the smallest rules, one verb on one resource or path each."""
    # pkg/registry/rbac/validation: BreakdownRule, in its order, since the message lists the parts.
    for verb in rule.get("verbs") or []:
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or []
                if names:
                    yield from ({**part, "resourceNames": [name]} for name in names)
                else:
                    yield part
        for url in rule.get("nonResourceURLs") or []:
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(held: Rule, part: Rule) -> bool:
    if not _has(held.get("verbs"), part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        url = part["nonResourceURLs"][0]
        return any(_path_matches(pattern, url) for pattern in held.get("nonResourceURLs") or [])
    names = held.get("resourceNames")
    return (
        _has(held.get("apiGroups"), part["apiGroups"][0])
        and _resource_matches(held.get("resources") or [], part["resources"][0])
        and (not names or part.get("resourceNames", [""])[0] in names)
    )


def _compact(parts: list[Rule]) -> list[Rule]:
    """Put the verbs of equal parts together again."""
    merged: dict[str, Rule] = {}
    for part in parts:
        key = repr([(name, part[name]) for name in sorted(part) if name != "verbs"])
        if key in merged:
            merged[key]["verbs"] = [*merged[key]["verbs"], *part["verbs"]]
        else:
            merged[key] = dict(part)
    return list(merged.values())


_SPELLINGS = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("ResourceNames", "resourceNames"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("Verbs", "verbs"),
)


def _spell(rule: Rule) -> str:
    members = []
    for name, key in _SPELLINGS:
        if rule.get(key):
            values = ", ".join(f'"{value}"' for value in rule[key])
            members.append(f"{name}:[{values}]")
    return "{" + ", ".join(members) + "}"


_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"


def impersonated(headers: Mapping[str, str]) -> ApiUser | None:
    """Return the user that the ``Impersonate-*`` headers ask to be, None without them."""
    name = headers.get("impersonate-user", "")
    groups = _groups(headers)
    uid = headers.get("impersonate-uid", "")
    extra = {key.removeprefix(_EXTRA): (value,) for key, value in headers.items() if key.startswith(_EXTRA)}
    if not name:
        if groups or uid or extra:
            raise bad_request("requested impersonation without a user")
        return None
    # The anonymous user is never authenticated, impersonated or not.
    if name == ANONYMOUS.name:
        return ApiUser(name, tuple(dict.fromkeys((*groups, UNAUTHENTICATED))), uid, extra)
    # apiserver/pkg/endpoints/filters/impersonation.go: a ServiceAccount gets its groups, unless some are named.
    if _is_account(name) and not groups:
        namespace = name.split(":")[2]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return ApiUser(name, tuple(dict.fromkeys((*groups, AUTHENTICATED))), uid, extra)


def required_rights(headers: Mapping[str, str]) -> Iterator[AccessAttributes]:
    """Yield the right that each header takes: the user or ServiceAccount, groups, the uid and extras."""
    name = headers.get("impersonate-user", "")
    if _is_account(name):
        _, _, namespace, account = name.split(":")
        yield AccessAttributes("impersonate", "", "serviceaccounts", namespace=namespace, name=account)
    else:
        yield AccessAttributes("impersonate", "", "users", name=name)
    for group in _groups(headers):
        yield AccessAttributes("impersonate", "", "groups", name=group)
    if uid := headers.get("impersonate-uid", ""):
        yield AccessAttributes("impersonate", _GROUP, "uids", name=uid)
    for key, value in headers.items():
        if key.startswith(_EXTRA):
            yield AccessAttributes("impersonate", _GROUP, "userextras", key.removeprefix(_EXTRA), name=value)


def _groups(headers: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in headers.get("impersonate-group", "").split("\n") if part)


def _is_account(name: str) -> bool:
    return name.startswith(_ACCOUNT) and name.count(":") == 3
