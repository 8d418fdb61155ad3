"""
Compare ``gitsync build`` with a ``kubectl kustomize`` on random kustomizations, and reduce what differs.

    python tools/compare_kustomize.py --kubectl kubectl --inputs 2000 --seed 1 --out findings

Each input has a few objects with odd values and two to four features, spread over a base, an overlay and perhaps a
component. A difference is reduced line by line and written as a case that ``tests/render/kustomize/cases`` can take.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.build import build
from gitsync.render.yaml.writer import write_all
from gitsync.source.local import FolderTree

Tree = dict[str, str]
"""The text of each file by its path."""

SCALARS: Final = (
    *("v", "a-b", "1", "1.10", "0755", "1e3", "8123e45", "0x10", "1_000", "2024-01-02", "9007199254740993", "-0", "+1"),
    *("yes", "true", "null", "~", "", "Null", "'1'", '"1.10"', "''", '"yes"', "'a b'", '"a\\nb"', "two words", "a#b"),
    *("|-\n one\n two", ">\n one\n  more\n two\n", "|+\n one\n\n", ">-\n one\n two"),
)
TEXTS: Final = ("v", "a-b", '"1"', '"1.10"', '"0755"', '"yes"', '"true"', '"null"', '""', '"8123e45"', '"a b"', "'1e3'")
NAMES: Final = ("web", "db", '"3"')
IMAGES: Final = ("nginx", "nginx:1.10", "r.io:5000/x/nginx@sha256:ab", '"nginx:1"', "busybox:8123e45")
EXPLAINED: Final = (  # in what either program says: documented in docs/kustomize.md and docs/yaml.md
    "cannot become",  # a value that does not fit the type of a field: Kustomize writes ``!!int x`` or fails later
    "could refer to any of",
    *("cannot unmarshal !!", "cannot decode !!str"),  # a text that Kustomize tagged as a number before
    "is an index, but",
)


class Generator:
    """Make random trees; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.choice = self._random.choice

    def maybe(self, chance: float) -> bool:
        """Return True with a chance."""
        return self._random.random() < chance

    def scalar(self, indent: int) -> str:
        """Return an odd value as it stands behind a key at a column."""
        return " " + self.choice(SCALARS).replace("\n", "\n" + " " * (indent + 1))

    def pairs(self, indent: int, *keys: str) -> str:
        """Return members of a mapping with odd values, in a block or in braces."""
        if self.maybe(0.3):
            flat = [f"{key}: {self.choice([scalar for scalar in SCALARS if chr(10) not in scalar])}" for key in keys]
            return " {" + ", ".join(flat) + "}"
        return "".join(f"\n{' ' * (indent + 2)}{key}:{self.scalar(indent + 2)}" for key in keys)

    def tree(self) -> Tree:
        """Return a tree with a base, mostly an overlay, and sometimes a component of the overlay."""
        count = self.choice((2, 2, 3, 3, 4))
        layers = [self.choice(("base", "over", "over", "part")) for _ in range(count)]
        tree = {"base/r.yaml": "---\n".join(self.resource(name) for name in ["web", self.choice(NAMES[1:])])}
        for folder in ("base", "over", "part"):
            fields: dict[str, list[str]] = {}
            for _ in range(layers.count(folder)):
                field, entry = self.choice(FEATURES)(self)
                if field in _SINGLE:
                    fields[field] = [entry]
                else:
                    fields.setdefault(field, []).append(entry)
            tree[f"{folder}/kustomization.yaml"] = _HEADS[folder] + "".join(_field(*item) for item in fields.items())
        if "part" not in layers:
            del tree["part/kustomization.yaml"]
        else:
            tree["over/kustomization.yaml"] += "components: [../part]\n"
        tree["base/c.yaml"] = (
            "images:\n- {kind: Fuzz, path: spec/image}\nnamePrefix:\n- {kind: Fuzz, path: spec/model}\n"
        )
        tree["base/app.env"] = "A=1\nB=two words\n# C=3\n"
        return tree

    # objects

    def resource(self, name: str) -> str:
        """Return the text of an object; the first is always a Deployment, which most features can change."""
        others = ("StatefulSet", "ConfigMap", "Service", "NetworkPolicy", "Fuzz")
        kind = "Deployment" if name == "web" else self.choice(others)
        members = [f"name: {name}"]
        if self.maybe(0.5):
            members.append("labels:" + self.pairs(2, *self._random.sample(["app", "tier", "x"], self.choice((1, 2)))))
        if self.maybe(0.4):
            members.append("annotations:" + self.pairs(2, *self._random.sample(["note", "x", "blank"], 2)))
        head = f"apiVersion: {_VERSIONS[kind]}\nkind: {kind}\nmetadata:\n" + "".join(f"  {part}\n" for part in members)
        return head + getattr(self, f"_{kind.lower()}")() + "\n"

    def _deployment(self) -> str:
        labels = f"\n    metadata:\n      labels:{self.pairs(6, 'app')}" if self.maybe(0.4) else ""
        selector = "\n  selector:\n    matchLabels: {app: web}" if self.maybe(0.4) else ""
        env = f"\n        env:\n        - name: E\n          value:{self.scalar(10)}" if self.maybe(0.5) else ""
        container = f"\n      - name: c\n        image: {self.choice(IMAGES)}{env}"
        return f"spec:{selector}\n  template:{labels}\n    spec:\n      containers:{container}"

    def _statefulset(self) -> str:
        return self._deployment() + "\n  volumeClaimTemplates:\n  - metadata:\n      name: data"

    def _configmap(self) -> str:
        return f"data:{self.pairs(0, 'k', 'port')}"

    def _service(self) -> str:
        return f"spec:\n  selector:{self.pairs(2, 'tier')}\n  ports:\n  - port: 80"

    def _networkpolicy(self) -> str:
        peers = "\n    - podSelector:\n        matchLabels: {a: b}" * self.choice((1, 2))
        return f"spec:\n  podSelector: {{}}\n  ingress:\n  - from:{peers}"

    def _fuzz(self) -> str:
        return (
            f"spec:{self.pairs(2, 'a', 'b')}\nlist:\n- {{x: 1}}\n-{self.scalar(0)}"
            if self.maybe(0.5)
            else "spec: {image: nginx}"
        )

    # features: the field of a kustomization and one entry of it

    def affix(self) -> tuple[str, str]:
        """Return a prefix or suffix of names."""
        return self.choice(("namePrefix", "nameSuffix")), self.choice(("p-", '"1"', '"0"', "x"))

    def namespace(self) -> tuple[str, str]:
        """Return a namespace."""
        return "namespace", self.choice(("apps", '"1"', '"yes"'))

    def common(self) -> tuple[str, str]:
        """Return labels or annotations for all fields."""
        field = self.choice(("commonLabels", "commonAnnotations"))
        return field, f"\n  {self.choice(('app', 'tier', 'note'))}: {self.choice(TEXTS)}"

    def labels(self) -> tuple[str, str]:
        """Return labels with their options."""
        option = self.choice(("", "\n  includeSelectors: true", "\n  includeTemplates: true"))
        return "labels", f"pairs:\n    {self.choice(('app', 'tier'))}: {self.choice(TEXTS)}{option}"

    def image(self) -> tuple[str, str]:
        """Return an image to change."""
        change = self.choice(('newTag: "1.20"', "newName: other", 'newName: "1"', "digest: sha256:cd", "tagSuffix: -x"))
        return "images", f"name: {self.choice(('nginx', 'busybox'))}\n  {change}"

    def replica(self) -> tuple[str, str]:
        """Return a number of replicas."""
        return "replicas", f"name: web\n  count: {self.choice((0, 3))}"

    def merge_patch(self) -> tuple[str, str]:
        """Return a strategic merge patch with a target."""
        body = self.choice(
            (
                f"metadata:\n  name: any\n  labels:{self.pairs(2, 'app', 'tier')}",
                f"metadata:\n  name: any\n  annotations:{self.pairs(2, 'note')}",
                f"metadata:\n  name: any\nspec:{self.pairs(2, 'a', 'replicas')}",
                f"metadata:\n  name: any\ndata:{self.pairs(0, 'k', 'n')}",
                "metadata:\n  name: any\nspec:\n  template:\n    spec:\n      containers:\n"
                f"      - name: c\n        env:\n        - name: E\n          value:{self.scalar(10)}",
            )
        )
        return "patches", self._patch(f"apiVersion: v1\nkind: Any\n{body}")

    def json_patch(self) -> tuple[str, str]:
        """Return a JSON patch with a target."""
        path = self.choice(("/metadata/labels", "/metadata/annotations", "/spec/x", "spec/spec/y", "/data/k"))
        value = self.choice((" {app: 1}", f"{self.pairs(2, 'app', 'b')}", " 9007199254740993", " 1.10", ' "1"', " yes"))
        return "patches", self._patch(f"- op: {self.choice(('add', 'replace'))}\n  path: {path}\n  value:{value}")

    def _patch(self, text: str) -> str:
        target = self.choice(("name: web", "kind: Deployment", "name: .*"))
        inner = text.replace("\n", "\n    ")
        return f"target: {{{target}}}\n  patch: |\n    {inner}"

    def replacement(self) -> tuple[str, str]:
        """Return a replacement."""
        source = self.choice(
            (
                f"sourceValue: {self.choice([text for text in TEXTS if text != chr(34) * 2])}",
                "source: {kind: Deployment, fieldPath: metadata.name}",
                "source: {kind: Deployment, fieldPath: spec.template.spec.containers.0.image, "
                "options: {delimiter: ':', index: 1}}",
                "source: {kind: Deployment, fieldPath: spec.template.spec.containers.0.image}",
            )
        )
        path = self.choice(
            (
                *("metadata.labels.app", "metadata.annotations.note", "spec.x.y", "metadata.labels", "data.k"),
                *("spec.template.spec.containers.[name=c].env.[name=F].value", "spec.selector.matchLabels.app"),
                *(() if source.startswith("sourceValue") else ("spec.template.spec.containers.[name=c].image",)),
            )
        )
        options = self.choice(("", "", ", options: {delimiter: ':', index: 1}"))
        create = ", options: {create: true}" if not options else options.replace("{", "{create: true, ", 1)
        return "replacements", f"{source}\n  targets:\n  - {{select: {{name: .*}}, fieldPaths: ['{path}']{create}}}"

    def generator(self) -> tuple[str, str]:
        """Return a generator of a ConfigMap."""
        source = self.choice(("literals: [a=1, 'b=x y']", "envs: [../base/app.env]", "literals: ['k=\"1.10\"']"))
        if "envs" in source:
            source = "literals: [a=0755, b=null, c=]"
        options = self.choice(("", "\n  options: {labels: {app: '1'}, annotations: {note: '1.10'}}"))
        return "configMapGenerator", f"name: {self.choice(('made', 'made-2'))}\n  {source}{options}"

    def variable(self) -> tuple[str, str]:
        """Return a var."""
        return "vars", "name: NAME\n  objref: {apiVersion: apps/v1, kind: Deployment, name: web}"

    def transformer(self) -> tuple[str, str]:
        """Return a transformer, configured inline."""
        config = self.choice(
            (
                f"kind: LabelTransformer\n  labels: {{app: {self.choice(TEXTS)}}}\n  fieldSpecs:\n"
                "  - {path: metadata/labels, create: true}\n  - {path: spec/extra, create: true}",
                f"kind: AnnotationsTransformer\n  annotations: {{note: {self.choice(TEXTS)}}}\n  fieldSpecs:\n"
                "  - {path: metadata/annotations, create: true}",
                "kind: PrefixTransformer\n  prefix: t-\n  fieldSpecs:\n  - {path: metadata/name}\n"
                "  - {path: metadata/labels/app}",
            )
        )
        head, _, rest = config.partition("\n")
        return "transformers", f"|-\n  apiVersion: builtin\n  {head}\n  metadata: {{name: t}}\n{rest}"

    def configuration(self) -> tuple[str, str]:
        """Return a file of transformer configurations; it lies in the base."""
        return "buildMetadata", self.choice(("originAnnotations", "managedByLabel"))


