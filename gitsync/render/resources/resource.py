"""Resource: a manifest during a build, with the names it had before."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.scalar_types import reset, settled, text_of, texts_of

NOT_NAMESPACED: Final = "_non_namespaceable_"
"""The effective namespace of cluster-scoped kinds, as Kustomize writes it."""
DEFAULT_NAMESPACE: Final = "default"
_LARGEST_COPY: Final = 1 << 17
_TEXT_UNIT: Final = 64
_COLLECTIONS: Final = (dict, list)


class Gvk(NamedTuple):
    """Group, version and kind; as a selector, an empty member matches anything."""

    group: str
    version: str
    kind: str

    def selects(self, other: Gvk) -> bool:
        """Return whether every member that is set here equals the other's."""
        return (
            (not self.kind or self.kind == other.kind)
            and (not self.group or self.group == other.group)
            and (not self.version or self.version == other.version)
        )

    def __str__(self) -> str:
        return ".".join((self.kind or "[noKind]", self.version or "[noVer]", self.group or "[noGrp]"))


class Id(NamedTuple):
    """What identifies a resource within a build; equal ids may not meet."""

    gvk: Gvk
    namespace: str
    """The effective namespace: ``default`` where none is set, NOT_NAMESPACED for cluster-scoped kinds."""
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace not in (NOT_NAMESPACED, DEFAULT_NAMESPACE) else ""
        return f"{self.gvk.kind} {place}{self.name}"


class Origin(NamedTuple):
    """The source of a manifest: a file of the tree and the index of the document in it."""

    file: str
    document: int


class BuildStep(NamedTuple):
    """A file an object was read from, or a generator or transformer and the file that configures it."""

    path: str = ""
    configured_in: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


def gvk_of(manifest: Manifest) -> Gvk:
    """Return the group, version and kind of a manifest; absent members are empty."""
    version = manifest.get("apiVersion")
    kind = manifest.get("kind")
    if type(version) is type(kind) is str:  # nearly all
        return _gvk(version, kind)
    return _gvk(text_of(version), text_of(kind))


@lru_cache(maxsize=4096)
def _gvk(api_version: str, kind: str) -> Gvk:
    group, slash, version = api_version.partition("/")
    return Gvk(group, version, kind) if slash else Gvk("", api_version, kind)


def copy_value(value: Any) -> Any:
    """Return a copy that shares no collection with the value."""
    if isinstance(value, dict):
        members = dict(value)
        for key, item in value.items():
            if isinstance(item, _COLLECTIONS):
                members[key] = copy_value(item)
        return members
    if isinstance(value, list):
        return [copy_value(item) if isinstance(item, _COLLECTIONS) else item for item in value]
    return value


