"""The resources the sandbox serves: built-in ones from the schema data, and those of custom resource definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gitsync.kube.openapi import ResourceType, Subresource
from gitsync.merge.schema import DEDUCED, Schema, builtin
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.contract import Strategy


@dataclass(frozen=True, slots=True)
class ServedResource:
    """
    One resource at one version.

    ``storage`` names its collection; versions of one resource, and events of both groups, share it. Objects are
    stored at ``storage_version`` (an apiVersion).
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    subresources: tuple[Subresource, ...]
    storage: str
    storage_version: str
    custom: bool = False
    aggregated: bool = False
    """Served as by another API server behind this one, whose group comes after those of custom resources."""
    deprecation: str = ""
    """What every answer warns of."""
    from_storage: Callable[[Manifest], Manifest] | None = field(default=None, compare=False)
    to_storage: Callable[[Manifest], Manifest] | None = field(default=None, compare=False)
    """What a custom resource's schemas do to an object whose version changes on a read and on a write."""

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def subresource(self, name: str) -> Subresource | None:
        """Return a subresource, or None."""
        return next((sub for sub in self.subresources if sub.name == name), None)


@dataclass(frozen=True, slots=True)
class Address:
    """The object, or the subresource of one, that a request names."""

    resource: ServedResource
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> str:
        """The key of the object in its collection."""
        return f"{self.namespace}/{self.name}"


class Registry:
    """Find resources by path and by kind; knows the order of groups and versions for discovery."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_kind: dict[tuple[str, str, str], ServedResource] = {}
        self._preferred: dict[tuple[str, str], ServedResource] = {}
        self._strategies: dict[tuple[str, str, str], Strategy] = {}
        self._schemas: dict[tuple[str, str, str], Schema] = {}
        self.generation = 0
        """Grows with every change, so that documents made from the registry can be kept until then."""

    def add(self, resource: ServedResource, strategy: Strategy | None = None, schema: Schema | None = None) -> None:
        """Serve a resource; versions of a group are added in their order of preference."""
        key = (resource.group, resource.version, resource.kind)
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.group, resource.version, resource.kind] = resource
        # The first added version is the preferred one.
        self._preferred.setdefault((resource.group, resource.kind), resource)
        if strategy is not None:
            self._strategies[key] = strategy
        if schema is not None:
            self._schemas[key] = schema
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        for key, resource in list(self._by_path.items()):
            if resource.group == group and resource.plural == plural:
                del self._by_path[key]
                self._by_kind.pop((group, resource.version, resource.kind), None)
                self._strategies.pop((group, resource.version, resource.kind), None)
                self._schemas.pop((group, resource.version, resource.kind), None)
                self._preferred.pop((group, resource.kind), None)
        self.generation += 1

    def at_path(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource of a URL."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> ServedResource | None:
        """Return the resource of a kind at a version."""
        return self._by_kind.get((group, version, kind))

    def preferred(self, group: str, kind: str) -> ServedResource | None:
        """Return the resource of a kind at its preferred version."""
        return self._preferred.get((group, kind))

    def strategy(self, resource: ServedResource) -> Strategy | None:
        """Return the strategy that was added with the resource."""
        return self._strategies.get((resource.group, resource.version, resource.kind))

    def schema(self, resource: ServedResource) -> Schema:
        """Return what the merge core knows of the resource's kind."""
        key = (resource.group, resource.version, resource.kind)
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._schemas[key] = builtin().for_kind(*key) or DEDUCED
        return schema

    def group_versions(self, *, by_name: bool = False) -> dict[str, list[str]]:
        """
        Return the versions of each group in order of preference, the core group first.

        Groups of custom resources come last: by their least ``VERSION.GROUP``, as kube-aggregator sorts the APIServices
        of one priority, or by their names (``by_name``), as aggregated discovery has them.
        """
        built_in: dict[str, list[str]] = {}
        custom: dict[str, list[str]] = {}
        aggregated: dict[str, list[str]] = {}
        for (group, version, _), resource in self._by_path.items():
            groups = custom if resource.custom and group not in built_in else built_in
            groups = aggregated if resource.aggregated else groups
            versions = groups.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        for versions in custom.values():
            versions.sort(key=version_preference)  # several definitions may share a group
        ordered = sorted(custom) if by_name else sorted(custom, key=lambda group: _first_name(group, custom[group]))
        return built_in | {group: custom[group] for group in ordered} | aggregated

    def mark_changed(self) -> None:
        """Invalidate the documents that were made from the registry."""
        self.generation += 1

    def in_version(self, group: str, version: str) -> Iterator[ServedResource]:
        """Yield the resources of a group version by plural name."""
        keys = sorted(key for key in self._by_path if key[:2] == (group, version))
        return (self._by_path[key] for key in keys)


_SHARED_STORAGE = {
    # resource: (collection, apiVersion it is stored at)
    ("autoscaling", "horizontalpodautoscalers"): ("autoscaling/horizontalpodautoscalers", "autoscaling/v2"),
    ("events.k8s.io", "events"): ("/events", "v1"),
}

_DEPRECATIONS = {
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ("", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
}


def builtin_resource(resource_type: ResourceType) -> ServedResource:
    """Return a built-in resource as the sandbox serves it."""
    storage, version = _SHARED_STORAGE.get(
        (resource_type.group, resource_type.plural),
        (f"{resource_type.group}/{resource_type.plural}", resource_type.api_version),
    )
    return ServedResource(
        group=resource_type.group,
        version=resource_type.version,
        plural=resource_type.plural,
        singular=resource_type.singular,
        kind=resource_type.kind,
        list_kind=f"{resource_type.kind}List",
        namespaced=resource_type.namespaced,
        verbs=resource_type.verbs,
        short_names=resource_type.short_names,
        categories=resource_type.categories,
        subresources=resource_type.subresources,
        storage=storage,
        storage_version=version,
        deprecation=_DEPRECATIONS.get((resource_type.group, resource_type.plural), ""),
    )


def version_preference(name: str) -> tuple[int, int, int, str]:
    """Order versions as Kubernetes prefers them: stable ones, then beta, then alpha, the newest first."""
    major, _, rest = name.removeprefix("v").partition("beta")
    rank = 1
    if not rest:
        major, _, rest = name.removeprefix("v").partition("alpha")
        rank = 2 if rest else 0
    if not name.startswith("v") or not major.isdecimal() or (rest and not rest.isdecimal()):
        return (3, 0, 0, name)
    return (rank, -int(major), -int(rest or 0), name)


def _first_name(group: str, versions: list[str]) -> str:
    return min(f"{version}.{group}" for version in versions)
