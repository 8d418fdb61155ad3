"""Kustomization: the fields of a kustomization file, checked, with the place of each for errors."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gitsync.errors import EmptyRender, InvalidInput
from gitsync.render.errors import raise_all
from gitsync.render.patch.struct_schema import (
    ANY,
    FLAG,
    NUMBER,
    TEXT,
    TEXT_MAP,
    TEXTS,
    ListOf,
    MapOf,
    Mismatch,
    Shape,
    Struct,
    conform,
)
from gitsync.render.provenance.step_source import SourceFile
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.reader import node_at, place, read_all
from gitsync.render.yaml.yaml11 import with_old_flags

FILE_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
API_GROUP: Final = "kustomize.config.k8s.io"
_VERSIONS: Final = {"Kustomization": f"{API_GROUP}/v1beta1", "Component": f"{API_GROUP}/v1alpha1"}

_GVK: Final[dict[str, Shape]] = {"group": TEXT, "version": TEXT, "kind": TEXT}
_RESOURCE_ID: Final[dict[str, Shape]] = {**_GVK, "name": TEXT, "namespace": TEXT}
SELECTOR: Final = Struct({**_RESOURCE_ID, "annotationSelector": TEXT, "labelSelector": TEXT})
FIELD_SPEC: Final = Struct({**_GVK, "path": TEXT, "create": FLAG})
GENERATOR_OPTIONS: Final = Struct(
    {"labels": TEXT_MAP, "annotations": TEXT_MAP, "disableNameSuffixHash": FLAG, "immutable": FLAG}
)
_GENERATOR: Final[dict[str, Shape]] = {
    "namespace": TEXT,
    "name": TEXT,
    "behavior": TEXT,
    "literals": TEXTS,
    "files": TEXTS,
    "envs": TEXTS,
    "env": TEXT,
    "options": GENERATOR_OPTIONS,
}
CONFIG_MAP: Final = Struct(_GENERATOR)
SECRET: Final = Struct({**_GENERATOR, "type": TEXT})
PATCH: Final = Struct({"path": TEXT, "patch": TEXT, "target": SELECTOR, "options": MapOf(FLAG)})
IMAGE: Final = Struct({"name": TEXT, "newName": TEXT, "newTag": TEXT, "digest": TEXT, "tagSuffix": TEXT})
REPLICA: Final = Struct({"name": TEXT, "count": NUMBER})
_FIELD_OPTIONS: Final = Struct({"delimiter": TEXT, "index": NUMBER, "encoding": TEXT, "create": FLAG})
REPLACEMENT: Final = Struct(
    {
        "path": TEXT,
        "source": Struct({**_RESOURCE_ID, "fieldPath": TEXT, "options": _FIELD_OPTIONS}),
        "sourceValue": TEXT,
        "targets": ListOf(
            Struct(
                {
                    "select": SELECTOR,
                    "reject": ListOf(SELECTOR),
                    "fieldPaths": TEXTS,
                    "options": _FIELD_OPTIONS,
                }
            )
        ),
    }
)
LABEL: Final = Struct(
    {"pairs": TEXT_MAP, "includeSelectors": FLAG, "includeTemplates": FLAG, "fields": ListOf(FIELD_SPEC)}
)
VAR: Final = Struct(
    {
        "name": TEXT,
        "objref": Struct({**_RESOURCE_ID, "apiVersion": TEXT}),
        "fieldref": Struct({"fieldPath": TEXT}),
    }
)
SORT_OPTIONS: Final = Struct({"order": TEXT, "legacySortOptions": Struct({"orderFirst": TEXTS, "orderLast": TEXTS})})
CONFIGURATION: Final = Struct(
    {
        **{
            name: ListOf(FIELD_SPEC)
            for name in (
                "namePrefix",
                "nameSuffix",
                "namespace",
                "commonLabels",
                "labels",
                "templateLabels",
                "commonAnnotations",
                "varReference",
                "images",
                "replicas",
            )
        },
        "nameReference": ListOf(Struct({**_GVK, "fieldSpecs": ListOf(FIELD_SPEC)})),
    }
)
HELM_CHART: Final = Struct(
    {
        **dict.fromkeys(
            (
                *("name", "version", "repo", "releaseName", "namespace", "valuesFile", "valuesMerge", "kubeVersion"),
                *("nameTemplate", "digest"),
            ),
            TEXT,
        ),
        "additionalValuesFiles": TEXTS,
        "apiVersions": TEXTS,
        # as it is: null removes a value
        "valuesInline": ANY,
        **dict.fromkeys(("includeCRDs", "skipHooks", "skipTests", "debug", "devel"), FLAG),
    }
)

FIELDS: Final[dict[str, Shape]] = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "metadata": Struct({"name": TEXT, "namespace": TEXT, "labels": TEXT_MAP, "annotations": TEXT_MAP}, is_open=True),
    "openapi": TEXT_MAP,
    "namePrefix": TEXT,
    "nameSuffix": TEXT,
    "namespace": TEXT,
    "commonLabels": TEXT_MAP,
    "labels": ListOf(LABEL),
    "commonAnnotations": TEXT_MAP,
    "patchesStrategicMerge": TEXTS,
    "patchesJson6902": ListOf(PATCH),
    "patches": ListOf(PATCH),
    "images": ListOf(IMAGE),
    "imageTags": ListOf(IMAGE),
    "replacements": ListOf(REPLACEMENT),
    "replicas": ListOf(REPLICA),
    "vars": ListOf(VAR),
    "sortOptions": SORT_OPTIONS,
    "resources": TEXTS,
    "components": TEXTS,
    "crds": TEXTS,
    "bases": TEXTS,
    "configMapGenerator": ListOf(CONFIG_MAP),
    "secretGenerator": ListOf(SECRET),
    "helmGlobals": Struct({"chartHome": TEXT, "configHome": TEXT}),
    "helmCharts": ListOf(HELM_CHART),
    "helmChartInflationGenerator": ANY,
    "generatorOptions": GENERATOR_OPTIONS,
    "configurations": TEXTS,
    "generators": TEXTS,
    "transformers": TEXTS,
    "validators": TEXTS,
    "buildMetadata": TEXTS,
}
"""Every field of a kustomization file."""

_FILE: Final = Struct(FIELDS)

REFUSED: Final = frozenset({"helmChartInflationGenerator"})
"""Fields that ask to download and run a chart."""

_DEPRECATED: Final = {
    "bases": "resources",
    "commonLabels": "labels",
    "imageTags": "images",
    "patchesJson6902": "patches",
    "patchesStrategicMerge": "patches",
    "vars": "replacements",
}
_RAW: Final = YamlLimits(is_raw=True)
_LENIENT: Final = _RAW._replace(duplicates=True)
BUILD_METADATA: Final = ("originAnnotations", "transformerAnnotations", "managedByLabel")


class Kustomization(NamedTuple):
    """
    One kustomization file: its folder, its checked fields, and how to find the line of any of them.

    A field that is absent or null is not in ``fields``.
    """

    file: str
    folder: str
    fields: dict[str, Any]
    text: bytes
    duplicate: str = ""
    """The warning about a repeated key, which Kustomize accepts only in this file."""

    @property
    def is_component(self) -> bool:
        """Whether it is a Component, which joins its parent instead of standing alone."""
        return self.fields.get("kind") == "Component"

    def get(self, field: str) -> Any:
        """Return a list field, empty where absent."""
        return self.fields.get(field) or ()

    def rows(self, field: str) -> list[tuple[int, Any]]:
        """Return the items of a list field with their positions."""
        return list(enumerate(self.get(field)))

    def where(self, *path: str | int) -> str:
        """Return ``file:line`` of a field, or of what is nearest around it."""
        return place(self.file, self.text, path)

    def text_at(self, *path: str | int) -> SourceFile:
        """Return a text in the file, such as an inline patch, in which lines can be located."""
        value: Any = self.fields
        for part in path:
            value = value[part]
        stripped = str(value).lstrip()
        content = stripped.encode()
        try:
            node, first_line = node_at(self.text, 0, path)
        except (InvalidInput, KeyError, IndexError):  # the file spells a name in other letters
            return SourceFile(self.file, content, place=self.where(*path))
        if node.style != "|":  # folded or quoted: its lines are not those of the file
            return SourceFile(self.file, content, place=self.where(*path))
        blank_lines = str(value)[: len(str(value)) - len(stripped)].count("\n")
        above = node.line_of_text + blank_lines
        return SourceFile(self.file, content, first_line=first_line + above)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each deprecated field in use, and for repeated keys."""
        duplicates = (self.duplicate,) if self.duplicate else ()
        return duplicates + tuple(
            f"{self.where(old)}: {old!r} is deprecated; use {new!r}"
            for old, new in _DEPRECATED.items()
            if old in self.fields
        )


