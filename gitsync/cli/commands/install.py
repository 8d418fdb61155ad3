"""``gitsync install`` and ``gitsync bootstrap``."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import typer

from gitsync import __version__
from gitsync.cli.applications import connect
from gitsync.cli.options import NAMESPACE, ClusterTarget, command
from gitsync.cli.output import Exit, say
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import ClusterUnavailable, InvalidInput, counted
from gitsync.files import shipped_folder
from gitsync.objects.application import parse_application
from gitsync.objects.keys import API_VERSION, APPLICATION, FIELD_MANAGER, VERSION
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.remote import without_user
from gitsync.objects.tree import Entry
from gitsync.plan.tracking import marked
from gitsync.render.build import build
from gitsync.render.yaml.writer import write, write_all
from gitsync.services.policies import read_files
from gitsync.source.local import FolderTree, repository_of
from gitsync.source.work_tree import Upstream, commit_files, has_changes, push_branch

_CLUSTER_SCOPED = (
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
)
IMAGE_NAME = "gitsync"
"""The name of the image in the Deployment."""
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_REPOSITORY = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._/-]+)?", re.ASCII)
"""A host with its port, and a path. Source: the grammar of distribution/reference."""
_OVERLAY = "install"
"""A folder that does not exist on disk: it has the kustomization of the options."""


class ComponentName(StrEnum):
    """An optional part of the installation, a folder of ``manifests/gitsync/components``."""

    CLUSTER_ADMIN = "cluster-admin"
    READ_SECRETS = "read-secrets"
    POD_MONITOR = "podmonitor"
    MONITORING = "monitoring"
    AGENTS = "agents"
    WEBHOOK = "webhook"
    HIGH_AVAILABILITY = "ha"
    NAMESPACED = "namespaced"


CLUSTER_WIDE = tuple(component for component in ComponentName if component is not ComponentName.NAMESPACED)
"""What an installation for the whole cluster may have."""
_OF_THE_CLUSTER = (
    ComponentName.CLUSTER_ADMIN,
    ComponentName.READ_SECRETS,
    ComponentName.AGENTS,
    ComponentName.WEBHOOK,
)
"""Components with cluster-scoped objects, which a namespaced installation has not; it has what Agents need anyway."""
_NAMESPACED = "../gitsync/components/namespaced"
_KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
_GENERATED = "gitsync.yaml"
"""The file that each ``gitsync bootstrap`` writes again."""
_DEFINITION_SECONDS = 60.0
"""Seconds in which an API server serves a new definition; it takes about one."""


@command
def install(
    image: Annotated[
        str, typer.Option(help="The image of the controller, such as registry.example.com/gitsync:0.4.0.")
    ] = "",
    component: Annotated[
        list[ComponentName] | None,
        typer.Option(
            help="Add agents, webhook, ha, cluster-admin, read-secrets, podmonitor, monitoring or namespaced."
        ),
    ] = None,
    namespaces: Annotated[
        str,
        typer.Option(help="With the component namespaced: further namespaces of the controller, comma-separated."),
    ] = "",
    policies: Annotated[
        Path | None, typer.Option(help="A folder with Policy files, for the ConfigMap that the controller reads.")
    ] = None,
    crds: Annotated[bool, typer.Option("--crds", help="Print only the CustomResourceDefinitions.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Print only what Applications of this namespace need.")
    ] = "",
) -> Exit:
    """Print the manifests that install the controller, for `kubectl apply -f -`."""
    components = component or []
    tenants = [name.strip() for name in namespaces.split(",") if name.strip()]
    _check_components(components, tenants)
    is_namespaced = ComponentName.NAMESPACED in components
    if crds:
        manifests = rendered({"resources": ["../gitsync/crds"]})
    elif tenant:
        manifests = rendered(_tenant(tenant, is_namespaced=is_namespaced))
    else:
        patches = [_policies(policies)] if policies is not None else []
        patches += [_watching(tenants)] if tenants else []
        manifests = installation(image, components, patches)
        for name in tenants:
            manifests += rendered(_tenant(name, is_namespaced=True))
    sys.stdout.write(write_all(manifests))
    return Exit.OK


@command
def bootstrap(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of a Git checkout, for the manifests of gitsync alone.")
    ],
    place: ClusterTarget,
    image: Annotated[
        str, typer.Option(help="The image of the controller, such as registry.example.com/gitsync:0.4.0.")
    ] = "",
    component: Annotated[
        list[ComponentName] | None, typer.Option(help="Add a component; see `gitsync install`.")
    ] = None,
    url: Annotated[
        str, typer.Option(help="The URL that the controller reads the repository at; by default that of the remote.")
    ] = "",
    credentials: Annotated[
        str,
        typer.Option(metavar="SECRET", help="The Secret with the repository's credentials, in gitsync."),
    ] = "",
) -> Exit:
    """Install the controller from a Git repository that it then follows, or upgrade it by a commit."""
    components = component or []
    if ComponentName.NAMESPACED in components:
        raise InvalidInput(
            "a controller without rights of the cluster cannot apply its own definitions",
            location="--component",
            hint="use gitsync install --component namespaced",
        )
    top, _ = repository_of(folder.resolve())
    if top is None:
        raise InvalidInput("is not inside a Git repository", location=str(folder))
    path = folder.resolve().relative_to(top.resolve()).as_posix()
    if path == ".":
        raise InvalidInput("the root of a repository has more than gitsync", location=str(folder), hint="name a folder")
    upstream = Upstream.of(top, location=str(folder))
    source = {
        "repoURL": url or without_user(upstream.url),
        "path": path,
        "revision": upstream.branch,
        **({"credentials": {"secretRef": {"name": credentials}}} if credentials else {}),
    }
    files = {
        _GENERATED: [*installation(image, components), *rendered({"resources": ["../gitsync/bootstrap"]})],
        "application.yaml": [_itself(source)],
        "kustomization.yaml": [{**_KUSTOMIZATION, "resources": [_GENERATED, "application.yaml"]}],
    }
    written = _write(top / path, files)
    # before the commit: what does not render would be followed
    manifests = list(build(FolderTree(top), path).manifests)
    _commit(top, [f"{path}/{name}" for name in written], f"Install gitsync {__version__} from {path}", upstream)
    client = connect(place.cluster)
    try:
        _install_once(KubernetesCluster(client), manifests)
    finally:
        client.close()
    return Exit.OK


def _itself(source: dict[str, Any]) -> Manifest:
    """Return the Application of the installation, which removes nothing of it whatever Git lacks."""
    return {
        "apiVersion": API_VERSION,
        "kind": APPLICATION.kind,
        "metadata": {"name": IMAGE_NAME, "namespace": NAMESPACE},
        "spec": {
            "source": source,
            "destination": {"serviceAccountName": "gitsync-deployer", "allowClusterScoped": True},
            # a commit that changes this waits for an approval, since it widens what the Application may do
            "sync": {"prune": False},
        },
    }


def _write(folder: Path, files: Mapping[str, list[Manifest]]) -> list[str]:
    """Write the files and return their names; an existing one only if it is generated, since others are the user's."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in files if name == _GENERATED or not (folder / name).exists()]
    for name in names:
        (folder / name).write_text(write_all(files[name]), encoding="utf-8")
    return names


