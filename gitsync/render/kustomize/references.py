"""
Name references: when an object's name changes, the fields that name it follow.

Every lookup goes through an index by the names that objects had, so the cost grows with the number of references.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.render.build_cache import CachedSteps
from gitsync.render.resources.field_spec import FieldSpec, NameReference, split_path, visit
from gitsync.render.resources.resource import NOT_NAMESPACED, Gvk, Id, Resource, ResourceVersion
from gitsync.render.resources.scopes import Scopes
from gitsync.render.yaml.scalar_types import reset, text_of

_META: Final = ("metadata",)
_HERE: Final = "."
_ROLE_REF: Final = "roleRef/name"


def fix_references(
    resources: Sequence[Resource], references: Sequence[NameReference], scopes: Scopes, steps: CachedSteps
) -> None:
    """
    Give each field that names an object the object's present name, and namespace where it holds one.

    The result for a resource depends only on the objects that had the names it refers to, and on the kinds and
    namespaces that have any: the cache holds these, and compares them in the next build.
    """
    # Kustomize walks all fields first, and fails on a plain value even where no name changed.
    _Ways(references, scopes).check(resources, steps)
    index = _Index(resources, scopes)
    if index.is_empty:
        return
    # The cached result of one object would depend on the order of others.
    if any(_moves(spec) for _, referrers in references for spec in referrers):
        steps.forget()
    key = ("references", tuple(references), frozenset(index.kinds), frozenset(index.original_namespaces))
    last, now = steps.tables(key)
    by_gvk: dict[Gvk, list[tuple[Gvk, FieldSpec]]] = {}
    for resource in resources:
        original = index.face(resource).original.gvk
        if original not in by_gvk:
            by_gvk[original] = [
                (target, spec)
                for target, referrers in references
                if index.has_kind(target)
                for spec in referrers
                if spec.gvk.selects(original)
            ]
        if not by_gvk[original]:
            continue
        known = resource.known
        if known is None:
            _Referrer(resource, index).fix(by_gvk[original])
            continue
        fixed = last.get(known)
        if fixed is None or not all(index.faces(name) == faces for name, faces in fixed.asked):
            referrer = _Referrer(resource, index)
            referrer.fix(by_gvk[original])
            fixed = _Fixed(tuple((name, index.faces(name)) for name in referrer.asked), resource.snapshot())
        else:
            resource.restore(fixed.known)
        now[known] = fixed


_Way: TypeAlias = "dict[str, _Way]"


class _Ways:
    """The ways through objects to the fields that name others, which Kustomize goes also where no name changed."""

    def __init__(self, references: Sequence[NameReference], scopes: Scopes) -> None:
        self._references = tuple(references)
        self._scopes = scopes
        self._by_gvk: dict[Gvk, _Way] = {}

    def check(self, resources: Sequence[Resource], steps: CachedSteps) -> None:
        """Raise InvalidInput where a plain value blocks a way."""
        steps.run(("ways", self._references), resources, self._check_all)

    def _check_all(self, resources: Sequence[Resource]) -> None:
        for resource in resources:
            gvk = self._scopes.original_id(resource).gvk
            if gvk not in self._by_gvk:
                self._by_gvk[gvk] = self._of_kind(gvk)
            blocked = _blocked(resource.manifest, self._by_gvk[gvk])
            if blocked:
                raise InvalidInput(
                    f"{blocked} is a plain value, but must be a mapping or a list, for fields in it name other objects",
                    location=resource.origin.file,
                    object=f"{resource.gvk.kind} {resource.name}",
                    hint="correct the field",
                )
            _check_subjects(resource)

    def _of_kind(self, gvk: Gvk) -> _Way:
        way: _Way = {}
        for _, referrers in self._references:
            for spec in referrers:
                if spec.gvk.selects(gvk):
                    inner = way
                    for name in split_path(spec.path)[:-1]:
                        inner = inner.setdefault(name, {})
        return way


def _blocked(node: Any, way: _Way) -> str:
    """Return the path to a plain value that blocks the way, empty where none does."""
    if isinstance(node, dict):
        for name, further in way.items():
            value = node.get(name)
            if value is not None:
                blocked = _blocked(value, further)
                if blocked:
                    return f"{name}.{blocked}" if blocked != _HERE else name
        return ""
    if isinstance(node, list):
        return next((blocked for item in node if (blocked := _blocked(item, way))), "")
    return "" if node is None else _HERE


def _moves(spec: FieldSpec) -> bool:
    """Return whether the field is part of what an object is called, so that fixing one changes what others find."""
    parts = split_path(spec.path)
    return parts[0] in ("apiVersion", "kind") or parts[:2] in (_META, (*_META, "name"), (*_META, "namespace"))


class _Face(NamedTuple):
    """The part of a resource that counts when others refer to it."""

    id: Id
    namespace: str
    previous: tuple[Id, ...]
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...]
    original: Id
    """The id that it was read with."""
    names: tuple[str, ...]
    """The names it had."""
    kinds: tuple[Gvk, ...]
    """The kinds it had."""


class _Fixed(NamedTuple):
    """The fixed version of a resource, and the objects that it found by the names it looked up."""

    asked: tuple[tuple[str, tuple[_Face, ...]], ...]
    known: ResourceVersion


class _Index:
    """The resources by each name they had, with the namespace they are in now."""

    def __init__(self, resources: Sequence[Resource], scopes: Scopes) -> None:
        self._by_name: dict[str, list[Resource]] = defaultdict(list)
        self._by_place: dict[str, dict[str, list[Resource]]] = {}
        self._position: dict[int, int] = {}
        self._faces: dict[int, _Face] = {}
        self._faces_of: dict[str, tuple[_Face, ...]] = {}
        self.kinds: set[Gvk] = set()
        self.original_namespaces: set[str] = set()
        for position, resource in enumerate(resources):
            face = _face(resource, scopes)
            self._faces[id(resource)] = face
            self.original_namespaces.add(face.original.namespace)
            # Nothing refers to it by an old name.
            if not face.previous:
                continue
            self._position[id(resource)] = position
            self.kinds.update(face.kinds)
            for name in face.names:
                self._by_name[name].append(resource)

    @property
    def is_empty(self) -> bool:
        """Whether no name ever changed."""
        return not self._by_name

    def face(self, resource: Resource) -> _Face:
        """Return how a resource looked before any reference was fixed."""
        return self._faces[id(resource)]

    def faces(self, name: str) -> tuple[_Face, ...]:
        """Return the resources that had a name, as others see them, in order."""
        if name not in self._faces_of:
            self._faces_of[name] = tuple(self._faces[id(resource)] for resource in self._by_name.get(name) or ())
        return self._faces_of[name]

    def has_kind(self, target: Gvk) -> bool:
        """Return whether any object that was renamed is of the kind."""
        return any(target.selects(gvk) for gvk in self.kinds)

    def named(self, name: str, namespaces: Iterable[str] | None) -> list[Resource]:
        """Return the resources that had a name and are in one of the namespaces, in order."""
        if namespaces is None or name not in self._by_name:
            return self._by_name.get(name) or []
        if name not in self._by_place:
            places = self._by_place[name] = {}
            for resource in self._by_name[name]:
                places.setdefault(self.face(resource).id.namespace, []).append(resource)
        places = self._by_place[name]
        resources = [resource for place in dict.fromkeys(namespaces) for resource in places.get(place) or ()]
        return sorted(resources, key=lambda resource: self._position[id(resource)]) if len(resources) > 1 else resources


def _face(resource: Resource, scopes: Scopes) -> _Face:
    known = resource.known if scopes.is_built_in else None
    if known is not None and known.face is not None:
        face: _Face = known.face
        return face
    now = scopes.id_of(resource)
    previous = tuple(scopes.previous_ids(resource))
    face = _Face(
        now,
        resource.namespace,
        previous,
        resource.prefixes,
        resource.suffixes,
        previous[0] if previous else now,
        tuple(dict.fromkeys(id_.name for id_ in previous)),
        tuple(dict.fromkeys(id_.gvk for id_ in previous)),
    )
    if known is not None:
        known.face = face
    return face


class _Referrer:
    """One resource whose fields may name others."""

    def __init__(self, resource: Resource, index: _Index) -> None:
        self._resource = resource
        self._index = index
        self._id = index.face(resource).id
        self.asked: dict[str, None] = {}
        self._is_cluster_scoped = self._id.namespace == NOT_NAMESPACED
        self._subject_namespaces = _subject_namespaces(resource)

    def fix(self, specs: Iterable[tuple[Gvk, FieldSpec]]) -> None:
        manifest = self._resource.editable
        for target, spec in specs:

            def leaf(holder: Any, key: Any, target: Gvk = target, spec: FieldSpec = spec) -> None:
                self._set(holder, key, target, spec)

            visit(manifest, FieldSpec(spec.gvk, spec.path), leaf)

    def _set(self, holder: Any, key: Any, target: Gvk, spec: FieldSpec) -> None:
        value = holder[key]
        if isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, dict):
                    self._set_mapping(item, target, spec)
                elif item is not None:
                    self._set_scalar(value, position, target, spec)
        elif isinstance(value, dict):
            self._set_mapping(value, target, spec)
        elif value is not None:
            self._set_scalar(holder, key, target, spec)

    def _set_scalar(self, holder: Any, key: Any, target: Gvk, spec: FieldSpec) -> None:
        name = text_of(holder[key])
        referent = self._select(self._candidates(name), target, spec, with_namespace=False)
        if referent is not None and referent.name != name:
            holder[key] = reset(referent.name, holder[key])

    def _set_mapping(self, holder: dict[str, Any], target: Gvk, spec: FieldSpec) -> None:
        if "name" not in holder:
            raise InvalidInput(
                f"{spec.path} has no name, so it cannot refer to a {target.kind}",
                location=self._resource.origin.file,
                object=str(self._id),
                hint="add a name, or correct the nameReference configuration",
            )
        candidates = self._candidates(text_of(holder["name"]))
        if "namespace" in holder:
            candidates = self._in_namespace(candidates, text_of(holder["namespace"]))
        referent = self._select(candidates, target, spec, with_namespace=True)
        if referent is None:
            return
        holder["name"] = reset(referent.name, holder["name"])
        if referent.namespace:
            holder["namespace"] = reset(referent.namespace, holder.get("namespace"))

    def _candidates(self, name: str) -> list[Resource]:
        """Return what had the name and may be referred to from here."""
        self.asked[name] = None
        if self._is_cluster_scoped:
            return self._index.named(name, None)
        return self._index.named(name, (self._id.namespace, NOT_NAMESPACED, *self._subject_namespaces))

    def _in_namespace(self, candidates: list[Resource], namespace: str) -> list[Resource]:
        """Return those that were in a namespace at first, or are now where nothing was in it at first."""
        if namespace in self._index.original_namespaces and namespace != NOT_NAMESPACED:
            return [
                candidate for candidate in candidates if self._index.face(candidate).original.namespace == namespace
            ]
        return [candidate for candidate in candidates if self._index.face(candidate).id.namespace == namespace]

    def _select(
        self, candidates: list[Resource], target: Gvk, spec: FieldSpec, *, with_namespace: bool
    ) -> Resource | None:
        """Return the one candidate that is meant, None where there is none; refuse a choice."""
        role = self._role(spec)
        matching = [
            candidate
            for candidate in candidates
            if any(target.selects(gvk) for gvk in self._index.face(candidate).kinds)
            and (role is None or any(role.selects(gvk) for gvk in self._index.face(candidate).kinds))
            and self._may_see(candidate)
        ]
        # Coarse first: an object without prefixes fits any; exact only where that leaves several.
        for allow_empty in (True, False):
            if len(matching) > 1:
                matching = [
                    candidate for candidate in matching if _same_affixes(candidate, self._resource, allow_empty)
                ]
        # Candidates that have one name now are equally right.
        if len({(candidate.name, candidate.namespace if with_namespace else "") for candidate in matching}) > 1:
            names = ", ".join(str(self._index.face(candidate).id) for candidate in matching)
            raise InvalidInput(
                f"{spec.path} could refer to any of {names}",
                location=self._resource.origin.file,
                object=str(self._id),
                hint="give them different names, or name the namespace",
            )
        return matching[0] if matching else None

    def _may_see(self, candidate: Resource) -> bool:
        now = self._index.face(candidate).id
        return (
            self._is_cluster_scoped
            or now.namespace in (NOT_NAMESPACED, self._id.namespace)
            # A RoleBinding may name an account of another namespace.
            or now.gvk.kind == "ServiceAccount"
        )

    def _role(self, spec: FieldSpec) -> Gvk | None:
        if not spec.path.endswith(_ROLE_REF):
            return None
        reference = self._resource.manifest.get("roleRef")
        # Without both members Kustomize cannot tell a Role from a ClusterRole, and takes any.
        if not isinstance(reference, dict) or "apiGroup" not in reference or "kind" not in reference:
            return None
        return Gvk(text_of(reference["apiGroup"]), "", text_of(reference["kind"]))


def _subject_namespaces(resource: Resource) -> tuple[Any, ...]:
    """Return the namespaces of the accounts that a RoleBinding names."""
    subjects = resource.manifest.get("subjects")
    if resource.gvk.kind != "RoleBinding" or not isinstance(subjects, list):
        return ()
    return tuple(
        subject["namespace"]
        for subject in subjects
        if isinstance(subject, dict) and subject.get("kind") == "ServiceAccount" and "namespace" in subject
    )


def _check_subjects(resource: Resource) -> None:
    """Raise InvalidInput where a RoleBinding names an account whose namespace is not a text."""
    if not all(isinstance(namespace, str) for namespace in _subject_namespaces(resource)):
        raise InvalidInput(
            "the namespace of a subject is not a text",
            location=resource.origin.file,
            object=f"{resource.gvk.kind} {resource.name}",
            hint="write the namespace in quotes",
        )


def _same_affixes(first: Resource, second: Resource, allow_empty: bool) -> bool:
    return _same_end(first.prefixes, second.prefixes, allow_empty) and _same_end(
        first.suffixes, second.suffixes, allow_empty
    )


def _same_end(first: tuple[str, ...], second: tuple[str, ...], allow_empty: bool) -> bool:
    """Return whether the shorter one ends the longer; two that are empty are the same."""
    if not first or not second:
        return allow_empty or first == second
    length = min(len(first), len(second))
    return first[-length:] == second[-length:]