def read_kustomization(file: str, folder: str, text: bytes) -> Kustomization:
    """Return the checked kustomization; raise InvalidInput with ``file:line`` for what is wrong in it."""
    documents, duplicate = read_documents(file, text)
    if not documents:
        raise EmptyRender("the kustomization is empty", location=file, hint="name at least one resource")
    if not isinstance(documents[0], dict):
        raise InvalidInput("a kustomization must be a mapping", location=f"{file}:1")
    fields: dict[str, Any] = {}
    faults: list[InvalidInput] = []
    # Field by field, so that one run reports every mistake.
    for key, value in with_old_flags(documents[0], text).items():
        try:
            fields |= conform({key: value}, _FILE)
        except Mismatch as error:
            faults.append(InvalidInput(error.message, location=place(file, text, error.path), hint=error.hint))
    raise_all(faults)
    kustomization = Kustomization(file, folder, fields, text, duplicate)
    _check(kustomization)
    return kustomization


def read_documents(file: str, text: bytes) -> tuple[list[Any], str]:
    """Return the documents of a kustomization file, and the warning about a repeated key; raise InvalidInput."""
    try:
        return read_all(text, file, limits=_RAW), ""
    except InvalidInput as error:
        try:
            # Kustomize accepts a repeated key here alone, and the last one counts.
            return read_all(text, file, limits=_LENIENT), f"{error.location}: {error.message}; the last one counts"
        except InvalidInput:
            raise error from None