def _commit(top: Path, files: list[str], message: str, upstream: Upstream) -> None:
    """Commit and push what was written."""
    if has_changes(top, files):
        say(f"committed {commit_files(top, files, message)[:12]}")
    else:
        say("the last commit has these manifests already")
    # also what an earlier run has committed and could not push
    push_branch(top, upstream.remote, upstream.branch)
    say(f"pushed {upstream.branch} to {upstream.remote}")


def _install_once(cluster: KubernetesCluster, manifests: list[Manifest]) -> None:
    """Apply the installation, unless the controller applies it already: then the commit is all that it needs."""
    own = ObjectRef(APPLICATION.group, APPLICATION.kind, NAMESPACE, IMAGE_NAME)
    is_served = cluster.resource(own.group, VERSION, own.kind) is not None
    if is_served and cluster.read(own, VERSION) is not None:
        say(f"the controller applies the commit: gitsync status {IMAGE_NAME}")
        return
    itself = next((manifest for manifest in manifests if ref_of(manifest) == own), None)
    if itself is None:
        raise InvalidInput(
            "is not in the folder", object=str(own), hint="add application.yaml to its kustomization.yaml"
        )
    application = parse_application(itself)
    # at the end: its kind has to be served
    for manifest in sorted(map(without_wrong_namespace, manifests), key=lambda manifest: ref_of(manifest) == own):
        if ref_of(manifest) == own:
            _wait_for_definition(cluster, own)
        # with its marks, as its first sync would apply them: to take over definitions needs an approval
        cluster.apply(marked(application, ref_of(manifest), manifest), manager=FIELD_MANAGER)
    say(f"installed {counted(len(manifests), 'object')}")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gitsync-dashboard", "namespace": NAMESPACE}}
    if cluster.read(ref_of(secret), "v1") is None:
        # without it the Pod does not start; no token is in Git
        cluster.create({**secret, "stringData": {"token": token_hex(24)}}, manager=FIELD_MANAGER)
        say("created Secret gitsync/gitsync-dashboard with a token for the dashboard")


