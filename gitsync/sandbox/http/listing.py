"""Listing of collections: options of list and watch, selectors, pages, resourceVersion semantics."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from gitsync.objects.manifest import Manifest, labels_of
from gitsync.sandbox import errors
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.http.transport.messages import HttpRequest
from gitsync.sandbox.registry.conversion import convert
from gitsync.sandbox.registry.resources import ServedResource
from gitsync.sandbox.registry.selectors import LabelTest, Predicate, field_predicate, label_predicate
from gitsync.sandbox.storage import Gone, ObjectStore, ResourceCollection, Stored

_MATCHES = ("Exact", "NotOlderThan")
_TOO_OLD_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)
_TOO_OLD_LIST = "The resourceVersion for the provided list is too old."


@dataclass(frozen=True, slots=True)
class ListSelection:
    """Which objects of a collection a request is about."""

    namespace: str = ""
    labels: LabelTest | None = None
    fields: Predicate | None = None
    name: str = ""

    @property
    def filters(self) -> bool:
        """Whether a selector takes some objects out."""
        return self.labels is not None or self.fields is not None

    def has(self, obj: Manifest) -> bool:
        """Tell whether the object is selected, its namespace included."""
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        if self.labels is not None and not self.labels(labels_of(obj)):
            return False
        return self.fields is None or self.fields(obj)


def selection(
    request: HttpRequest, resource: ServedResource, namespace: str, selectable: tuple[str, ...] = (), name: str = ""
) -> ListSelection:
    """Return what the selectors of a request, and the name in its path, select; 400 when they are malformed."""
    labels = label_predicate(request.query.get("labelSelector", ""))
    selector = f"metadata.name={name}" if name else request.query.get("fieldSelector", "")
    fields, name = field_predicate(selector, resource.group, resource.kind, selectable)
    return ListSelection(namespace, labels, fields, name)


@dataclass(frozen=True, slots=True)
class Page:
    """What a list answers: the objects, the revision they are of, and the token of the next page."""

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int = 0


def check_numbers(query: Mapping[str, str]) -> None:
    """Raise the 400 for ``limit`` or ``timeoutSeconds`` that is not an integer."""
    for name in ("limit", "timeoutSeconds"):
        value = query.get(name, "")
        if value and not value.lstrip("+-").isdecimal():
            raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')


def check_list_options(request: HttpRequest) -> None:
    """Raise the 422 for options that contradict each other on a list."""
    query = request.query
    check_numbers(query)
    causes = _match_causes(query, list_=True)
    if "sendInitialEvents" in query:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise errors.invalid_options("ListOptions", causes)


def check_watch_options(request: HttpRequest) -> None:
    """Raise the 422 for options that contradict each other on a watch."""
    query = request.query
    check_numbers(query)
    match = query.get("resourceVersionMatch", "")
    causes: list[StatusCause] = []
    if "sendInitialEvents" in query:
        if match != "NotOlderThan":
            causes.append(
                _forbidden(
                    "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
    elif match:
        causes.append(
            _forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        )
    if match and match != "NotOlderThan":
        causes.append(_unsupported(match, ("NotOlderThan",)))
    if causes:
        raise errors.invalid_options("ListOptions", causes)


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a collection that one page covers: what is selected after the key ``start``."""

    selected: ListSelection
    limit: int
    start: str = ""


def list_page(
    store: ObjectStore, collection: ResourceCollection, request: HttpRequest, selected: ListSelection
) -> Page:
    """Return the page a request asks for, of a revision that has come."""
    query = request.query
    limit = _number(query.get("limit", ""))
    wanted = query.get("resourceVersion", "")
    token = query.get("continue", "")
    if token:
        # 0 means any version, which the version in the token does not contradict.
        if wanted not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        revision, start = _read_token(token)
        return _snapshot(collection, revision, _Window(selected, limit, start), _TOO_OLD_PAGE)
    if not wanted:
        return _latest(store, collection, selected, limit)
    revision = wanted_revision(request)
    match = query.get("resourceVersionMatch", "")
    if match == "Exact" or (not match and limit and revision):
        return _snapshot(collection, revision, _Window(selected, limit), _TOO_OLD_LIST)
    # resourceVersion=0 is answered from the watch cache, which ignores the limit.
    return _latest(store, collection, selected, 0 if revision == 0 else limit)


def wanted_revision(request: HttpRequest) -> int:
    """Return the resourceVersion a read asks for, 0 for any; 400 when it is not a number."""
    wanted = request.query.get("resourceVersion", "")
    if wanted and not wanted.isdecimal():
        raise errors.bad_request(
            f'resourceVersion: Invalid value: "{wanted}": strconv.ParseUint: parsing "{wanted}": invalid syntax'
        )
    return int(wanted or 0)