def _check(kustomization: Kustomization) -> None:
    fields = kustomization.fields
    kind = fields.setdefault("kind", "Kustomization")
    if kind not in _VERSIONS:
        raise InvalidInput(
            f"kind {kind!r} is neither Kustomization nor Component",
            location=kustomization.where("kind"),
            hint="correct the kind",
        )
    version = fields.setdefault("apiVersion", _VERSIONS[kind])
    if version != _VERSIONS[kind]:
        raise InvalidInput(
            f"apiVersion {version!r} is not known for kind {kind}",
            location=kustomization.where("apiVersion"),
            hint=f"write {_VERSIONS[kind]}",
        )
    if fields.keys() <= {"apiVersion", "kind"}:
        raise EmptyRender("the kustomization is empty", location=kustomization.file, hint="name at least one resource")
    # In order of the names, so that the message is the same in each run.
    for field in sorted(REFUSED & fields.keys()):
        raise InvalidInput(
            f"{field} is not supported: it downloads its chart",
            location=kustomization.where(field),
            hint="commit the chart, and name it in helmCharts",
        )
    for index, option in enumerate(fields.get("buildMetadata") or ()):
        if option not in BUILD_METADATA:
            raise InvalidInput(
                f"unknown option {option!r} in buildMetadata",
                location=kustomization.where("buildMetadata", index),
                hint=f"known are {', '.join(BUILD_METADATA)}",
            )
