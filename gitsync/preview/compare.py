"""Compare what each deployed folder renders to in two trees: steps, classes, origins, effects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gitsync.errors import EmptyRender, FileNotFetched, GitsyncError, RemoteNeeded
from gitsync.gate.policy import Policy, violations
from gitsync.gate.policy_files import parse_policy, policy_for, with_controller_rights
from gitsync.gate.validation import ManifestRule, check_rules, parse_rules
from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.objects.application import Application, Destination, GitSource, SourceGroup
from gitsync.objects.change import ABSENT, DRIFT, Change, Risk
from gitsync.objects.charts import Helm
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.objects.remote import parse_remote, without_user
from gitsync.objects.tree import MountedTree, Tree
from gitsync.plan.commit_effect import commit_effect, effect_digest, effect_risk
from gitsync.plan.normalize import desired_objects
from gitsync.preview.effects import Effect, effects_of, made_secrets, missing_references
from gitsync.preview.roots import BuildSources, Root, find_roots
from gitsync.render.build import Build, build, joined_build
from gitsync.render.kustomize.files import ParseCache
from gitsync.render.provenance.trace import Traces, trace
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.yaml11 import reject_ambiguous_bools

_ANY: Final = "*"
"""A namespace that is not known; no namespace has this name."""


@dataclass(frozen=True, slots=True)
class Preview:
    """
    What a change does to each deployed folder that it reaches.

    ``covered`` are all deployed folders that were found, ``changes`` what happens in those that change or that cannot
    be built any more, in the order in which a reviewer should read them.
    """

    covered: tuple[Root, ...]
    changes: tuple[RootChange, ...]

    @property
    def risk(self) -> Risk:
        """The class of the riskiest step of all folders."""
        return max((change.risk for change in self.changes), key=lambda risk: risk.level, default=Risk.SAFE)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why folders cannot be built after the change, or what the operator's policies reject there."""
        lines = (line for change in self.changes for line in (change.problem, *change.violations) if line)
        return tuple(dict.fromkeys(lines))


@dataclass(frozen=True, slots=True)
class RootChange:
    """
    What a change does to one deployed folder, or in the same way to several.

    The steps are those of the first root; a root that cannot be built has none, for ``problem`` after the change, for
    ``base_problem`` before it. ``traces`` name the files and lines of the new values.
    """

    roots: tuple[Root, ...]
    steps: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()
    violations: tuple[str, ...] = ()
    traces: Traces = field(default_factory=dict)
    problem: str = ""
    base_problem: str = ""
    plans: Mapping[str, str] = field(default_factory=dict)
    """What the plan of each Application will do where nothing else differs, see ``effect_digest``; by their keys."""

    @property
    def risk(self) -> Risk:
        """The class of the riskiest step."""
        return effect_risk(self.steps)


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's policies and rules on manifests, as the gate applies them; none by default."""

    policies: tuple[Policy, ...] = ()
    manifests: tuple[ManifestRule, ...] = ()


def rules_of(files: Mapping[str, bytes], *, controller_rights: bool = False) -> Rules:
    """
    Return the rules in Policy files, by their names; raise InvalidInput for one that is not valid.

    With ``controller_rights`` each policy lets Applications without a ServiceAccount write, as in the controller.
    """
    documents = [(document, name) for name, text in files.items() for document in read_all(text, name)]
    parsed = (parse_policy(document, name) for document, name in documents)
    policies = tuple(policy for policy in parsed if policy is not None)
    if controller_rights:
        policies = with_controller_rights(policies)
    rules = (rule for document, name in documents for rule in parse_rules(document, name))
    return Rules(policies, tuple(rules))


@dataclass(frozen=True, slots=True)
class Sides:
    """The files before and after a change, and the paths that differ; ``helm`` renders the charts among them."""

    base: Tree
    result: Tree
    changed: frozenset[str]
    helm: Helm | None = None


