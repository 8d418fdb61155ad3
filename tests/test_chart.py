"""The Helm chart installs what the manifests install, with each choice of components."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync import __version__
from gitsync.cli.commands.install import CLUSTER_WIDE, ComponentName, rendered
from tools.make_chart import files

ALL = CLUSTER_WIDE
CHOICES = [
    (),
    *((component,) for component in ALL),
    (ComponentName.CLUSTER_ADMIN, ComponentName.HIGH_AVAILABILITY),
    ALL,
]


@pytest.fixture(scope="module")
def chart() -> dict[str, str]:
    return files()


def objects(manifests: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Return manifests by kind and name, without what Helm installs apart: definitions and the namespace."""
    by_key = {}
    for manifest in manifests:
        if manifest["kind"] in ("CustomResourceDefinition", "Namespace"):
            continue
        if manifest["kind"].startswith("ValidatingAdmissionPolicy"):
            # Kustomize takes it for a namespaced kind
            manifest = {**manifest, "metadata": {**manifest["metadata"]}}
            manifest["metadata"].pop("namespace", None)
        by_key[manifest["kind"], manifest["metadata"]["name"]] = manifest
    return by_key


def installed(components: Iterable[ComponentName]) -> dict[tuple[str, str], Any]:
    folders = [f"../gitsync/components/{component.value}" for component in components]
    return objects(rendered({"resources": ["../gitsync"], "components": folders}))


def evaluated(template: str, chosen: Iterable[ComponentName]) -> str:
    """Return what Helm makes of a template of the chart: one level of conditions, image, namespace and braces."""
    names = {component.value for component in chosen}
    lines = []
    is_taken = is_chosen = True
    for line in template.splitlines():
        if match := re.fullmatch(r"\{\{- (if|else if|else|end)(.*) \}\}", line):
            word, condition = match.groups()
            holds = set(re.findall(r'components "([a-z-]+)"', condition)) <= names
            if word == "if":
                is_taken = is_chosen = holds
            elif word == "end":
                is_taken = is_chosen = True
            else:
                is_taken = holds and not is_chosen
                is_chosen = is_chosen or is_taken
        elif is_taken:
            lines.append(line)
    text = "\n".join(lines)
    text = text.replace("{{ .Release.Namespace }}", "gitsync").replace("{{ .Values.image }}", f"gitsync:{__version__}")
    return text.replace('{{ "{{" }}', "{{")


@pytest.mark.parametrize("components", CHOICES, ids=lambda chosen: "+".join(chosen) or "none")
def test_the_chart_installs_what_the_manifests_do(chart: dict[str, str], components: tuple[ComponentName, ...]) -> None:
    templates = [text for path, text in chart.items() if path.startswith("templates/")]
    documents = [yaml.safe_load(evaluated(text, components)) for text in templates]
    assert objects(filter(None, documents)) == installed(components)


def test_the_chart_has_the_definitions_and_its_version(chart: dict[str, str]) -> None:
    definitions = [yaml.safe_load(text) for path, text in chart.items() if path.startswith("crds/")]
    shipped = [item for item in rendered({"resources": ["../gitsync"]}) if item["kind"] == "CustomResourceDefinition"]
    assert sorted(definitions, key=str) == sorted(shipped, key=str)
    description = yaml.safe_load(chart["Chart.yaml"])
    assert description["appVersion"] == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(-dev\.\d+)?", description["version"]), "Helm reads versions of semver only"
    assert yaml.safe_load(chart["values.yaml"])["components"].keys() == {component.value for component in ALL}


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize("components", [(), ALL], ids=["none", "all"])
def test_helm_renders_the_chart(chart: dict[str, str], components: tuple[ComponentName, ...], tmp_path: Path) -> None:
    for name, text in chart.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    options = itertools.chain.from_iterable(("--set", f"components.{component.value}=true") for component in components)
    command = ["helm", "template", "gitsync", str(tmp_path), "--namespace", "gitsync", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert objects(yaml.load_all(done.stdout, yaml.CSafeLoader)) == installed(components)
