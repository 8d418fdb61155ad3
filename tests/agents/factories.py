"""Agents and systems for tests: the examples of the repository, and the smallest that are valid."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from gitsync.crds import definitions
from gitsync.objects.manifest import Manifest, at
from gitsync.render.yaml.reader import read_all

DOCS = Path(__file__).resolve().parents[2] / "docs"
_EXAMPLES = Path(__file__).resolve().parent / "examples"


def example(name: str = "agent") -> Manifest:
    """Return the example ``agent`` or ``multiagentsystem``, which sets every field."""
    file = _EXAMPLES / f"{name}.yaml"
    manifest: Manifest = copy.deepcopy(read_all(file.read_text(encoding="utf-8"), file.name)[0])
    return manifest


def agent(name: str = "helper", namespace: str = "shop", **spec: Any) -> Manifest:
    """Return a small valid Agent with these members of its spec."""
    return {
        "apiVersion": "agents.gitsync.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"provider": "OpenAI", "id": "small"},
            "runtime": {"image": "registry.internal/agents/helper:1.0"},
            **spec,
        },
    }


def system(*members: Manifest, name: str = "desk", namespace: str = "shop", **spec: Any) -> Manifest:
    """Return a MultiAgentSystem of these members."""
    return {
        "apiVersion": "agents.gitsync.dev/v1alpha1",
        "kind": "MultiAgentSystem",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"agents": list(members), **spec},
    }


def member(name: str, *needs: str, **more: Any) -> Manifest:
    """Return an inline member that depends on others."""
    found: Manifest = {"name": name, "template": {"spec": agent()["spec"]}, **more}
    return found | ({"dependsOn": [{"agent": other} for other in needs]} if needs else {})


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """Return the manifest with the member at a path such as ``spec.tools.0.type`` set; None removes it."""
    result = copy.deepcopy(manifest)
    *parents, last = path.split(".")
    target: Any = result
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
    if isinstance(target, list):
        target[int(last)] = value
    elif value is None:
        target.pop(last, None)
    else:
        target[last] = value
    return result


def doubled(name: str) -> Iterator[tuple[str, Manifest]]:
    """Yield an example for each list of it that its definition calls a map, with one item twice, and where that is."""
    kinds = {"agent": "Agent", "multiagentsystem": "MultiAgentSystem"}
    (definition,) = [crd for crd in definitions() if crd["spec"]["names"]["kind"] == kinds[name]]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for path in _keyed_lists(schema, example(name)["spec"], "spec"):
        items = at(example(name), *(int(part) if part.isdecimal() else part for part in path.split(".")))
        place = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path)
        yield f"{place}[{len(items)}]", changed(example(name), path, [*items, items[0]])


def _keyed_lists(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-list-type") == "map":
        yield path
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _keyed_lists(schema["items"], item, f"{path}.{index}")
    elif isinstance(value, dict):
        for member, child in schema.get("properties", {}).items():
            if member in value:
                yield from _keyed_lists(child, value[member], f"{path}.{member}")


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose first column has this heading."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith(f"| {heading} |")]
    body = takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body]