FEATURES: Final[tuple[Callable[[Generator], tuple[str, str]], ...]] = (
    Generator.affix,
    Generator.namespace,
    Generator.common,
    *(Generator.labels, Generator.labels),
    Generator.image,
    Generator.replica,
    *(Generator.merge_patch, Generator.merge_patch),
    Generator.json_patch,
    *(Generator.replacement, Generator.replacement, Generator.replacement),
    Generator.generator,
    Generator.variable,
    Generator.transformer,
)
_SINGLE: Final = ("namePrefix", "nameSuffix", "namespace", "commonLabels", "commonAnnotations")
_VERSIONS: Final = {
    **dict.fromkeys(("Deployment", "StatefulSet"), "apps/v1"),
    **dict.fromkeys(("ConfigMap", "Service"), "v1"),
    "NetworkPolicy": "networking.k8s.io/v1",
    "Fuzz": "x.io/v1",
}
_HEADS: Final = {
    "base": "resources: [r.yaml]\n",
    "over": "resources: [../base]\n",
    "part": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
}


def _field(name: str, entries: list[str]) -> str:
    if name in _SINGLE:
        return f"{name}: {entries[0]}\n"
    return f"{name}:\n" + "".join(f"- {entry}\n" for entry in entries)


class Outcome(NamedTuple):
    """What the two programs make of a tree; an output is None where the program refuses the tree."""

    ours: str | None
    theirs: str | None
    error: str

    @property
    def verdict(self) -> str:
        """Return the kind of agreement or difference."""
        if self.ours is None or self.theirs is None:
            if self.ours is self.theirs:
                return "both refuse"
            explained = any(part in self.error for part in EXPLAINED)
            return "explained" if explained else "gitsync refuses" if self.ours is None else "kubectl refuses"
        return "same" if self.ours == self.theirs else "differs"