@dataclass(slots=True)
class Remotes:
    """
    What the builds of Applications read of other repositories, by the key of the Application that may read it.

    ``trees`` has the files of each repository by where they are mounted, ``folders`` what a reference names there;
    ``problems`` are why a reference cannot be read, and whether that is a fault of who wrote it. What a build of one of
    the ``readers`` lacks otherwise is added to ``needed``, with the place that names it, for another attempt.
    """

    readers: Collection[str] = ()
    trees: Mapping[str, Mapping[str, Tree]] = field(default_factory=dict)
    folders: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problems: Mapping[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)
    needed: dict[tuple[str, str], str] = field(default_factory=dict)

    def mounted(self, tree: Tree, key: str) -> Tree:
        """Return a tree with the files of other repositories that an Application may read."""
        return MountedTree(tree, self.trees[key], self.folders[key]) if self.trees.get(key) else tree

    def problem_of(self, error: RemoteNeeded, key: str) -> tuple[str, bool]:
        """Return why a build stays without a reference, and whether that is a fault; note what may be fetched."""
        at = (key, error.reference)
        if at not in self.problems and key in self.readers:
            self.needed[at] = error.location
        return self.problems.get(at) or (_problem(error), False)


@dataclass(frozen=True, slots=True)
class JoinedRoot:
    """
    An Application with several sources, of which the change is in one.

    Its sides are those of the joined files; without them, ``problem`` is why the other sources cannot be read.
    """

    root: Root
    sides: Sides | None
    problem: str = ""


def preview(
    sides: Sides,
    is_own: Callable[[str], bool],
    rules: Rules | None = None,
    below: Collection[str] = (),
    known: Collection[Root] = (),
    joined: Collection[JoinedRoot] = (),
    remotes: Remotes | None = None,
) -> Preview:
    """
    Return what a change does to each deployed folder, without a cluster.

    ``is_own`` tells whether a URL is that of this repository; with ``below``, only folders at or below these paths are
    covered. ``known`` are Applications of a cluster, which need not be declared in the repository; ``joined`` are those
    with several sources. Where builds need files of other repositories that ``remotes`` may get, it has them noted as
    needed, and the preview is not complete.
    """
    comparison = _comparer(sides, is_own, rules or Rules(), known, joined, remotes or Remotes())
    readable = [root for root in comparison.roots if root in comparison.of_roots or _is_selected(root, below)]
    unreadable = [RootChange((item.root,), base_problem=item.problem) for item in joined if item.sides is None]
    made = (change for root in readable if comparison.is_touched(root) and (change := comparison.of(root)) is not None)
    changes = sorted((*unreadable, *made), key=_rank)
    covered = (*readable, *(root for change in unreadable for root in change.roots))
    # traced only now: a build that records every step takes longer than all others together
    return Preview(covered, tuple(comparison.traced(group) for group in _grouped(changes)))


@dataclass(frozen=True, slots=True)
class ChangedRoot:
    """
    What a deployed folder declares before and after a change, and the ``file:line`` of each object after it.

    ``is_namespace_used`` tells whether another folder declares a namespace or objects in it before the change;
    ``problem`` is why the folder cannot be built on one of the sides, of which nothing is known then.
    """

    root: Root
    old: Mapping[ObjectRef, Manifest]
    new: Mapping[ObjectRef, Manifest]
    places: Mapping[ObjectRef, str]
    is_namespace_used: Callable[[str], bool] = lambda name: False
    problem: str = ""


def changed_roots(
    sides: Sides,
    is_own: Callable[[str], bool],
    below: Collection[str] = (),
    known: Collection[Root] = (),
    joined: Collection[JoinedRoot] = (),
    remotes: Remotes | None = None,
) -> Iterator[ChangedRoot]:
    """Yield the deployed folders that declare something else after a change, and those that cannot be built."""
    remotes = remotes or Remotes()
    comparison = _comparer(sides, is_own, Rules(), known, joined, remotes)
    for root in comparison.roots:
        if not (root in comparison.of_roots or _is_selected(root, below)) or not comparison.is_touched(root):
            continue
        try:
            changed = comparison.declared(root)
        except FileNotFetched:  # who called has it fetched, and begins again
            raise
        except RemoteNeeded as error:
            yield ChangedRoot(root, {}, {}, {}, problem=remotes.problem_of(error, root.key)[0])
            continue
        except GitsyncError as error:
            yield ChangedRoot(root, {}, {}, {}, problem=str(error))
            continue
        if changed.old != changed.new:
            yield changed


