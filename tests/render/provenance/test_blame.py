"""The line that a field names is the one that ``git blame`` says the last change of its value was made in."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.render.build import build
from gitsync.render.provenance.step_source import BUILD_STEP
from gitsync.source.local import FolderTree

RESOURCES = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    plain: VALUE-resource
spec:
  template:
    spec:
      containers:
      - name: tag
        image: tag-only
      - name: name
        image: name-only
      - name: digest
        image: digest-only
      - name: old
        image: old-tag
      - name: plugin
        image: by-plugin
      - name: var
        image: x
        args: [$(FROM_VAR)]
---
apiVersion: v1
kind: Service
metadata:
  name: api
spec:
  ports:
  - port: 80
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: facts
data:
  copied: VALUE-source
  read: VALUE-var
"""
KUSTOMIZATION = """\
resources:
- resources.yaml
namespace: VALUE-namespace
namePrefix: VALUE-prefix-
nameSuffix: -VALUE-suffix
commonAnnotations:
  other: fixed
  common: VALUE-annotation
commonLabels:
  common: VALUE-label
labels:
- pairs:
    other: fixed
    label: VALUE-labels
images:
- name: tag-only
  newTag: VALUE-tag
- name: name-only
  newName: VALUE-name
- name: digest-only
  digest: VALUE-digest
imageTags:
- name: old-tag
  newTag: VALUE-old
replicas:
- name: web
  count: 1000
configMapGenerator:
- name: made
  literals:
  - first=fixed
  - literal=VALUE-literal
  files:
  - file=value.txt
  envs:
  - app.env
  options:
    annotations:
      own: VALUE-option
generatorOptions:
  labels:
    shared: VALUE-options
secretGenerator:
- name: hidden
  type: VALUE-type
  literals: [a=b]
patches:
- path: merge.yaml
- path: json.yaml
  target: {kind: Service}
- patch: |

    kind: Service
    apiVersion: v1
    metadata:
      name: api
      annotations:
        inline: VALUE-inline
- patch: |-
    - op: add
      path: /metadata/annotations/operation
      value: VALUE-operation
    - op: add
      path: /spec/added
      value:
        deep:
        - VALUE-deep
  target: {kind: Service}
- path: several.yaml
patchesStrategicMerge:
- |-
  apiVersion: v1
  kind: Service
  metadata:
    name: api
    annotations:
      legacy: VALUE-legacy
patchesJson6902:
- target: {version: v1, kind: Service, name: api}
  path: legacy.json
replacements:
- source: {kind: ConfigMap, name: facts, fieldPath: data.copied}
  targets:
  - {select: {kind: Service}, fieldPaths: [metadata.annotations.copied], options: {create: true}}
- sourceValue: VALUE-text
  targets:
  - {select: {kind: Service}, fieldPaths: [metadata.annotations.text], options: {create: true}}
- path: replacements.yaml
vars:
- name: FROM_VAR
  objref: {apiVersion: v1, kind: ConfigMap, name: facts}
  fieldref: {fieldPath: data.read}
components:
- ../part
generators:
- generator.yaml
transformers:
- labels.yaml
- |-
  apiVersion: builtin
  kind: AnnotationsTransformer
  metadata: {name: inline}
  annotations:
    by-inline: VALUE-by-inline
  fieldSpecs:
  - {path: metadata/annotations, create: true}
- plugins.yaml
"""
FILES = {
    "base/resources.yaml": RESOURCES,
    "base/kustomization.yaml": KUSTOMIZATION,
    "base/value.txt": "VALUE-file\n",
    "base/app.env": "# a comment\nother=fixed\nentry=VALUE-entry\n",
    "base/merge.yaml": (
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: api\n  annotations:\n    merged: VALUE-merged\n"
    ),
    "base/json.yaml": (
        "- op: add\n  path: /spec/list\n  value: []\n- op: add\n  path: /spec/list/-\n  value: VALUE-appended\n"
    ),
    "base/legacy.json": ('[\n  {"op": "add", "path": "/metadata/annotations/json",\n   "value": "VALUE-json"}\n]\n'),
    "base/several.yaml": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations:\n    several: fixed\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: api\n  annotations:\n    several: VALUE-second\n"
    ),
    "base/replacements.yaml": (
        "- sourceValue: fixed\n  targets:\n"
        "  - {select: {kind: Service}, fieldPaths: [metadata.annotations.r1], options: {create: true}}\n"
        "- sourceValue: VALUE-row\n  targets:\n"
        "  - {select: {kind: Service}, fieldPaths: [metadata.annotations.r2], options: {create: true}}\n"
    ),
    "base/generator.yaml": (
        "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata:\n  name: plugged\nliterals:\n- a=b\n"
        "- plugged=VALUE-plugged\n"
    ),
    "base/labels.yaml": (
        "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: l}\nlabels:\n  by-file: VALUE-by-file\n"
        "fieldSpecs:\n- {path: metadata/labels, create: true}\n"
    ),
    "base/plugins.yaml": (
        "apiVersion: builtin\nkind: ImageTagTransformer\nmetadata: {name: i}\nimageTag:\n  name: by-plugin\n"
        "  newTag: VALUE-plugin-tag\nfieldSpecs: []\n---\n"
        "apiVersion: builtin\nkind: ReplicaCountTransformer\nmetadata: {name: r}\nreplica:\n  name: scaled\n"
        "  count: 2000\nfieldSpecs:\n- {path: spec/replicas, create: true, kind: Deployment}\n"
    ),
    "part/kustomization.yaml": (
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources:\n- scaled.yaml\n"
        "commonAnnotations:\n  part: VALUE-part\n"
    ),
    "part/scaled.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: scaled\n",
}
"""Each value that a test changes is ``VALUE-`` and a word of its own, or a number above 999."""