def refuse_large(value: Any) -> None:
    """Raise InvalidInput where a value is too large to be copied, which copies of copies soon are."""
    waiting = [value]
    weight = 0
    while waiting:
        item = waiting.pop()
        weight += 1 + (len(item) // _TEXT_UNIT if isinstance(item, str) else 0)
        if weight > _LARGEST_COPY:
            raise InvalidInput("the value is too large to be copied", hint="copy less, and not into itself")
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


class SharedEntry(NamedTuple):
    """
    A label or annotation that one transformer added to several mappings of an object, where Kustomize keeps one node.

    Whatever sets it in one of them later sets it in all. Source: ``filtersutil.SetEntry`` makes the node once for an
    object, ``yaml.FieldSetter`` appends it where the key is absent, and overwrites it in place where it is present. It
    ends where an object is parsed again: a JSON patch, or a generator that merges into it.
    """

    key: str
    places: tuple[tuple[str, int], ...]
    """The mappings: the path of a field spec, and the position among all that it leads to through lists."""
    value: str

    def synced(self, manifest: Manifest) -> SharedEntry:
        """Set the value that one of the mappings has got in all that still have the key; return the entry with it."""
        by_path = {path: list(_mappings(manifest, path)) for path, _ in self.places}
        members = [by_path[path][position] for path, position in self.places if position < len(by_path[path])]
        mappings = [mapping for mapping in members if self.key in mapping]
        changes = [mapping[self.key] for mapping in mappings if mapping[self.key] != self.value]
        if not changes:
            return self
        for mapping in mappings:
            mapping[self.key] = changes[-1]
        return self._replace(value=changes[-1])


def _mappings(node: Any, path: str) -> Iterator[dict[str, Any]]:
    """Yield the mappings at the path of a field spec, through all items of lists."""
    name, _, rest = path.removeprefix("/").partition("/")
    if isinstance(node, list):
        for item in node:
            yield from _mappings(item, path)
    elif isinstance(node, dict):
        if name:
            yield from _mappings(node.get(name.removesuffix("[]")), rest)
        else:
            yield node


class PreviousId(NamedTuple):
    """A name that a resource had before a transformer changed it."""

    kind: str
    namespace: str
    name: str


class ResourceVersion:
    """
    An immutable version of a resource at one point of a build, shared between builds.

    Two resources with the same version were made by the same steps.
    """

    __slots__ = ("face", "id", "manifest", "prefixes", "previous", "shared_entries", "suffixes")

    def __init__(
        self,
        manifest: Manifest,
        previous: tuple[PreviousId, ...] = (),
        prefixes: tuple[str, ...] = (),
        suffixes: tuple[str, ...] = (),
        shared_entries: tuple[SharedEntry, ...] = (),
    ) -> None:
        self.manifest = manifest
        self.shared_entries = shared_entries
        self.previous = previous
        self.prefixes = prefixes
        self.suffixes = suffixes
        self.id: Id | None = None
        """Its id, once computed, where only the built-in kinds are cluster-scoped."""
        self.face: Any = None
        """How references see it, likewise."""


class Generation(NamedTuple):
    """What a generator wants: the merge with a resource of the same name, and whether the name gets a hash."""

    behavior: str = ""
    needs_hash: bool = False


NOT_GENERATED: Final = Generation()


class Resource:
    """
    One manifest of a build and its state in the build.

    The manifest may be shared with other builds until ``editable`` is asked for.
    """

    __slots__ = (
        *("manifest", "origin", "shared", "known", "previous", "prefixes", "suffixes", "shared_entries"),
        *("behavior", "needs_hash", "variables", "edits", "source", "steps", "is_from_helm"),
    )

    def __init__(
        self,
        manifest: Manifest,
        origin: Origin,
        known: ResourceVersion | None = None,
        *,
        generation: Generation = NOT_GENERATED,
        source: BuildStep | None = None,
    ) -> None:
        self.manifest = manifest
        self.origin = origin
        self.shared = known is not None
        self.known = known
        """The version that other builds may share; a change of the resource resets this."""
        self.previous: tuple[PreviousId, ...] = known.previous if known else ()
        self.prefixes: tuple[str, ...] = known.prefixes if known else ()
        self.suffixes: tuple[str, ...] = known.suffixes if known else ()
        self.shared_entries: tuple[SharedEntry, ...] = known.shared_entries if known else ()
        self.behavior = generation.behavior
        self.needs_hash = generation.needs_hash
        self.is_from_helm = False
        """Whether a chart of a kustomization made it, so that its namespace is that of the release."""
        self.variables: tuple[str, ...] = ()
        self.edits = 0
        self.source = source
        """Where ``buildMetadata`` says it comes from."""
        self.steps: tuple[BuildStep, ...] = ()
        """The transformers it went through, for ``buildMetadata``."""

    def restore(self, known: ResourceVersion) -> None:
        """Set the resource to a version that another build made."""
        self.known = known
        self.shared = True
        self.manifest = known.manifest
        self.previous = known.previous
        self.prefixes = known.prefixes
        self.suffixes = known.suffixes
        self.shared_entries = known.shared_entries

    def snapshot(self) -> ResourceVersion:
        """Return the present version, which other builds share from now on."""
        if self.known is None:
            self.shared = True
            self.known = ResourceVersion(
                self.manifest, self.previous, self.prefixes, self.suffixes, self.shared_entries
            )
        return self.known

    def put(self, manifest: Manifest) -> None:
        """Replace the manifest; the caller gives up ownership."""
        self.manifest = manifest
        self.shared = False
        self.known = None
        self.edits += 1

    @property
    def editable(self) -> Manifest:
        """The manifest, private to this resource and free to change in place."""
        # Other builds hold the same manifest in their cache.
        if self.shared:
            self.manifest = copy_value(self.manifest)
            self.shared = False
        self.known = None
        self.edits += 1
        return self.manifest

    @property
    def gvk(self) -> Gvk:
        """Group, version and kind as they are now."""
        return gvk_of(self.manifest)

    @property
    def name(self) -> str:
        """The name as it is now."""
        return text_of((self.manifest.get("metadata") or {}).get("name"))

    @property
    def namespace(self) -> str:
        """The namespace as it is now, empty where none is set."""
        return text_of((self.manifest.get("metadata") or {}).get("namespace"))

    def sync_shared_entries(self) -> None:
        """Give the labels and annotations that share a node the value that one of them has got."""
        if self.shared_entries:
            manifest = self.editable
            self.shared_entries = tuple(entry.synced(manifest) for entry in self.shared_entries)

    def remember(self, now: Id) -> None:
        """Add an id to the previous ones, because a transformer is about to change it."""
        # Kept for good: a patch or reference may name any id that the object ever had. Once in a row: most patches
        # change no id, and each of many would leave another copy of the same in every object.
        previous = PreviousId(now.gvk.kind, now.namespace, now.name)
        if self.previous[-1:] != (previous,):
            self.previous += (previous,)
        self.known = None

    def note(self, step: BuildStep, times: int = 1) -> None:
        """Add a step it went through; the first one is where it comes from, if nothing else is."""
        if self.source is None and times:
            self.source = step
            times = times - 1
        self.steps += (step,) * times

    def forget_origin(self) -> None:
        """Forget where it comes from, as Kustomize does where its annotations are replaced."""
        self.source = None
        self.steps = ()

    def forget_past(self) -> None:
        """Forget all that Kustomize keeps in annotations."""
        self.forget_origin()
        self.previous = ()
        self.prefixes = ()
        self.suffixes = ()
        self.behavior = ""
        self.needs_hash = False
        self.known = None

    def check_names(self) -> None:
        """Raise InvalidInput where a patch or the like has left no place for a name."""
        meta = self.manifest.get("metadata")
        if meta is not None and not isinstance(meta, dict):
            raise InvalidInput("metadata is no longer a mapping", hint="correct what changes it")
        for key in ("name", "namespace"):
            if meta and isinstance(meta.get(key), dict | list):
                raise InvalidInput(f"metadata.{key} is no longer a text", hint="correct what changes it")

    def set_meta(self, key: str, value: str, *, is_settled: bool = False) -> None:
        """
        Set a member of metadata; an empty value removes it.

        ``is_settled`` tells that a merge patch has passed the member, and so has quoted what looks like a number.
        """
        manifest = self.editable
        meta = manifest.get("metadata")
        if not isinstance(meta, dict):
            meta = manifest["metadata"] = {}
        if value:
            old = meta.get(key)
            new = reset(value, old)
            meta[key] = settled(new) if is_settled and isinstance(old, str) else new
        else:
            meta.pop(key, None)

    def labels(self, member: str = "labels") -> dict[str, str]:
        """Return the labels (or annotations) with their values as text."""
        values = (self.manifest.get("metadata") or {}).get(member)
        if not isinstance(values, dict):
            return {}
        return texts_of(values)
