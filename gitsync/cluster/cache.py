"""InformerCache: local copies of the kinds in use, shared by all applications."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from gitsync.cluster.client import Client
from gitsync.cluster.errors import forbidden_hint
from gitsync.cluster.watch import KindCollection
from gitsync.errors import ClusterUnavailable, GitsyncError, GroupUnavailable, Refused, Rejected
from gitsync.kube.times import finish_of
from gitsync.objects.manifest import Manifest, metadata_of, resource_version_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.ports import ApiResource, Scope
from gitsync.runtime.reflector import Reflector

OnChange = Callable[[Manifest | None, Manifest | None], None]
"""Called with an object before and after a change; None means absent. Must return at once."""

# A kind, and the one namespace in which it is followed; empty for all
_Place = tuple[ApiResource, str]

# number of deleted objects of a kind that are remembered: more than there are writes in flight
_REMEMBERED = 8192

# number of deleted objects whose end is remembered until their Application has read it
_FINISHED = 1024


class InformerCache:
    """
    Follow kinds by one reflector each and answer from memory; see the port ``LiveCache`` for the promises.

    With ``namespaces``, namespaced kinds are followed in those of them that a scope names instead, for a controller
    that may not list all; objects of other namespaces are unknown, and reading them is refused. Without, a kind can be
    followed everywhere and in single namespaces: an object is then read from the copy of its namespace. Subscribers are
    called outside the lock, from the thread of the kind's reflector or of the writer.
    """

    def __init__(self, client: Client, namespaces: Sequence[str] = ()) -> None:
        self._client = client
        self._namespaces = tuple(namespaces)
        self._on_change: OnChange = lambda old, new: None
        self._on_state: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._kinds: dict[_Place, _KindStore] = {}
        self._reflectors: dict[_Place, Reflector] = {}
        self._by_uid: dict[str, Manifest] = {}
        self._dependents: dict[str, dict[str, Manifest]] = {}
        self._finished: OrderedDict[ObjectRef, Manifest] = OrderedDict()

    def subscribe(self, on_change: OnChange, on_state: Callable[[], None]) -> None:
        """Subscribe once, at the start: to changes, and to watches that fail, recover, or have a late first list."""
        self._on_change = on_change
        self._on_state = on_state

    def follow(self, scopes: Iterable[Scope], timeout: float, *, only: bool = False) -> None:
        """
        Follow these kinds too; wait until each has been listed completely and none is behind.

        Of several namespaces for which a scope without one stands, those that may not be read are left out.
        """
        for error in self.follow_available(scopes, timeout, only=only).values():
            raise error

    def follow_available(
        self, scopes: Iterable[Scope], timeout: float, *, only: bool = False
    ) -> Mapping[ApiResource, GroupUnavailable]:
        """Follow these kinds as ``follow`` does, and return the error of each kind whose API group is unavailable."""
        places = self._single_places if only else self._all_places
        followed = [(scope[0], [self._reflector(place) for place in places(*scope)]) for scope in scopes]
        give_up = time.monotonic() + timeout
        unavailable: dict[ApiResource, GroupUnavailable] = {}
        # all reflectors have been started by now, so their first lists arrive in parallel
        for resource, reflectors in followed:
            for reflector in reflectors:
                reflector.wait_synced(max(give_up - time.monotonic(), 0))
            for reflector in _required(reflectors) if self._namespaces else reflectors:
                error = self._behind(reflector)
                if isinstance(error, GroupUnavailable):
                    unavailable[resource] = error
                elif error is not None:
                    raise error
        return unavailable

    def forget(self, of: GroupKind) -> None:
        """Stop following a kind that the cluster does not serve any more."""
        with self._lock:
            gone = [place for place in self._reflectors if (place[0].group, place[0].kind) == (of.group, of.kind)]
            reflectors = [self._reflectors.pop(place) for place in gone]
            copies = [self._kinds.pop(place) for place in gone]
        for reflector in reflectors:
            reflector.stop()
        for copy in copies:  # reported as deletions, since nothing will report them any more
            copy.replace({}, "")

    def relist(self, of: GroupKind, delay: float) -> None:
        """List a kind again after ``delay`` seconds, where it is followed."""
        with self._lock:
            reflectors = [it for place, it in self._reflectors.items() if (place[0].group, place[0].kind) == of]
        for reflector in reflectors:
            reflector.relist(delay)

    def get(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        """Return the object as last seen, None when it is absent; raise Refused for a namespace that is not watched."""
        with self._lock:
            return self._items(resource, namespace).get(f"{namespace}/{name}")

    def find(self, resource: ApiResource, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Manifest]:
        """Return those of these objects of a kind that are present; raise Refused as ``get`` does."""
        objects: dict[ObjectRef, Manifest] = {}
        with self._lock:
            stores: dict[str, Mapping[str, Manifest]] = {}
            for ref in refs:
                items = stores.get(ref.namespace)
                if items is None:
                    items = stores[ref.namespace] = self._items(resource, ref.namespace)
                manifest = items.get(f"{ref.namespace}/{ref.name}")
                if manifest is not None:
                    objects[ref] = manifest
        return objects

    def _items(self, resource: ApiResource, namespace: str) -> Mapping[str, Manifest]:
        copy = self._kinds.get(self._scope_of(resource, namespace))
        return copy.items if copy is not None else {}

    def all(self, resource: ApiResource) -> tuple[Manifest, ...]:
        """Return every object of a kind that is followed."""
        with self._lock:
            copies = [self._kinds.get(place) for place in self._places(resource)]
            return tuple(item for copy in copies if copy is not None for item in copy.items.values())

    def counts(self) -> Mapping[str, int]:
        """Return how many objects are kept, by resource such as ``deployments.apps``."""
        counts: Counter[str] = Counter()
        with self._lock:
            for (resource, _), copy in self._kinds.items():
                counts[f"{resource.plural}.{resource.group}" if resource.group else resource.plural] += len(copy.items)
        return counts

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        """Return the objects of the followed kinds that name this uid as an owner."""
        with self._lock:
            return tuple(self._dependents.get(uid, {}).values())

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """Return the object and its owners, the nearest first, as far as they are followed."""
        chain = [manifest]
        with self._lock:
            while len(chain) < 8:  # an ownership cycle must not hold us
                owner = next(
                    (self._by_uid[uid] for uid in _owner_uids(chain[-1]) if uid in self._by_uid),
                    None,
                )
                if owner is None:
                    break
                chain.append(owner)
        return tuple(chain)

    def last_finished(self, ref: ObjectRef) -> Manifest | None:
        """Return the last state of a deleted object that had finished."""
        with self._lock:
            return self._finished.get(ref)

    def _remember_finished(self, manifest: Manifest) -> None:
        """Keep the last state of an object that is gone, if it had finished; called under the lock."""
        if finish_of(manifest) is None:
            return
        ref = ref_of(manifest)
        self._finished.pop(ref, None)
        self._finished[ref] = manifest
        if len(self._finished) > _FINISHED:
            self._finished.popitem(last=False)

    def observe_write(self, resource: ApiResource, manifest: Manifest) -> None:
        """Store the response of our own write, so that the next reconcile does not act on stale data."""
        copy = self._copy(resource, manifest)
        if copy is not None and resource_version_of(manifest):
            copy.put(_key(manifest), manifest, is_answer=True)

    def observe_delete(self, resource: ApiResource, manifest: Manifest) -> None:
        """Remove an object that our own delete removed, so that the next reconcile does not delete it again."""
        copy = self._copy(resource, manifest)
        if copy is not None:
            copy.remove(_key(manifest), manifest)

    def stop(self) -> None:
        """Stop following."""
        with self._lock:
            reflectors = list(self._reflectors.values())
        for reflector in reflectors:
            reflector.stop()
        for reflector in reflectors:  # after all were asked to stop, so that they end at the same time
            reflector.join(2.0)

    def _behind(self, reflector: Reflector) -> ClusterUnavailable | None:
        """Return why a kind is not up to date, with the missing right where that is the reason; None when it is."""
        error = reflector.error
        hint = ""
        if reflector.is_synced and error is None:
            return None
        if isinstance(error, GroupUnavailable):
            return GroupUnavailable(f"{reflector.name} cannot be observed: {error.message}", hint=error.hint)
        if error is not None and _is_forbidden(error):
            hint = forbidden_hint(error.message)
            hint += "" if self._namespaces else "; GITSYNC_NAMESPACES limits the controller to some namespaces"
        state = "may be out of date" if reflector.is_synced else "has not been listed yet"
        return ClusterUnavailable(f"{reflector.name} {state}" + (f": {error}" if error else ""), hint=hint)

    def _copy(self, resource: ApiResource, manifest: Manifest) -> _KindStore | None:
        place = self._scope_of(resource, str(metadata_of(manifest).get("namespace") or ""))
        with self._lock:
            return self._kinds.get(place)

    def _places(self, resource: ApiResource, namespace: str = "") -> tuple[_Place, ...]:
        """Return what is listed and watched to follow a kind, in all watched namespaces or in one of them."""
        if not resource.namespaced or not self._namespaces:
            return ((resource, ""),)
        return tuple((resource, name) for name in self._namespaces if namespace in ("", name))

    def _all_places(self, resource: ApiResource, namespace: str) -> tuple[_Place, ...]:
        """Return the places of a scope, with those of the kind that are followed alone: objects are read from them."""
        with self._lock:
            singles = [place for place in self._reflectors if place[0] == resource and place[1]]
        return (*self._places(resource, namespace), *(() if self._namespaces else singles))

    def _single_places(self, resource: ApiResource, namespace: str) -> tuple[_Place, ...]:
        """Return the place of one namespace alone, or that of all namespaces where it is followed and current."""
        with self._lock:
            whole = self._reflectors.get((resource, ""))
            is_single = (resource, namespace) in self._reflectors
        is_covered = whole is not None and whole.is_synced and whole.error is None
        if self._namespaces or (is_covered and not is_single):
            return self._places(resource, namespace)
        return ((resource, namespace),)

    def _scope_of(self, resource: ApiResource, namespace: str) -> _Place:
        """Return the scope that covers a namespace; raise Refused when none does, since absence is then unknown."""
        if not resource.namespaced or not self._namespaces:
            with self._lock:
                return (resource, namespace) if (resource, namespace) in self._kinds else (resource, "")
        if namespace not in self._namespaces:
            raise Refused(
                f"the controller watches only the namespaces {', '.join(self._namespaces)}",
                object=f"{resource.kind} in namespace {namespace}",
                hint="add the namespace to GITSYNC_NAMESPACES",
            )
        return resource, namespace

    def _reflector(self, place: _Place) -> Reflector:
        resource, namespace = place
        with self._lock:
            reflector = self._reflectors.get(place)
            if reflector is None:
                copy = self._kinds[place] = _KindStore(self)
                reflector = self._reflectors[place] = Reflector(
                    f"{resource} in {namespace}" if namespace else str(resource),
                    KindCollection(self._client, resource, namespace),
                    copy,
                    on_state=self._on_state,
                )
                reflector.start()
            return reflector

    def _reindex(self, old: Manifest | None, new: Manifest | None) -> None:
        """Keep the indexes true; called under the lock."""
        if old is not None:
            uid = uid_of(old)
            if new is None or uid_of(new) != uid:  # deleted and created again under its name
                self._by_uid.pop(uid, None)
            for owner in _owner_uids(old):
                members = self._dependents.get(owner, {})
                members.pop(uid, None)
                if not members:
                    self._dependents.pop(owner, None)
        if new is not None:
            self._by_uid[uid_of(new)] = new
            for owner in _owner_uids(new):
                self._dependents.setdefault(owner, {})[uid_of(new)] = new

    def _notify(self, changes: Iterable[tuple[Manifest | None, Manifest | None]]) -> None:
        """Notify subscribers; called without the lock, which a subscriber may take."""
        for old, new in changes:
            self._on_change(old, new)

    @property
    def lock(self) -> threading.RLock:
        """The one lock of all copies."""
        return self._lock


class _KindStore:
    """
    The objects of one kind; what a reflector writes into.

    An object that is gone never comes back: the answer to a write of ours may arrive after the news of its deletion.
    """

    def __init__(self, view: InformerCache) -> None:
        self.items: dict[str, Manifest] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._answers: dict[str, Manifest] = {}
        """Answers to our writes that no event has reported yet: a list that was read before lacks them."""
        self._fields = SharedFields()
        self._view = view

    def replace(self, items: Mapping[str, dict[str, Any]], version: str) -> None:
        with self._view.lock:
            old_items = self.items
            self._answers = {
                key: answer for key, answer in self._answers.items() if _is_after(resource_version_of(answer), version)
            }
            current = {key: item for key, item in items.items() if uid_of(item) not in self._gone}
            self.items = {**current, **self._answers}
            changes: list[tuple[Manifest | None, Manifest | None]] = []
            for key in old_items.keys() | self.items.keys():
                old = old_items.get(key)
                new = self.items.get(key)
                if new is not None:
                    self._fields.share(new)
                if old is None or new is None or not _is_same(old, new) or old != new:
                    self._view._reindex(old, new)
                    changes.append((old, new))
                if old is not None and new is None:
                    self._view._remember_finished(old)
        self._view._notify(changes)

    def put(self, key: str, item: dict[str, Any], *, is_answer: bool = False) -> None:
        with self._view.lock:
            known = self.items.get(key)
            if not is_answer:
                self._confirm(key, item)
            # a watch that was opened before its definition changed leaves new fields out, and the answer has them
            is_told = is_answer and known is not None and _is_same(item, known)
            is_corrected = is_told and item != known
            if is_told and not is_corrected:
                # nothing changes but what it shares: an answer has members of what was declared
                self._fields.share(item)
                self.items[key] = item
                self._view._reindex(known, item)
                return
            if uid_of(item) in self._gone or (known is not None and not (is_corrected or _is_newer(item, known))):
                return
            self._fields.share(item)
            self.items[key] = item
            if is_answer:
                self._answers[key] = item
            self._view._reindex(known, item)
        self._view._notify([(known, item)])

    def remove(self, key: str, item: dict[str, Any]) -> None:
        with self._view.lock:
            self._remember_deleted(uid_of(item))
            self._confirm(key, item)
            known = self.items.get(key)
            if known is None or uid_of(known) != uid_of(item):  # the name belongs to its successor already
                return
            self._view._remember_finished(item)
            del self.items[key]
            self._view._reindex(known, None)
        self._view._notify([(known, None)])

    def _confirm(self, key: str, item: Manifest) -> None:
        """Forget the answer to a write that an event has reported, or has reported as overtaken."""
        answer = self._answers.get(key)
        if answer is not None and (uid_of(answer) in self._gone or not _is_newer(answer, item)):
            del self._answers[key]

    def _remember_deleted(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)


def _is_same(item: Manifest, known: Manifest) -> bool:
    """Whether both are of one version of an object."""
    return resource_version_of(item) == resource_version_of(known)


def _is_newer(item: Manifest, known: Manifest) -> bool:
    """Whether an event is newer than the copy: the response of our own write may have arrived first."""
    new, old = resource_version_of(item), resource_version_of(known)
    # defined as comparable since Kubernetes 1.35, before that in practice
    return _is_after(new, old) if new.isdecimal() and old.isdecimal() else new != old


def _is_after(version: str, other: str) -> bool:
    """Whether a resourceVersion is the later one, where both can be compared."""
    return version.isdecimal() and other.isdecimal() and int(version) > int(other)


def _owner_uids(manifest: Manifest) -> list[str]:
    return [str(owner.get("uid")) for owner in metadata_of(manifest).get("ownerReferences") or []]


def _key(manifest: Manifest) -> str:
    meta = metadata_of(manifest)
    return f"{meta.get('namespace') or ''}/{meta.get('name')}"


def _required(reflectors: list[Reflector]) -> list[Reflector]:
    """Return the reflectors that have to be up to date: all, or those that may read where some of several may."""
    allowed = [reflector for reflector in reflectors if not _is_forbidden(reflector.error)]
    return allowed or reflectors


def _is_forbidden(error: GitsyncError | None) -> bool:
    return isinstance(error, Rejected) and error.code == 403


_KEPT = 1024


def _intern(members: dict[str, Any], names: Iterable[str]) -> None:
    """Replace texts by equal ones that are in memory already, which Python keeps as long as one is used."""
    for name in names:
        text = members.get(name)
        # of exactly this type: a subclass cannot be interned
        if type(text) is str:
            members[name] = sys.intern(text)


class SharedFields:
    """
    Keep equal ``fieldsV1`` of ``metadata.managedFields`` once, and equal texts beside them and of the kind.

    They are a third of the memory of a small object, and those of a kind that one manager applied are alike. Nothing
    changes an observed object, so that its parts may be shared. After ``_KEPT`` different ones it begins again.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def share(self, manifest: Manifest) -> None:
        """Replace the field sets and texts of an object by those that are kept already; keep the others."""
        _intern(manifest, ("apiVersion", "kind"))
        _intern(metadata_of(manifest), ("namespace",))
        for entry in metadata_of(manifest).get("managedFields") or ():
            if isinstance(entry, dict):
                _intern(entry, ("manager", "operation", "apiVersion", "time", "fieldsType"))
                if "fieldsV1" in entry:
                    entry["fieldsV1"] = self._kept(entry["fieldsV1"])

    def _kept(self, fields: Any) -> Any:
        if len(self._known) >= _KEPT:
            self._known.clear()
        return self._known.setdefault(orjson.dumps(fields), fields)