class Case(NamedTuple):
    """A value in a file, and a field of an object that has it."""

    value: str
    kind: str
    field: str


CASES = (
    Case("VALUE-resource", "Deployment web", "metadata.annotations.plain"),
    Case("VALUE-namespace", "Service api", "metadata.namespace"),
    Case("VALUE-prefix-", "Service api", "metadata.name"),
    Case("VALUE-annotation", "Service api", "metadata.annotations.common"),
    Case("VALUE-label", "Service api", "spec.selector.common"),
    Case("VALUE-labels", "Service api", "metadata.labels.label"),
    Case("VALUE-tag", "Deployment web", "spec.template.spec.containers.[name=tag].image"),
    Case("VALUE-name", "Deployment web", "spec.template.spec.containers.[name=name].image"),
    Case("VALUE-digest", "Deployment web", "spec.template.spec.containers.[name=digest].image"),
    Case("VALUE-old", "Deployment web", "spec.template.spec.containers.[name=old].image"),
    Case("1000", "Deployment web", "spec.replicas"),
    Case("VALUE-literal", "ConfigMap made", "data.literal"),
    Case("VALUE-file", "ConfigMap made", "data.file"),
    Case("VALUE-entry", "ConfigMap made", "data.entry"),
    Case("VALUE-option", "ConfigMap made", "metadata.annotations.own"),
    Case("VALUE-options", "ConfigMap made", "metadata.labels.shared"),
    Case("VALUE-type", "Secret hidden", "type"),
    Case("VALUE-merged", "Service api", "metadata.annotations.merged"),
    Case("VALUE-appended", "Service api", "spec.list.0"),
    Case("VALUE-inline", "Service api", "metadata.annotations.inline"),
    Case("VALUE-operation", "Service api", "metadata.annotations.operation"),
    Case("VALUE-deep", "Service api", "spec.added.deep.0"),
    Case("VALUE-second", "Service api", "metadata.annotations.several"),
    Case("VALUE-legacy", "Service api", "metadata.annotations.legacy"),
    Case("VALUE-json", "Service api", "metadata.annotations.json"),
    Case("VALUE-source", "Service api", "metadata.annotations.copied"),
    Case("VALUE-text", "Service api", "metadata.annotations.text"),
    Case("VALUE-row", "Service api", "metadata.annotations.r2"),
    Case("VALUE-var", "Deployment web", "spec.template.spec.containers.[name=var].args.0"),
    Case("VALUE-part", "Deployment scaled", "metadata.annotations.part"),
    Case("VALUE-plugged", "ConfigMap plugged", "data.plugged"),
    Case("VALUE-by-file", "Service api", "metadata.labels.by-file"),
    Case("VALUE-by-inline", "Service api", "metadata.annotations.by-inline"),
    Case("VALUE-plugin-tag", "Deployment web", "spec.template.spec.containers.[name=plugin].image"),
    Case("2000", "Deployment scaled", "spec.replicas"),
)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    run = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Make a repository whose commits change one value each; return it and the commit of each value."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "--quiet")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "all")
    changed = {}
    for case in CASES:
        (file,) = (name for name, text in FILES.items() if f"{case.value}\n" in _ends(text))
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace(case.value, _changed(case.value), 1))
        git(folder, "commit", "--quiet", "--all", "--message", case.value)
        changed[case.value] = git(folder, "rev-parse", "HEAD").strip()
    return folder, changed


def _ends(text: str) -> str:
    """Return a text in which each value ends its line, whatever follows it."""
    return text.replace('"', "\n").replace("}", "\n")


def _changed(value: str) -> str:
    return str(int(value) + 1) if value.isdigit() else value.replace("VALUE", "CHANGED", 1)


def _is(manifest: Manifest, kind: str, name: str) -> bool:
    return manifest["kind"] == kind and f"-{name}-" in manifest["metadata"]["name"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.value)
def test_blame_names_the_commit_that_changed_the_value(case: Case, commits: tuple[Path, dict[str, str]]) -> None:
    folder, changed = commits
    made = build(FolderTree(folder), "base", provenance=True)
    kind, _, name = case.kind.partition(" ")
    (history,) = (
        history for manifest, history in zip(made.manifests, made.provenance, strict=True) if _is(manifest, kind, name)
    )

    setters = [setter for setter in history.of(case.field) if setter.where != BUILD_STEP]
    if case.value == "VALUE-prefix-":  # the suffix came after it
        setters.pop()
    file, _, line = setters[-1].where.rpartition(":")
    blamed = git(folder, "blame", "--porcelain", f"-L{line},{line}", file).split()[0]
    assert blamed == changed[case.value], str(setters[-1])
