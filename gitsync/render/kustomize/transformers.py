"""The transformers of a kustomization file that set single fields: namespace, names, labels, replicas, images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.build_cache import CachedSteps, hashable
from gitsync.render.kustomize.generators import name_hash
from gitsync.render.resources.field_spec import FieldSpec, visit
from gitsync.render.resources.internal_annotations import wants_hash
from gitsync.render.resources.resource import Gvk, Resource, SharedEntry, gvk_of
from gitsync.render.resources.scopes import Scopes
from gitsync.render.resources.selectors import compile_pattern
from gitsync.render.yaml.scalar_types import NullKey, reset, settled, styled, text_of
from gitsync.render.yaml.scalars import resolve

_IMAGE_MEMBERS: Final = ("newName", "tagSuffix", "newTag", "digest")
"""The members of an entry of ``images`` that change an image, in the order of a reference."""
_BINDINGS: Final = ("RoleBinding", "ClusterRoleBinding")
# Kustomize: prefixes would break these, whose names mean something outside the build.
_KEEP_NAME: Final = (
    Gvk("", "", "CustomResourceDefinition"),
    Gvk("apiregistration.k8s.io", "", "APIService"),
    Gvk("", "", "Namespace"),
)
_NAMESPACE: Final = FieldSpec(Gvk("", "", ""), "metadata/namespace", create=True)
_TAG: Final = r"(:[a-zA-Z0-9_.{}-]*)?(@sha256:[a-zA-Z0-9_.{}-]*)?"
_COLLECTIONS: Final = (dict, list)
_PLAIN_IMAGE: Final = r"[A-Za-z0-9_/:.-]*"
"""Names that are matched in linear time by any engine, though each dot in them matches any character."""


class NamespaceRule(NamedTuple):
    """A namespace with the fields that name it; ``subjects`` are those of bindings that it applies to."""

    namespace: str
    specs: Sequence[FieldSpec]
    only_unset: bool = False
    subjects: str = "defaultOnly"


class ReplicaRule(NamedTuple):
    """The count of replicas for the workloads of a name, and the fields that hold it."""

    name: str
    replicas: int
    specs: Sequence[FieldSpec]


def set_namespace(resources: Iterable[Resource], rule: NamespaceRule, scopes: Scopes) -> None:
    """Put the resources into a namespace, with the fields that name their own namespace."""
    for resource in resources:
        # Kustomize leaves the namespace of a chart's objects to Helm, which gets it too (``NamespaceTransformer``).
        if resource.is_from_helm:
            continue
        scopes.remember(resource)
        put_namespace(resource, rule, scopes)


def refuse_duplicates(resources: Sequence[Resource], namespace: str, scopes: Scopes) -> None:
    """Refuse resources that have become the same in their namespace."""
    ids = scopes.ids_of(resources)
    if len(set(ids)) == len(ids):
        return
    by_id: dict[object, Resource] = {}
    for id_, resource in zip(ids, resources, strict=True):
        other = by_id.setdefault(id_, resource)
        if other is not resource:
            raise InvalidInput(
                f"the namespace {namespace} would hold it twice",
                location=resource.origin.file,
                object=str(id_),
                hint=f"rename one of them; the other is in {other.origin.file}",
            )


def put_namespace(resource: Resource, rule: NamespaceRule, scopes: Scopes) -> None:
    """Put one resource into a namespace, with its fields that name it."""
    gvk = resource.gvk
    manifest = resource.editable

    def put(holder: Any, key: Any) -> None:
        value = holder[key]
        if isinstance(value, dict | list):
            raise InvalidInput(
                f"the namespace cannot be written to {key}, which is not a plain value",
                location=resource.origin.file,
                object=str(scopes.id_of(resource)),
                hint="correct the field spec of the namespace transformer",
            )
        if not rule.only_unset or not text_of(value):
            holder[key] = rule.namespace  # with the tag of a text, unlike names

    # A kind that no schema knows counts as namespaced.
    if not scopes.is_cluster_scoped(gvk):
        visit(manifest, _NAMESPACE, put, str)
    is_binding = gvk.kind in _BINDINGS
    if is_binding:
        for subject in _subjects(manifest, rule.subjects):
            # Kustomize adds the member where it is absent.
            subject.setdefault("namespace", "")
            put(subject, "namespace")
    for spec in rule.specs:
        # Done above, as Kustomize does: these two have rules of their own there.
        if spec.path == "metadata/namespace" or (is_binding and spec.path == "subjects/namespace"):
            continue
        # Only the core Namespace is renamed with the namespace, whatever a configuration adds.
        if spec.path == "metadata/name" and (gvk.group, gvk.version) != ("", "v1"):
            continue
        if spec.gvk.selects(gvk):
            visit(manifest, spec, put, str)


def _subjects(manifest: Manifest, which: str) -> Iterator[dict[str, Any]]:
    subjects = manifest.get("subjects")
    for subject in subjects if isinstance(subjects, list) and which != "none" else ():
        if isinstance(subject, dict) and (
            subject.get("kind") == "ServiceAccount"
            if which == "allServiceAccounts"
            else subject.get("name") == "default"
        ):
            yield subject


def add_affix(
    resources: Iterable[Resource], affix: str, specs: Sequence[FieldSpec], scopes: Scopes, *, is_prefix: bool
) -> None:
    """Put a prefix or a suffix to the names; kinds whose name means something else keep it."""
    put = _affix(affix, is_prefix)
    by_gvk: dict[Gvk, list[FieldSpec]] = {}
    for resource in resources:
        original = scopes.original_id(resource).gvk
        if original not in by_gvk:
            # Judged by the kind that the resource was read with, not by what a patch made of it.
            is_kept = any(gvk.selects(original) for gvk in _KEEP_NAME)
            by_gvk[original] = [] if is_kept else [spec for spec in specs if spec.gvk.selects(original)]
        for spec in by_gvk[original]:
            # Only the name itself makes a previous id; other fields with the prefix do not.
            if spec.path == "metadata/name":
                scopes.remember(resource)
                if is_prefix:
                    resource.prefixes += (affix,)
                else:
                    resource.suffixes += (affix,)
            with _placed(resource):
                visit(resource.editable, spec, put, str)
            if spec.path != "metadata/name":
                resource.sync_shared_entries()


def _affix(affix: str, is_prefix: bool) -> Callable[[Any, Any], None]:
    def put(holder: Any, key: Any) -> None:
        _refuse_collection(holder, key)
        name = _text_at(holder, key)
        holder[key] = reset(affix + name if is_prefix else name + affix, holder[key])

    return put


def _text_at(holder: Any, key: Any) -> str:
    """Return the text of a plain value; of a null the one that its file has, as Kustomize (``~``, ``Null``, blank)."""
    if holder[key] is not None or not isinstance(holder, dict):
        return text_of(holder[key])
    # the key of the mapping keeps it: an equal key need not be the same object
    written = next(name for name in holder if name == key)
    return written.text if type(written) is NullKey else "null"


def _refuse_collection(holder: Any, key: Any) -> None:
    if isinstance(holder[key], dict | list):
        raise InvalidInput(f"{key} is not a plain value", hint="correct the field, or the path that leads to it")


def set_entries(resources: Iterable[Resource], entries: Mapping[str, str], specs: Sequence[FieldSpec]) -> None:
    """Set labels or annotations in all the fields that hold them; without any, no field is created."""
    if not entries:
        return
    names = frozenset(entries)
    members = {name: settled(value) for name, value in entries.items()}
    unusual = {name: resolve(name) for name in entries if not isinstance(resolve(name), str)}
    additions: list[_Addition] = []
    extended: list[dict[str, Any]] = []
    overwritten: dict[str, Any] = {}
    shared: dict[tuple[_Addition, ...], tuple[SharedEntry, ...]] = {}
    path = ""
    position = 0

    def put(holder: Any, key: Any) -> None:
        nonlocal position
        if holder[key] is not None and not isinstance(holder[key], dict):
            raise InvalidInput(f"{key} must be a mapping, so nothing can be added to it", hint="correct the field")
        if holder[key] is not None:
            for name in unusual.keys() - holder[key].keys():
                raise InvalidInput(
                    f"{name!r} cannot become a key of {key}: without quotes YAML reads it as {unusual[name]!r}",
                    hint="choose a key that is a text in any case",
                )
            present = holder[key]
            new = names if present.keys().isdisjoint(names) else names.difference(present)
            if new:
                additions.append((path, position, new))
                extended.append(present)
            position += 1
            if len(new) == len(names):
                present.update(members)
            else:
                # What is there keeps its style.
                overwritten.update({name: present[name] for name in members if name in present})
                present.update({name: styled(value, present.get(name, value)) for name, value in members.items()})

    by_gvk: dict[Gvk, list[FieldSpec]] = {}
    for resource in resources:
        gvk = resource.gvk
        if gvk not in by_gvk:
            by_gvk[gvk] = [spec for spec in specs if spec.gvk.selects(gvk)]
        if by_gvk[gvk]:
            manifest = resource.editable
            additions.clear()
            extended.clear()
            overwritten.clear()
            with _placed(resource):
                for spec in by_gvk[gvk]:
                    path = spec.path
                    position = 0
                    visit(manifest, spec, put, dict)
            if overwritten:
                # The style of the last member that was overwritten: ``FieldSetter`` gives it to the node that it
                # overwrites the member with, which is the one that it has added, or will add, elsewhere.
                for (_, _, keys), mapping in zip(additions, extended, strict=True):
                    mapping.update({key: styled(members[key], overwritten[key]) for key in keys & overwritten.keys()})
            if any(entry.key in entries for entry in resource.shared_entries):
                resource.sync_shared_entries()
            if len(additions) > 1:
                added = tuple(additions)
                if added not in shared:  # equal for nearly all objects of a kind
                    shared[added] = tuple(_shared(entries, added))
                resource.shared_entries += shared[added]


_Addition: TypeAlias = tuple[str, int, frozenset[str]]
"""The path of a field spec, a position among the mappings that it leads to, and the keys that were new there."""


def _shared(entries: Mapping[str, str], additions: Sequence[_Addition]) -> Iterator[SharedEntry]:
    """Yield the entries that were added to several mappings of one object."""
    for key, value in entries.items():
        # Sorted as a strategic merge goes through an object, where the last change decides.
        places = tuple(sorted((path, position) for path, position, keys in additions if key in keys))
        if len(places) > 1:
            yield SharedEntry(key, places, value)


@contextmanager
def _placed(resource: Resource) -> Iterator[None]:
    """Say which file the resource is in, where something in it is refused."""
    try:
        yield
    except InvalidInput as error:
        if error.location:
            raise
        subject = error.object or f"{resource.gvk.kind} {resource.name}"
        raise InvalidInput(error.message, location=resource.origin.file, object=subject, hint=error.hint) from None


def add_hashes(resources: Iterable[Resource], scopes: Scopes, steps: CachedSteps) -> None:
    """Add the hash of their content to the names of generated resources."""

    def add(generated: Iterable[Resource]) -> None:
        # The hash covers the object as it is now, so it comes after all transformers.
        for resource in generated:
            scopes.remember(resource)
            resource.set_meta("name", f"{resource.name}-{name_hash(resource.manifest)}")

    steps.run("hash", [resource for resource in resources if resource.needs_hash or wants_hash(resource.manifest)], add)


def set_replicas(resources: Sequence[Resource], rule: ReplicaRule, scopes: Scopes, steps: CachedSteps) -> None:
    """Set the count of replicas of the workloads that have, or had, a name; refuse where there is none."""
    name = rule.name
    count = rule.replicas
    specs = rule.specs

    def put(holder: Any, key: Any) -> None:
        _refuse_collection(holder, key)
        holder[key] = styled(count, holder[key])

    def fitting(resource: Resource) -> list[FieldSpec]:
        # The name may be any that the object ever had: base and overlay can both scale it.
        kinds = [id_.gvk for id_ in scopes.all_ids(resource) if id_.name == name]
        return [spec for spec in specs if any(spec.gvk.selects(gvk) for gvk in kinds)]

    def put_all(workloads: Iterable[Resource]) -> None:
        for resource in workloads:
            for spec in fitting(resource):
                if spec.gvk.selects(resource.gvk):
                    with _placed(resource):
                        visit(resource.editable, spec, put, int)

    workloads = [resource for resource in resources if fitting(resource)]
    steps.run(("replicas", hashable([name, count]), tuple(specs)), workloads, put_all)
    if not workloads:
        kinds = ", ".join(spec.gvk.kind or "any kind" for spec in specs)
        raise InvalidInput(
            f"no resource with the name {name} has replicas (searched: {kinds})", hint="correct the name"
        )


def set_images(resources: Iterable[Resource], images: Sequence[tuple[Mapping[str, str], Sequence[FieldSpec]]]) -> None:
    """Change name, tag or digest of the images of containers, in any kind, and in the fields of the specs."""
    # Compiled once for all resources.
    matchers = [_image_matcher(image.get("name") or "") for image, _ in images]
    rules = [(_image_setter(image, matches), specs) for (image, specs), matches in zip(images, matchers, strict=True)]
    for resource in resources:
        with _placed(resource):
            # Before a manifest is copied, it is worth a look whether anything in it will change.
            if not resource.shared or _has_image(resource.manifest, rules, matchers):
                _put_images(resource.editable, rules)


_ImageRule: TypeAlias = tuple[Callable[[Any, Any], None], Sequence[FieldSpec]]


def _has_image(manifest: Manifest, rules: Iterable[_ImageRule], matchers: Iterable[Callable[[str], bool]]) -> bool:
    """Return whether any rule changes the manifest, or refuses it."""
    images: list[Any] = []

    def note(holder: Any, key: Any) -> None:
        images.append(holder[key])

    _put_images(manifest, [(note, specs) for _, specs in rules])
    return any(
        isinstance(value, dict | list) or any(matches(text_of(value)) for matches in matchers) for value in images
    )


def _put_images(manifest: Manifest, rules: Iterable[_ImageRule]) -> None:
    gvk = gvk_of(manifest)
    # Its schema has fields named containers, which hold no images.
    holders = [] if gvk.kind == "CustomResourceDefinition" else list(_container_images(manifest))
    for put, specs in rules:
        # Kustomize finds containers at any depth, so custom kinds with pod templates are covered.
        for holder in holders:
            put(holder, "image")
        for spec in specs:
            if spec.gvk.selects(gvk):
                visit(manifest, spec, put)


def _container_images(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Yield each container with an image, at any place of ``containers`` or ``initContainers``."""
    waiting: list[Any] = [manifest]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            for key, value in node.items():
                if type(value) is str:  # most are, in all objects of a build
                    continue
                if isinstance(value, dict):
                    waiting.append(value)
                elif isinstance(value, list):
                    waiting.append(value)
                    if key in ("containers", "initContainers"):
                        yield from (item for item in value if isinstance(item, dict) and "image" in item)
        else:
            waiting += [item for item in node if isinstance(item, _COLLECTIONS)]


