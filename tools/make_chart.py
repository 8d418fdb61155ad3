"""
Write the Helm chart of the installation, from the manifests that ``gitsync install`` prints.

Usage: ``python -m tools.make_chart FOLDER [IMAGE]``. The chart is made for each release and never edited: what it
installs with its default values is what the manifests install, and each component is a value.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gitsync import __version__
from gitsync.cli.commands.install import CLUSTER_WIDE, ComponentName, rendered, without_wrong_namespace
from gitsync.files import write_file
from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.render.yaml.writer import write

_NAMESPACE = "gitsync"
_IMAGE = f"gitsync:{__version__}"
_Key = tuple[str, str]
_Objects = dict[_Key, Manifest]
_Choice = tuple[str, ...]
"""The components that are chosen, in the order of their names."""


def files(image: str = _IMAGE) -> dict[str, str]:
    """Return the text of each file of the chart by its path; ``image`` is what it installs by default."""
    base = _objects(())
    alone = {component: _objects((component,)) for component in CLUSTER_WIDE}
    texts = {
        "Chart.yaml": _yaml(
            {
                "apiVersion": "v2",
                "name": "gitsync",
                "description": "A GitOps sync controller for AI-agent manifests",
                "type": "application",
                "version": _chart_version(),
                "appVersion": __version__,
            }
        ),
        "values.yaml": _values(image),
    }
    for key, manifest in base.items():
        # the definitions are installed before the rest; later ones by the controller, which Helm does not do
        if ref_of(manifest).of == CRD:
            texts[f"crds/{manifest['metadata']['name']}.yaml"] = write(manifest)
            continue
        changing = [component for component in CLUSTER_WIDE if alone[component][key] != manifest]
        texts[_path(key)] = _template(key, base, changing)
    for component, objects in alone.items():
        for key in objects.keys() - base.keys():
            body = f"{_if((component,))}\n{_escaped(objects[key])}{{{{- end }}}}\n"
            texts[_path(key)] = body
    return texts


def _objects(components: Iterable[ComponentName]) -> _Objects:
    """Return the objects of the installation with some components, without the namespace, which Helm creates."""
    overlay: dict[str, Any] = {
        "resources": ["../gitsync"],
        "components": [f"../gitsync/components/{component.value}" for component in components],
    }
    return {
        (manifest["kind"], manifest["metadata"]["name"]): manifest
        for manifest in map(without_wrong_namespace, rendered(overlay))
        if ref_of(manifest).of != NAMESPACE
    }


def _template(key: _Key, base: _Objects, changing: list[ComponentName]) -> str:
    """Return the template of an object, one branch for each choice of the components that change it."""
    branches = []
    for count in range(len(changing), 0, -1):
        for choice in itertools.combinations(changing, count):
            word = "if" if not branches else "else if"
            branches.append(f"{_if(choice, word)}\n{_escaped(_objects(choice)[key])}")
    if not branches:
        return _escaped(base[key])
    return f"{''.join(branches)}{{{{- else }}}}\n{_escaped(base[key])}{{{{- end }}}}\n"


def _if(components: Iterable[ComponentName], word: str = "if") -> str:
    conditions = [f'(index .Values.components "{component.value}")' for component in components]
    joined = conditions[0] if len(conditions) == 1 else f"and {' '.join(conditions)}"
    return f"{{{{- {word} {joined} }}}}"


def _escaped(manifest: Manifest) -> str:
    """Return a manifest as text of a template: braces of its own stay, image and namespace are values."""
    text = write(manifest).replace("{{", '{{ "{{" }}')
    lines = []
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        if name.strip(" -") == "namespace" and value == _NAMESPACE:
            line = f"{name}: {{{{ .Release.Namespace }}}}"
        elif name.strip(" -") == "image" and value == _IMAGE:
            line = f"{name}: {{{{ .Values.image }}}}"
        lines.append(line)
    return "\n".join([*lines, ""])


def _values(image: str) -> str:
    return _yaml(
        {"image": image, "components": {component.value: False for component in CLUSTER_WIDE}},
        "# The image, with the registry that it is in, and the components of docs/install.md.\n",
    )


def _chart_version() -> str:
    """Return the version as Helm reads it: a development version is a pre-release of semver."""
    release, is_development, number = __version__.partition(".dev")
    return f"{release}-dev.{number}" if is_development else release


def _path(key: _Key) -> str:
    kind, name = key
    return f"templates/{kind.lower()}-{name}.yaml"


def _yaml(content: Mapping[str, Any], comment: str = "") -> str:
    return comment + yaml.safe_dump(dict(content), sort_keys=False)


def main() -> None:
    """Write the chart into the folder that the first argument names, with the image that the second one names."""
    folder = Path(sys.argv[1])
    for name, text in files(*sys.argv[2:3]).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text, 0o644)


if __name__ == "__main__":
    main()
