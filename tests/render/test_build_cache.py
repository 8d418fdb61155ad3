"""A build that takes over what an earlier one made gives what a build from nothing gives, whatever was edited."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.build import Build, build
from gitsync.render.build_cache import BuildCache, CachedSteps, hashable
from gitsync.render.kustomize.files import ParseCache
from gitsync.render.resources.resource import Origin, Resource, ResourceVersion
from gitsync.render.resources.scopes import Scopes
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalar_types import Quoted
from gitsync.render.yaml.scalars import Date
from gitsync.render.yaml.writer import write, write_all
from tests.render.factories import DEPLOYMENT, config_map
from tests.render.kustomize_cases import MemoryTree

SEEDS = 30
EDITS = 12
NAMES = ("web", "db", "cm")


class Edited:
    """A base of some files, two overlays of it with a component, and a top that has both; edited at random."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.one_of = self._random.choice
        self.files = {f"base/{name}.yaml": self.objects(name) for name in NAMES}
        self.top: dict[str, Any] = {"resources": ["east", "west"]}
        self.east: dict[str, Any] = {"resources": ["../base"], "namePrefix": "e-", **self.some()}
        self.west: dict[str, Any] = {"resources": ["../base"], "nameSuffix": "-w", **self.some()}
        self.part: dict[str, Any] = {"kind": "Component", "apiVersion": "kustomize.config.k8s.io/v1alpha1"}
        self.base: dict[str, Any] = {**self.some(), "resources": [f"{name}.yaml" for name in NAMES]}

    def tree(self) -> MemoryTree:
        kustomizations = {
            "kustomization.yaml": self.top,
            "east/kustomization.yaml": self.east,
            "west/kustomization.yaml": self.west,
            "part/kustomization.yaml": {**self.part, "commonAnnotations": {"part": "1"}},
            "base/kustomization.yaml": self.base,
        }
        texts = {path: write(fields) for path, fields in kustomizations.items()}
        schemas = {f"{folder}s.json": '{"definitions": {}}' for folder in ("", "east/", "west/", "part/", "base/")}
        return MemoryTree({path: text.encode() for path, text in {**self.files, **texts, **schemas}.items()})

    def edit(self) -> None:
        """Change one thing."""
        self.one_of((self.change_file, self.change_file, self.change_field, self.change_field, self.move_file))()

    def change_file(self) -> None:
        path = self.one_of(sorted(self.files))
        self.files[path] = self.objects(path.rpartition("/")[2].removesuffix(".yaml"))

    def change_field(self) -> None:
        """Set a field of a kustomization to something else, or remove it."""
        fields = self.one_of((self.top, self.east, self.west, self.part, self.base))
        makers = self.makers()
        present = sorted(makers.keys() & fields.keys())
        name = self.one_of(present if present and self._random.random() < 0.5 else [*makers])
        make = makers[name]
        if name in ("vars", "buildMetadata"):
            fields = self.top
        fields.pop(name, None)
        if self._random.random() < 0.7:
            fields[name] = make()

    def move_file(self) -> None:
        """Add a file to the base, or take it away."""
        name = self.one_of((*NAMES, "more"))
        self.files.setdefault(f"base/{name}.yaml", self.objects(name))
        listed = self.base["resources"]
        if f"{name}.yaml" in listed and len(listed) > 1:
            listed.remove(f"{name}.yaml")
        else:
            listed.append(f"{name}.yaml")

    def some(self) -> dict[str, Any]:
        makers = self.makers()
        return {name: makers[name]() for name in self._random.sample(sorted(makers.keys() - {"vars"}), 2)}

    def objects(self, name: str) -> str:
        """Return a file of a few objects that refer to each other."""
        data = config_map(self.one_of((name, name, f"{name}-x")), value=self.one_of(("1", "2", "no")))
        account = f"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: {self.one_of('ab')}\n"
        workload = DEPLOYMENT.replace("name: web", f"name: {name}") + (
            f"        envFrom:\n        - configMapRef: {{name: {self.one_of((*NAMES, 'made'))}}}\n"
            f"      serviceAccountName: {self.one_of(NAMES)}\n"
        )
        binding = (
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n"
            f"metadata:\n  name: {name}\n  annotations: {{since: 2020-01-01}}\n"
            "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}\n"
            f"subjects:\n- {{kind: ServiceAccount, name: {self.one_of(NAMES)}, namespace: {self.one_of('ab')}}}\n"
        )
        more = self._random.sample([account, binding], self.one_of((0, 1, 2)))
        return "---\n".join(self._random.sample([data, workload, *more], 2 + len(more)))

    def makers(self) -> dict[str, Callable[[], Any]]:
        """Return for each field what makes a value of it."""
        one_of = self.one_of
        selector = {"kind": "Deployment", "name": one_of((*NAMES, ".*"))}
        annotate = [{"op": "add", "path": "/metadata/annotations", "value": {"patched": one_of("12")}}]
        named: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": one_of(NAMES)}}
        merges: tuple[dict[str, Any], ...] = (
            {"spec": {"replicas": one_of((2, 3))}},
            {"$patch": "delete"},
            {"metadata": {**named["metadata"], "labels": {"l": one_of("12")}}},
        )
        merge = write({**named, **one_of(merges)})
        replacement = {
            "source": {"kind": one_of(("ConfigMap", "Deployment")), "name": one_of(NAMES)},
            "targets": [
                {
                    "select": {"kind": one_of(("Deployment", "RoleBinding"))},
                    "fieldPaths": ["metadata.annotations.copied"],
                    "options": {"create": True},
                }
            ],
        }
        variable = {
            "name": "V",
            "objref": {"apiVersion": "v1", "kind": "ConfigMap", "name": one_of(NAMES)},
            "fieldref": {"fieldPath": "metadata.name"},
        }
        return {
            "namePrefix": lambda: one_of(("p-", "q-")),
            "nameSuffix": lambda: one_of(("-s", "-t")),
            "namespace": lambda: one_of(("n", "m")),
            "commonLabels": lambda: {"team": one_of(("x", "y"))},
            "labels": lambda: [{"pairs": {"tier": one_of("xy")}, "includeTemplates": one_of((True, False))}],
            "commonAnnotations": lambda: {"note": one_of(("x", "y"))},
            "images": lambda: [{"name": "nginx", "newTag": one_of("23")}],
            "replicas": lambda: [{"name": one_of(NAMES), "count": one_of((1, 2))}],
            "patches": lambda: [
                one_of(({"patch": merge}, {"target": selector, "patch": one_of((write(annotate), merge))}))
            ],
            "configMapGenerator": lambda: [{"name": one_of(("made", "cm2")), "literals": [f"k={one_of('12')}"]}],
            "generatorOptions": lambda: {"disableNameSuffixHash": one_of((True, False))},
            "replacements": lambda: [replacement],
            "components": lambda: ["../part"],
            "vars": lambda: [variable],
            "buildMetadata": lambda: one_of((["originAnnotations"], ["transformerAnnotations"], ["managedByLabel"])),
            "openapi": lambda: {"path": "s.json"},
            "sortOptions": lambda: {"order": one_of(("fifo", "legacy"))},
        }