def _comparer(
    sides: Sides,
    is_own: Callable[[str], bool],
    rules: Rules,
    known: Collection[Root],
    joined: Collection[JoinedRoot],
    remotes: Remotes,
) -> _RootComparer:
    """Return what compares the deployed folders of both sides: the objects of a folder that is removed are deleted."""
    base = BuildSources(sides.base)
    result = BuildSources(sides.result)
    roots = dict.fromkeys((*find_roots(sides.result, is_own, result), *find_roots(sides.base, is_own, base), *known))
    deployed = {root.path for root in roots if root.application}
    deployed |= {path for item in joined for path in _own_paths(item.root, is_own)}
    roots_once = _latest(root for root in roots if root.application or root.path not in deployed)
    of_roots = {item.root: item.sides for item in joined if item.sides is not None}
    return _RootComparer(sides, (base, result), rules, (*roots_once, *of_roots), of_roots, remotes)


def _grouped(changes: Iterable[RootChange]) -> Iterator[RootChange]:
    """Yield each change once, with all roots in which the same fields of the same kinds change in the same way."""
    groups: dict[object, list[RootChange]] = {}
    for change in changes:
        groups.setdefault(_signature(change), []).append(change)
    for same in groups.values():
        yield replace(
            same[0],
            roots=tuple(root for change in same for root in change.roots),
            plans={key: plan for change in same for key, plan in change.plans.items()},
        )


def _signature(change: RootChange) -> object:
    """
    Return what two changes have in common that read the same.

    Names and namespaces are left out: overlays differ by their prefix and their namespace.
    """
    steps = sorted(
        (step.action.value, str(step.ref.of), step.risk.value, step.rule, repr(_values(step))) for step in change.steps
    )
    # their texts name objects; where another number of references is missing, it is not the same
    return tuple(steps), len(change.effects), change.problem, change.base_problem, change.violations


def _values(step: Change) -> object:
    if step.differences:
        return [(item.path, item.live, item.desired) for item in step.differences]
    manifest = step.desired or step.live or {}
    return {key: value for key, value in manifest.items() if key != "metadata"}


def _latest(roots: Iterable[Root]) -> list[Root]:
    """Return each root once: an Application that the change edits counts as it is after the change."""
    latest: dict[tuple[str, str], Root] = {}
    for root in roots:  # those of the result precede those of the base
        latest.setdefault((root.application.key if root.application else "", root.path), root)
    return list(latest.values())


def _own_paths(root: Root, is_own: Callable[[str], bool]) -> Iterator[str]:
    """Yield the folders of the repository that an Application with several sources deploys."""
    if root.application is not None and isinstance(root.application.source, SourceGroup):
        for member in root.application.source.members:
            if member.folder and is_own(member.repo_url):
                yield member.path if member.path != "." else ""


def _is_selected(root: Root, below: Collection[str]) -> bool:
    return not below or any(not path or root.path == path or root.path.startswith(f"{path}/") for path in below)


def _rank(change: RootChange) -> tuple[bool, bool, int, str]:
    """Rank what reviewers have to read first: what cannot be built, production, the riskiest class."""
    root = change.roots[0]
    # False sorts first
    return (not change.problem, not _is_production(root), -change.risk.level, root.name)


def _problem(error: RemoteNeeded) -> str:
    """Return that a reference is not read for a folder of which no Application is known."""
    # the hint of a build, to allow the repository, does not help here
    remote = parse_remote(error.reference)
    # of a chart, whose reference is written here, its URL
    wanted = remote.shown if remote is not None and remote.is_chart else without_user(error.reference)
    return f"{error.location}: a preview does not read {wanted}, which is in another repository"


def _is_production(root: Root) -> bool:
    words = f"{root.path}/{root.application.key if root.application else ''}".replace("-", "/").split("/")
    return any(word in ("prod", "production") for word in words)