def outcome(tree: Tree, kubectl: str) -> Outcome:
    """Build a tree with both programs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in tree.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        error = ""
        ours = None
        try:
            ours = write_all(build(FolderTree(folder), "over").manifests)
        except InvalidInput as refusal:
            error = str(refusal)
        run = subprocess.run([kubectl, "kustomize", folder / "over"], capture_output=True, text=True, check=False)
        return Outcome(ours, run.stdout if run.returncode == 0 else None, error or run.stderr)


def reduced(tree: Tree, kubectl: str, verdict: str) -> Tree:
    """Return a tree with fewer lines that both programs still treat as differently."""
    size = max(text.count("\n") for text in tree.values()) // 2
    while size:
        for smaller in _without(tree, size):
            if outcome(smaller, kubectl).verdict == verdict:
                tree = smaller
                break
        else:
            size //= 2
    return tree


def _without(tree: Tree, size: int) -> Iterator[Tree]:
    """Yield the trees that lack some lines of one file."""
    for path, text in tree.items():
        lines = text.splitlines(keepends=True)
        for start in range(0, len(lines), size):
            dropped = lines[start : start + size]
            if not any(line.startswith("apiVersion:") for line in dropped):  # an object without one is another fault
                yield {**tree, path: "".join(lines[:start] + lines[start + size :])}


def _case(tree: Tree, expected: str) -> str:
    return "".join(f"-- {path} --\n{text}" for path, text in {**tree, "expected": expected}.items() if text)


def main() -> int:
    """Compare as many inputs as asked for; return 1 where any differs without an explanation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubectl", default="kubectl", help="the kubectl to compare with")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the folder for reduced findings")
    parser.add_argument("--findings", type=int, default=20, help="number of differences that are reduced at most")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    shapes: set[str] = set()
    for seed in range(options.seed, options.seed + options.inputs):
        tree = Generator(seed).tree()
        result = outcome(tree, options.kubectl)
        counts[result.verdict] += 1
        if result.verdict in ("same", "both refuse", "explained") or len(shapes) >= options.findings:
            continue
        tree = reduced(tree, options.kubectl, result.verdict)
        result = outcome(tree, options.kubectl)
        shape = re.sub(r"[\w.\"']+", "x", _case(tree, ""))
        if shape in shapes:
            continue
        shapes.add(shape)
        note = "" if result.verdict == "differs" else f"\n{result.error.strip()}"
        print(f"=== seed {seed}: {result.verdict}{note}\n{_case(tree, result.theirs or '')}-- ours --\n{result.ours}")
        if options.out:
            options.out.mkdir(exist_ok=True)
            (options.out / f"{seed}.txt").write_text(_case(tree, result.theirs or ""))
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return int(not counts.keys() <= {"same", "both refuse", "explained"})


if __name__ == "__main__":
    sys.exit(main())
