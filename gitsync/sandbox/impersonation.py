"""Impersonation: the user that the headers of a request name, and the rights that this takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitsync.sandbox.errors import bad_request
from gitsync.sandbox.rbac import Attributes
from gitsync.sandbox.users import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"


def impersonated(headers: Mapping[str, str]) -> User | None:
    """Return the user that the ``Impersonate-*`` headers ask to be, None without them."""
    name, groups, uid = headers.get("impersonate-user", ""), _groups(headers), headers.get("impersonate-uid", "")
    extra = {key.removeprefix(_EXTRA): (value,) for key, value in headers.items() if key.startswith(_EXTRA)}
    if not name:
        if groups or uid or extra:
            raise bad_request("requested impersonation without a user")
        return None
    if name == ANONYMOUS.name:
        return User(name, tuple(dict.fromkeys((*groups, UNAUTHENTICATED))), uid, extra)
    if _is_account(name) and not groups:
        namespace = name.split(":")[2]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED))), uid, extra)


def required_rights(headers: Mapping[str, str]) -> Iterator[Attributes]:
    """Yield the right that each header takes: the user or ServiceAccount, groups, the uid and extras."""
    name = headers.get("impersonate-user", "")
    if _is_account(name):
        _, _, namespace, account = name.split(":")
        yield Attributes("impersonate", "", "serviceaccounts", namespace=namespace, name=account)
    else:
        yield Attributes("impersonate", "", "users", name=name)
    for group in _groups(headers):
        yield Attributes("impersonate", "", "groups", name=group)
    if uid := headers.get("impersonate-uid", ""):
        yield Attributes("impersonate", _GROUP, "uids", name=uid)
    for key, value in headers.items():
        if key.startswith(_EXTRA):
            yield Attributes("impersonate", _GROUP, "userextras", key.removeprefix(_EXTRA), name=value)


def _groups(headers: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for part in headers.get("impersonate-group", "").split("\n") if part)


def _is_account(name: str) -> bool:
    return name.startswith(_ACCOUNT) and name.count(":") == 3