def stale_page(collection: ResourceCollection, revision: int, selected: ListSelection) -> Page:
    """Return everything selected as it was at an older revision; 410 when that is no longer known."""
    try:
        objects = collection.at_revision(revision)
    except Gone:
        raise errors.expired(_TOO_OLD_LIST) from None
    items = [objects[key] for key in sorted(objects) if selected.has(objects[key].obj)]
    return Page(items, revision)


def _latest(store: ObjectStore, collection: ResourceCollection, selected: ListSelection, limit: int) -> Page:
    # One object by name needs no walk over the collection; kubectl wait lists this way.
    if selected.name:
        namespaced = f"{selected.namespace}/{selected.name}"
        stored = collection.objects.get(namespaced)
        if stored is not None or selected.namespace:
            items = [stored] if stored is not None and selected.has(stored.obj) else []
            return Page(items, store.revision)
    if limit:
        keys = collection.keys(selected.namespace)
        return _cut(keys, collection.objects, store.revision, _Window(selected, limit))
    objects = collection.objects
    keys = collection.keys(selected.namespace)
    if not selected.filters:
        return Page([objects[key] for key in keys], store.revision)
    return Page([objects[key] for key in keys if selected.has(objects[key].obj)], store.revision)


def _snapshot(collection: ResourceCollection, revision: int, window: _Window, too_old: str) -> Page:
    try:
        objects = collection.at_revision(revision)
    except Gone:
        raise errors.expired(too_old) from None
    namespace = window.selected.namespace
    prefix = f"{namespace}/" if namespace else ""
    keys = sorted(key for key in objects if key.startswith(prefix))
    return _cut(keys, objects, revision, window)


def _cut(keys: Iterable[str], objects: dict[str, Stored], revision: int, window: _Window) -> Page:
    selected = window.selected
    limit = window.limit
    start = window.start
    items: list[Stored] = []
    last = ""
    candidates = [key for key in keys if key > start] if start else list(keys)
    for index, key in enumerate(candidates):
        stored = objects[key]
        if selected.filters and not selected.has(stored.obj):
            continue
        if limit and len(items) == limit:
            # Only without selectors: counting would need the whole walk.
            remaining = 0 if selected.filters else len(candidates) - index
            return Page(items, revision, _write_token(revision, last), remaining)
        items.append(stored)
        last = key
    return Page(items, revision)


def item_json(stored: Stored, resource: ServedResource, *, bare: bool) -> bytes:
    """Return an object's JSON at the resource's version; ``bare`` leaves out kind and apiVersion, as lists do."""
    json = stored.json if stored.obj["apiVersion"] == resource.api_version else _converted(stored, resource)
    if not bare:
        return json
    # every stored object begins {"kind":K,"apiVersion":V,
    return b"{" + json[len(resource.kind) + len(resource.api_version) + 27 :]


def _converted(stored: Stored, resource: ServedResource) -> bytes:
    return orjson.dumps(convert(stored.obj, resource))


def _match_causes(query: dict[str, str], *, list_: bool) -> list[StatusCause]:
    match = query.get("resourceVersionMatch", "")
    if not match:
        return []
    wanted = query.get("resourceVersion", "")
    field = "resourceVersionMatch"
    if query.get("continue"):
        return [_forbidden(field, "resourceVersionMatch is forbidden when continue is provided")]
    causes: list[StatusCause] = []
    if not wanted:
        causes.append(_forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match not in _MATCHES:
        causes.append(_unsupported(match, _MATCHES))
    if match == "Exact" and wanted == "0":
        causes.append(_forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return causes


def _forbidden(field: str, why: str) -> StatusCause:
    return StatusCause("FieldValueForbidden", f"Forbidden: {why}", field)


def _unsupported(value: str, choices: tuple[str, ...]) -> StatusCause:
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return StatusCause(
        "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}', "resourceVersionMatch"
    )


def _number(text: str) -> int:
    if text and not text.lstrip("-").isdecimal():
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text)) if text else 0


def _write_token(revision: int, key: str) -> str:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{key}\0"})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def _read_token(token: str) -> tuple[int, str]:
    # Go's decoder names the byte.
    illegal = next((at for at, char in enumerate(token) if char not in _ALPHABET), None)
    if illegal is None and len(token) % 4 == 1:
        illegal = len(token) - 1
    if illegal is not None:
        raise _bad_token(f"illegal base64 data at input byte {illegal}")
    try:
        value = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(value["rv"]), str(value["start"]).rstrip("\0")
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise _bad_token("invalid character in the token") from None


def _bad_token(why: str) -> Exception:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {why}")