def outcome(tree: MemoryTree, **options: Any) -> tuple[Any, ...]:
    """Return all that a build says: what it makes, or the line with which it is refused."""
    try:
        made = build(tree, "", **options)
    except InvalidInput as error:
        return (str(error),)
    return write_all(made.manifests), made.files_read, made.warnings, made.sources


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_any_edits_a_build_gives_what_it_gives_from_nothing(seed: int) -> None:
    """Also where a build between two others was refused."""
    edited, cache = Edited(seed), ParseCache()
    for _ in range(EDITS):
        assert outcome(edited.tree(), cache=cache) == outcome(edited.tree())
        edited.edit()


def test_random_trees_are_built_more_often_than_refused() -> None:
    """Else the test above would compare refusals only."""
    good = 0
    for seed in range(SEEDS):
        edited = Edited(seed)
        for _ in range(EDITS):
            good += len(outcome(edited.tree())) > 1
            edited.edit()
    assert good > SEEDS * EDITS / 2


FILES = {
    "kustomization.yaml": "resources: [a.yaml, b.yaml]\nnamePrefix: p-\ncommonLabels: {l: x}\n",
    "a.yaml": config_map("a", k="1"),
    "b.yaml": DEPLOYMENT + "        envFrom:\n        - configMapRef: {name: a}\n",
}