class _RootComparer:
    """Build folders on both sides, some on sides of their own; parsed files are shared by all builds."""

    def __init__(
        self,
        sides: Sides,
        sources: tuple[BuildSources, BuildSources],
        rules: Rules,
        roots: Sequence[Root],
        of_roots: Mapping[Root, Sides],
        remotes: Remotes,
    ) -> None:
        self._remotes = remotes
        self._sides = sides
        self._sources = sources
        self._rules = rules
        self.roots = roots
        self.of_roots = of_roots
        self._cache = ParseCache()
        self._provided: frozenset[tuple[GroupKind, str, str]] | None = None
        self._namespaces: frozenset[str] | None = None

    def is_touched(self, root: Root) -> bool:
        """Return whether the build of a root reads a changed file."""
        sides = self._sides_of(root)
        sources = (BuildSources(sides.base), BuildSources(sides.result)) if root in self.of_roots else self._sources
        # On either side: a file may be read only before or only after the change.
        return any(side.reads_any(root, sides.changed) for side in sources)

    def _sides_of(self, root: Root) -> Sides:
        return self.of_roots.get(root, self._sides)

    def of(self, root: Root) -> RootChange | None:
        """Return what changes in a root, None where nothing does."""
        app = root.application or _stand_in(root)
        sides = self._sides_of(root)
        try:
            old, base_problem = self._objects(sides.base, root, app), ""
        except FileNotFetched:  # who called has it fetched, and begins again
            raise
        except RemoteNeeded as error:
            old, base_problem = {}, self._remotes.problem_of(error, root.key)[0]
        except GitsyncError as error:
            old, base_problem = {}, str(error)
        try:
            new = self._objects(sides.result, root, app)
        except FileNotFetched:
            raise
        except RemoteNeeded as error:
            problem, is_fault = self._remotes.problem_of(error, root.key)
            # a version that does not exist is a fault of the change, a server that refuses is not
            return RootChange((root,), problem=problem if is_fault else "", base_problem=base_problem or problem)
        except GitsyncError as error:
            return RootChange((root,), problem=str(error), base_problem=base_problem)
        # Compared with nothing, every object would look new.
        if base_problem:
            return RootChange((root,), base_problem=base_problem, violations=self._violations(root, new))
        steps = commit_effect(old.values(), new.values(), app)
        broken = self._violations(root, new)
        if not steps and not broken:
            return None
        effects = (*effects_of(steps, new), *missing_references(steps, new, self._is_provided))
        plans = {root.application.key: effect_digest(steps)} if root.application else {}
        return RootChange((root,), steps, effects, broken, plans=plans)

    def declared(self, root: Root) -> ChangedRoot:
        """Return what a root declares on both sides; raise as a build does where one cannot be built."""
        app = root.application or _stand_in(root)
        sides = self._sides_of(root)
        old = self._objects(sides.base, root, app)
        new = self._objects(sides.result, root, app)
        differing = [ref for ref, manifest in new.items() if old.get(ref) != manifest]
        # a folder that the change removes has no build
        traces = (
            trace(self._build(sides.result, root, provenance=True), {ref: [""] for ref in differing})
            if differing
            else {}
        )
        places = {ref: fields[""][-1].where for ref, fields in traces.items() if fields}
        return ChangedRoot(root, old, new, places, self._is_namespace_used)

    def _is_namespace_used(self, name: str) -> bool:
        if self._namespaces is None:
            refs = [ref for _, objects in self._built(lambda sides: sides.base) for ref in objects]
            self._namespaces = frozenset(ref.name if ref.of == NAMESPACE else ref.namespace for ref in refs)
        return name in self._namespaces

    def traced(self, change: RootChange) -> RootChange:
        """Return a change with the files and lines that set the new values of its first root."""
        root = change.roots[0]
        wanted = {step.ref: fields for step in change.steps if (fields := _declared_fields(step))}
        if not wanted:
            return change
        made = self._build(self._sides_of(root).result, root, provenance=True)
        return replace(change, traces=trace(made, wanted))

    def _is_provided(self, ref: ObjectRef) -> bool:
        """Return whether any folder declares an object; all are built for the first that none of its own declares."""
        if self._provided is None:
            self._provided = frozenset(self._provided_by_all())
        return not self._provided.isdisjoint({(ref.of, ref.namespace, ref.name), (ref.of, _ANY, ref.name)})

    def _provided_by_all(self) -> Iterator[tuple[GroupKind, str, str]]:
        for root, objects in self._built(lambda sides: sides.result):
            for ref in (*objects, *(secret for pair in objects.items() for secret in made_secrets(*pair))):
                # the namespace into which a folder without an Application is deployed is not known
                yield ref.of, ref.namespace if root.application else _ANY, ref.name

    def _built(self, tree_of: Callable[[Sides], Tree]) -> Iterator[tuple[Root, dict[ObjectRef, Manifest]]]:
        """Yield all folders with what they declare on one side, without those that cannot be built."""
        for root in self.roots:
            try:
                yield root, self._objects(tree_of(self._sides_of(root)), root, root.application or _stand_in(root))
            except FileNotFetched:
                raise
            except GitsyncError:  # it is reported where the change reaches it
                continue

    def _objects(self, tree: Tree, root: Root, app: Application) -> dict[ObjectRef, Manifest]:
        """Return what a root declares; nothing where the folder does not exist on this side."""
        # The root of a tree has no entry of its own.
        if tree.entry(root.path) is None and root.path:
            return {}
        try:
            rendered = self._build(tree, root)
        except EmptyRender:
            # of several sources, the others go on declaring what they do: the controller reports the empty one
            if root in self.of_roots:
                raise
            return {}  # an empty folder declares nothing
        # As the controller does: what it will refuse has to fail here.
        reject_ambiguous_bools(rendered.manifests)
        cluster_scoped = cluster_scoped_kinds(rendered.manifests)
        return desired_objects(app, rendered.manifests, lambda of: of not in cluster_scoped)

    def _build(self, tree: Tree, root: Root, *, provenance: bool = False) -> Build:
        tree = self._remotes.mounted(tree, root.key)
        builds = [
            (
                render.name,
                build(
                    tree,
                    render.path,
                    cache=self._cache,
                    renderer=render.renderer,
                    provenance=provenance,
                    chart=render.chart,
                    helm=self._sides.helm,
                ),
            )
            for render in root.renders
        ]
        app = root.application
        if app is None or not isinstance(app.source, SourceGroup):
            return builds[0][1]
        return joined_build(builds, app.destination.namespace, app.chart)

    def _violations(self, root: Root, objects: Mapping[ObjectRef, Manifest]) -> tuple[str, ...]:
        """Return what the policies reject; those that name Applications say nothing about a bare folder."""
        lines: tuple[str, ...] = check_rules(self._rules.manifests, objects.values())
        app = root.application
        if app is not None and self._rules.policies:
            policy = policy_for(self._rules.policies, app)
            cluster_scoped = cluster_scoped_kinds(objects.values())
            lines += violations(policy, app, objects, lambda of: of not in cluster_scoped)
        return lines