def _wait_for_definition(cluster: KubernetesCluster, ref: ObjectRef) -> None:
    """Wait until the API server serves a kind whose definition was applied a moment before."""
    give_up = time.monotonic() + _DEFINITION_SECONDS
    while cluster.resource(ref.group, VERSION, ref.kind) is None:
        if time.monotonic() > give_up:
            raise ClusterUnavailable(
                f"{ref.kind} is not served {_DEFINITION_SECONDS:g} s after its definition was applied",
                hint="run it again, or see kubectl describe crd applications.gitsync.dev",
            )
        time.sleep(0.2)
        cluster.definitions_changed()


def installation(image: str, components: Collection[ComponentName], patches: Iterable[Manifest] = ()) -> list[Manifest]:
    """
    Return the manifests of the controller with these components; raise InvalidInput for an image without a tag.

    They are those of a kustomization over the shipped ones, so that ``kubectl apply -k`` installs the same bytes.
    """
    # last: it deletes the cluster-scoped objects
    ordered = sorted(components, key=lambda name: name is ComponentName.NAMESPACED)
    return rendered(
        {
            "resources": ["../gitsync"],
            "components": [f"../gitsync/components/{name.value}" for name in ordered],
            "images": [{"name": IMAGE_NAME, **_image(image)}] if image else [],
            "patches": [{"patch": write(patch)} for patch in patches],
        }
    )


def _check_components(components: list[ComponentName], tenants: list[str]) -> None:
    """Raise InvalidInput for components, or namespaces, that do not go with one another."""
    if ComponentName.NAMESPACED not in components:
        if tenants:
            raise InvalidInput(
                "a controller of all namespaces needs no list",
                location="--namespaces",
                hint="add --component namespaced, or use --tenant NAMESPACE",
            )
        return
    for component in components:
        if component in _OF_THE_CLUSTER:
            raise InvalidInput(
                f"{component.value} needs rights of the cluster, and namespaced has none",
                location="--component",
                hint=f"leave out {component.value} or namespaced",
            )


def _tenant(namespace: str, *, is_namespaced: bool) -> dict[str, Any]:
    """Return the kustomization of what Applications of a namespace need."""
    folder = f"{_NAMESPACED}/tenant" if is_namespaced else "../gitsync/tenant"
    return {"resources": [folder], "namespace": namespace}


def _watching(tenants: list[str]) -> Manifest:
    """Return the patch that names the namespaces of a controller: its own, and those of its tenants."""
    env = [{"name": "GITSYNC_NAMESPACES", "value": ",".join(["gitsync", *tenants])}]
    spec = {"template": {"spec": {"containers": [{"name": "controller", "env": env}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gitsync"}, "spec": spec}


def rendered(overlay: dict[str, Any]) -> list[Manifest]:
    """Return the manifests of a kustomization beside the shipped folder ``gitsync``."""
    tree = _Overlay(FolderTree(shipped_folder("manifests")), write(overlay).encode())
    return list(build(tree, _OVERLAY).manifests)


def without_wrong_namespace(manifest: Manifest) -> Manifest:
    """Return a manifest without the namespace that Kustomize gives cluster-scoped kinds which its schema lacks."""
    if manifest["kind"] not in _CLUSTER_SCOPED:
        return manifest
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "namespace"}
    return {**manifest, "metadata": metadata}


def _policies(folder: Path) -> Manifest:
    """Return the ConfigMap of the Policy files in a folder; raise InvalidInput when one is not valid."""
    data = {name: text.decode() for name, text in read_files(folder).items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gitsync-policies"}, "data": data}


def _image(text: str) -> dict[str, str]:
    """Return name, tag and digest of an image as Kustomize sets them; raise InvalidInput without tag and digest."""
    rest, _, digest = text.partition("@")
    # a registry may have a port: the colon of a tag is in the last part only
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    if not name or not (tag or digest):
        raise InvalidInput(
            f"{text!r} does not name one version", location="--image", hint="add a tag or digest: REPOSITORY:TAG"
        )
    if (tag and not _TAG.fullmatch(tag)) or not _REPOSITORY.fullmatch(f"{head}{slash}{name}"):
        raise InvalidInput(
            f"{text!r} is not a name of an image",
            location="--image",
            hint="write it as REPOSITORY:TAG in small letters",
        )
    members = {"newName": f"{head}{slash}{name}", "newTag": tag, "digest": digest}
    return {key: value for key, value in members.items() if value}


class _Overlay:
    """A tree with one more folder, which holds one kustomization file."""

    def __init__(self, tree: FolderTree, kustomization: bytes) -> None:
        self._tree = tree
        self._files = {f"{_OVERLAY}/kustomization.yaml": kustomization}

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at a path, or None."""
        if path == _OVERLAY:
            return Entry.FOLDER
        return Entry.FILE if path in self._files else self._tree.entry(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return ("kustomization.yaml",) if path == _OVERLAY else self._tree.names(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self._files[path] if path in self._files else self._tree.read(path)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        return path if path in self._files else self._tree.blob_id(path)