class Warm:
    """Builds of one folder with one cache."""

    def __init__(self) -> None:
        self._cache = ParseCache()
        self.memo = self._cache.memo(" as Auto")

    def build(self, files: dict[str, str], **options: Any) -> Build:
        tree = MemoryTree({path: text.encode() for path, text in files.items()})
        return build(tree, "", cache=self._cache, **options)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("namePrefix: x-", "namePrefix: w-"),
        ("namePrefix: x-", "nameSuffix: x-"),
        ("namespace: x", "namespace: w"),
        ("commonLabels: {a: x}", "commonLabels: {a: w}"),
        ("commonLabels: {a: x, b: x}", "commonLabels: {b: x, a: x}"),
        ("labels: [{pairs: {a: x}}]", "labels: [{pairs: {a: x}, includeSelectors: true}]"),
        ("commonAnnotations: {a: x}", "commonAnnotations: {a: w}"),
        ("images: [{name: nginx, newTag: x}]", "images: [{name: nginx, newTag: w}]"),
        ("replicas: [{name: web, count: 2}]", "replicas: [{name: web, count: 3}]"),
        (
            "patches: [{target: {kind: Deployment}, patch: '- {op: add, path: /x, value: 1}'}]",
            "patches: [{target: {kind: Deployment}, patch: '- {op: add, path: /x, value: 2}'}]",
        ),
        (
            "patches: [{target: {name: web}, patch: '- {op: add, path: /x, value: 1}'}]",
            "patches: [{target: {name: a}, patch: '- {op: add, path: /x, value: 1}'}]",
        ),
        (
            "patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: x}}'}]",
            "patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: w}}'}]",
        ),
        (
            "replacements: [{source: {name: web}, targets: [{select: {name: a}, fieldPaths: [data.k]}]}]",
            "replacements: [{source: {name: a}, targets: [{select: {name: a}, fieldPaths: [data.k]}]}]",
        ),
        ("configurations: [c.yaml]\ncommonLabels: {a: x}", "commonLabels: {a: x}"),
        ("configMapGenerator: [{name: g, literals: [k=x]}]", "configMapGenerator: [{name: g, literals: [k=w]}]"),
        ("buildMetadata: [originAnnotations]", "buildMetadata: [transformerAnnotations]"),
        ("sortOptions: {order: fifo}", "sortOptions: {order: legacy}"),
    ],
)
def test_a_step_that_is_told_something_else_is_taken_anew(one: str, other: str) -> None:
    files = {**FILES, "c.yaml": "commonLabels: [{path: spec/more, create: true}]\n"}
    warm = Warm()
    for line in (one, other, one):
        text = {**files, "kustomization.yaml": f"resources: [a.yaml, b.yaml]\n{line}\n"}
        assert write_all(warm.build(text).manifests) == write_all(Warm().build(text).manifests)


def test_what_is_not_touched_stays_the_very_same_object() -> None:
    """So it need not be compared, written or sent again."""
    warm = Warm()
    before = warm.build(FILES).manifests
    after = warm.build({**FILES, "a.yaml": config_map("a", k="2")}).manifests
    assert after[1] is before[1]
    assert after[0] == {**before[0], "data": {"k": "2"}}