def _image_setter(image: Mapping[str, str], matches: Callable[[str], bool]) -> Callable[[Any, Any], None]:
    def put(holder: Any, key: Any) -> None:
        _refuse_collection(holder, key)
        value = text_of(holder[key])
        if holder[key] is not None and matches(value):
            holder[key] = reset(_changed_image(image, value), holder[key])

    return put


def _changed_image(image: Mapping[str, str], value: str) -> str:
    """Return an image reference with the name, tag and digest that an entry of ``images`` gives it."""
    name, tag, digest = split_image(value)
    name = image.get("newName") or name
    # Each replaces both: a new tag drops an old digest, which would win.
    if image.get("newTag") or image.get("digest"):
        tag = image.get("newTag") or ""
        digest = image.get("digest") or ""
    # The digest would name another image than the suffixed tag.
    elif image.get("tagSuffix"):
        tag = tag + image["tagSuffix"]
        digest = ""
    return name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


def image_members(images: Sequence[Mapping[str, str]], value: str) -> tuple[int, tuple[str, ...]] | None:
    """Return the last entry of ``images`` that applies to an image reference, and its members that form the result."""
    decisive = None
    for position, image in enumerate(images):
        if _image_matcher(image.get("name") or "")(value):
            members = tuple(name for name in _IMAGE_MEMBERS if image.get(name))
            decisive = (position, members)
            value = _changed_image(image, value)
    return decisive


def _image_matcher(name: str) -> Callable[[str], bool]:
    """Return whether an image has a name, which may be a regular expression, and any tag or digest."""
    if re.fullmatch(_PLAIN_IMAGE, name):
        plain = re.compile(name + _TAG)
        return lambda value: plain.fullmatch(value) is not None
    expression = compile_pattern(f"^{name}{_TAG}$")
    return lambda value: expression.search(value) is not None


def split_image(image: str) -> tuple[str, str, str]:
    """Return name, tag and digest of an image reference; a port in the registry is part of the name."""
    # A colon before the first slash belongs to the port of a registry.
    start = max(image.find("/"), 0)
    at = image.find("@", start)
    colon = image.find(":", start)
    if at >= 0 and (colon < 0 or at < colon):
        return image[:at], "", image[at + 1 :]
    if colon < 0:
        return image, "", ""
    if at >= 0:
        return image[:colon], image[colon + 1 : at], image[at + 1 :]
    return image[:colon], image[colon + 1 :], ""