def _declared_fields(step: Change) -> list[str]:
    """Return the fields that have a new value; the object itself where it is new."""
    fields = [item.path for item in step.differences if item.kind in DRIFT and item.desired is not ABSENT]
    return fields or ([""] if step.desired is not None and step.live is None else [])


def _stand_in(root: Root) -> Application:
    """Return an Application with the defaults for a folder of which no Application is known."""
    # Without validation, which an empty URL would not pass.
    source = GitSource.model_construct(repo_url="", path=root.path)
    # Cluster-scoped objects are allowed: what an unknown Application may not do cannot be judged.
    return Application("preview", "default", "", 0, source, Destination(namespace="default", allow_cluster_scoped=True))


# Kubernetes 1.36, `kubectl api-resources --namespaced=false`; reviews are left out, they are never stored.
_BUILT_IN: Final = """
.                             ComponentStatus Namespace Node PersistentVolume
admissionregistration.k8s.io  MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
admissionregistration.k8s.io  ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
apiextensions.k8s.io          CustomResourceDefinition
apiregistration.k8s.io        APIService
certificates.k8s.io           CertificateSigningRequest ClusterTrustBundle
flowcontrol.apiserver.k8s.io  FlowSchema PriorityLevelConfiguration
networking.k8s.io             IPAddress IngressClass ServiceCIDR
node.k8s.io                   RuntimeClass
rbac.authorization.k8s.io     ClusterRole ClusterRoleBinding
resource.k8s.io               DeviceClass DeviceTaintRule ResourceSlice
scheduling.k8s.io             PriorityClass
storage.k8s.io                CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass
"""


def _table() -> frozenset[GroupKind]:
    rows = (line.split() for line in _BUILT_IN.strip().splitlines())
    return frozenset(GroupKind(group.lstrip("."), kind) for group, *kinds in rows for kind in kinds)


_KINDS: Final = _table()


def cluster_scoped_kinds(manifests: Iterable[Manifest]) -> frozenset[GroupKind]:
    """Return the cluster-scoped kinds: those of Kubernetes, and those that definitions among the manifests say are."""
    defined = (
        GroupKind(str(at(manifest, "spec", "group")), str(at(manifest, "spec", "names", "kind")))
        for manifest in manifests
        if manifest.get("kind") == CRD.kind
        and ref_of(manifest).of == CRD
        and at(manifest, "spec", "scope") == "Cluster"
    )
    return _KINDS | frozenset(defined)