def test_a_new_tag_touches_only_what_has_the_image() -> None:
    warm = Warm()
    files = {
        **FILES,
        "c.yaml": DEPLOYMENT.replace("web", "other").replace("nginx", "redis"),
        "kustomization.yaml": "resources: [a.yaml, b.yaml, c.yaml]\nnamePrefix: p-\n",
    }
    images = "images: [{name: nginx, newTag: TAG}]\n"
    one, other = (
        warm.build({**files, "kustomization.yaml": files["kustomization.yaml"] + images.replace("TAG", tag)}).manifests
        for tag in ("v2", "v3")
    )
    assert [made is before for made, before in zip(other, one, strict=True)] == [True, True, False]
    assert other[2]["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:v3"


def test_what_uses_a_var_follows_it_and_the_rest_stays() -> None:
    """Also the warning of one that nothing uses."""
    warm = Warm()
    using = DEPLOYMENT + "        env: [{name: V, value: $(V)}]\n"
    meant = "objref: {apiVersion: v1, kind: ConfigMap, name: a}, fieldref: {fieldPath: data.k}"
    variables = "".join(f"- {{name: {name}, {meant}}}\n" for name in "VW")
    files = {**FILES, "b.yaml": using, "kustomization.yaml": f"resources: [a.yaml, b.yaml]\nvars:\n{variables}"}
    first = warm.build(files)
    again = warm.build({**files, "b.yaml": using.replace("replicas: 1", "replicas: 2")})
    follows = warm.build({**files, "a.yaml": config_map("a", k="other")})
    assert again.manifests[0] is first.manifests[0]
    values = [
        made.manifests[1]["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] for made in (again, follows)
    ]
    assert values == ["1", "other"]
    assert first.warnings == again.warnings
    assert "the var W is never used" in again.warnings[-1]


def test_plain_manifests_stay_too() -> None:
    warm = Warm()
    files = {"a.yaml": config_map("a", k="1"), "b.yaml": config_map("b", k="1")}
    before = warm.build(files).manifests
    after = warm.build({**files, "a.yaml": config_map("a", k="2")}).manifests
    assert after[1] is before[1]
    assert after == Warm().build({**files, "a.yaml": config_map("a", k="2")}).manifests


def test_a_renamed_object_is_found_by_those_who_refer_to_it() -> None:
    warm = Warm()
    files = {**FILES, "kustomization.yaml": "resources: [b.yaml]\nconfigMapGenerator:\n- {name: a, literals: [k=1]}\n"}
    first = warm.build(files).manifests
    second = warm.build({**files, "kustomization.yaml": files["kustomization.yaml"].replace("k=1", "k=2")}).manifests
    names = [next(one["metadata"]["name"] for one in made if one["kind"] == "ConfigMap") for made in (first, second)]
    assert names[0] != names[1]
    for made, name in zip((first, second), names, strict=True):
        (workload,) = (one for one in made if one["kind"] == "Deployment")
        assert workload["spec"]["template"]["spec"]["containers"][0]["envFrom"] == [{"configMapRef": {"name": name}}]


def test_many_patches_leave_one_former_id() -> None:
    first, second = read_all(f"{config_map('a')}---\n{config_map('b')}".encode(), "a.yaml")
    resource = Resource(first, Origin("a.yaml", 0))
    scopes = Scopes()
    for _ in range(60):
        scopes.remember(resource)
    assert len(resource.previous) == 1
    resource.put(second)
    scopes.remember(resource)
    resource.put(first)
    scopes.remember(resource)
    assert [previous.name for previous in resource.previous] == ["a", "b", "a"]


def test_a_memo_holds_no_more_than_the_last_build_used() -> None:
    """A tag that changes with every commit leaves nothing behind."""

    def held(memo: BuildCache) -> int:
        return sum(len(table) for table in memo.tables.values())

    warm = Warm()
    warm.build(FILES)
    once = held(warm.memo)
    for tag in range(5):
        warm.build({**FILES, "kustomization.yaml": FILES["kustomization.yaml"].replace("l: x", f"l: x{tag}")})
    assert held(warm.memo) == once


def test_a_cache_forgets_the_folder_that_was_not_built_for_longest() -> None:
    cache = ParseCache(folders=2)
    a, b = cache.memo("a"), cache.memo("b")
    assert cache.memo("a") is a
    cache.memo("c")
    assert cache.memo("a") is a
    assert cache.memo("b") is not b


def test_a_cache_keeps_the_files_of_last_builds_only() -> None:
    """A large file that changes with every commit leaves nothing behind, nor does one that is refused."""
    cache = ParseCache()
    parsed: list[str] = []

    def read(*files: str) -> None:
        for file in files:
            cache.get(file, "objects", lambda file=file: parsed.append(file))  # type: ignore[misc]

    with cache.building("a"):
        read("base", "a1")
    with cache.building("b"):
        read("base", "b1")
    with cache.building("a"):
        read("base", "a2")
    with contextlib.suppress(InvalidInput), cache.building("a"):
        read("base", "a3")
        raise InvalidInput("refused")
    with cache.building("b"):
        read("b1")
    parsed.clear()
    with cache.building("a"):
        read("base", "a1", "a2", "a3", "b1")
    assert parsed == ["a1", "a3"]


def test_a_cache_forgets_the_files_of_what_was_not_built_for_longest() -> None:
    cache = ParseCache(folders=2)
    for number in range(4):
        with cache.building(number):
            cache.get(str(number), "objects", object)
    assert len(cache._entries) == 2


def test_a_refused_build_leaves_the_memo_as_it_was() -> None:
    warm = Warm()
    before = warm.build(FILES).manifests
    with pytest.raises(InvalidInput):
        warm.build({**FILES, "a.yaml": "kind: ["})
    assert all(one is other for one, other in zip(warm.build(FILES).manifests, before, strict=True))


def test_what_was_read_stays_as_it_was_read() -> None:
    """The manifests of the cache are shared, so no build may write to them."""
    warm = Warm()
    warm.build(FILES)
    plain = {**FILES, "kustomization.yaml": "resources: [a.yaml, b.yaml]\n"}
    assert warm.build(plain).manifests == Warm().build(plain).manifests


def test_a_step_runs_once_for_each_resource_that_is_not_known() -> None:
    memo, seen = BuildCache(), []

    def act(resources: Any) -> None:
        for resource in resources:
            seen.append(resource.name)
            resource.editable["done"] = True

    roots = [ResourceVersion({"metadata": {"name": name}}) for name in "ab"]
    for _ in range(2):
        steps = CachedSteps(memo)
        resources = [Resource(known.manifest, Origin("f", 0), known) for known in roots]
        resources.append(Resource({"metadata": {"name": "own"}}, Origin("f", 0)))
        steps.run("key", resources, act)
        assert all(resource.manifest["done"] for resource in resources)
        steps.keep()
    assert seen == ["a", "b", "own", "own"]


def test_configurations_that_differ_in_type_or_style_are_told_apart() -> None:
    dates: list[Any] = read_all(b"[2020-01-01, '2020-01-01']", "f")[0]
    values: list[Any] = [1, 1.0, True, "1", Quoted("1"), None, "", [], {}, [1], [[1]], {"a": 1}, {"a": "1"}]
    values += [{"a": 1, "b": 2}, {"b": 2, "a": 1}, *dates]
    assert isinstance(dates[0], Date)
    assert len({hashable(value) for value in values}) == len(values)
    assert hashable({"a": [1, {"b": None}]}) == hashable({"a": [1, {"b": None}]})
