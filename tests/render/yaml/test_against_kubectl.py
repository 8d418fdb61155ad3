"""
Compare the reader and the writer with ``kubectl kustomize`` on random scalars and documents.

``GITSYNC_FUZZ`` gives the number of scalars (default 2,000; documents are a tenth of it). What is known to
differ is not generated; docs/yaml.md lists it, with the reasons.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write_all

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

COUNT = int(os.environ.get("GITSYNC_FUZZ", "2000"))
HEAD = "apiVersion: v1\nkind: Fuzz\nmetadata:\n  name: %s\n"
WORDS = """
    0 1 7 8 9 00 0x 0b 0o 0X _ . .. e E + - a f n y Y N yes no on off true True TRUE null ~ inf .inf nan .nan : # !
    & * | > % @ ` " ' [ ] { } , = << 2001 -01 -1 T t Z 12:30 12 :59 é word --- ... infinity 0.5 1e400 255 / ( ) $ ^
    9223372036854775807 18446744073709551616 🙂
"""
TOKENS = [*WORDS.split(), " ", "  ", ": ", " #", "- ", "long word ", "x" * 30 + " ", "\t", "\u00a0", "\\"]
DIGITS = [*"0178_.eE+-af:T Z", "00", "0x", "0b", "0o", "30", "2001-", "01", "-1", "10"]
PLAIN = [
    "a",
    "foo  bar",
    "1.5",
    "true",
    "~",
    "v1.2",
    "yes",
    "2001-01-01",
    "http://x/y",
    "a:b",
    "-x",
    "1e3",
    "0755",
    "é",
]
FORMS = ("- %s", "- [%s, b]", "- {%s: 1}", "- {a: %s}", "- %s: v", "- k: %s", "- - %s")


def kustomize(folder: Path, texts: Sequence[str]) -> str | None:
    """Return what kubectl prints for these files, None when it refuses one of them."""
    names = [f"{index}.yaml" for index in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_bytes(text.encode())
    (folder / "kustomization.yaml").write_text(f"resources: [{', '.join(names)}]\n")
    run = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, check=False)
    return run.stdout.decode() if run.returncode == 0 else None


def ours(texts: Sequence[str]) -> str | None:
    """Return what we print for these files, None when we refuse one of them."""
    try:
        return write_all(document for text in texts for document in read_all(text))
    except InvalidInput:
        return None


def differing(folder: Path, texts: list[str]) -> Iterator[str]:
    """Yield the texts that kubectl and we print, or refuse, differently."""
    theirs, mine = kustomize(folder, texts), ours(texts)
    if theirs == mine is not None:
        return
    if len(texts) == 1:
        if theirs != mine:
            yield f"{texts[0]}\n=== kubectl\n{theirs}\n=== ours\n{mine}"
        return
    middle = len(texts) // 2
    yield from differing(folder, texts[:middle])
    yield from differing(folder, texts[middle:])


def stamp(rng: random.Random) -> str:
    date = "-".join(map(rng.choice, (("2001", "0001", "999"), ("1", "12", "13", "02"), ("1", "29", "31"))))
    time = f"{rng.choice(('1', '23', '24'))}:{rng.choice(('0', '59'))}:{rng.choice(('09', '60'))}"
    zone = rng.choice(("", "Z", "z", "+00:00", "-05:30", "+5", "+05:60", " Z"))
    return rng.choice((date, date + rng.choice("Tt ") + time + rng.choice(("", ".5", ".000", ",5", ".")) + zone))


def scalar(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.15:
        text = stamp(rng)
    elif kind < 0.45:
        text = "".join(rng.choices(DIGITS, k=rng.randint(1, 7)))
    else:
        text = "".join(rng.choices(TOKENS, k=rng.choice((1, 2, 2, 3, 4, 6, 12))))
    style = rng.random()
    if style < 0.7:
        return text.replace("!", "1")
    if style < 0.85:
        return "'" + text.replace("'", "''").replace("<<", "<") + "'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("<<", "<") + '"'


def test_scalars_are_printed_as_kubectl_prints_them(tmp_path: Path) -> None:
    rng = random.Random(20_000)
    accepted, refused = [], []
    for index in range(COUNT):
        text = f"{HEAD % f'a{index}'}x:\n{rng.choice(FORMS) % scalar(rng)}\n"
        (refused if ours([text]) is None else accepted).append(text)
    differences = [
        difference
        for start in range(0, len(accepted), 500)
        for difference in differing(tmp_path, accepted[start : start + 500])
    ]
    differences += [text for text in refused[:25] if kustomize(tmp_path, [text]) is not None]
    assert len(accepted) > COUNT // 2
    assert not differences, "\n\n".join(differences)


class Documents:
    """Write random documents in all the styles that people use, with anchors, comments and blank lines."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.anchors: list[str] = []
        self.keys = 0

    def document(self, name: str) -> str:
        self.anchors = []
        return f"{HEAD % name}x:\n{self.mapping(2, 3)}"

    def mapping(self, indent: int, depth: int) -> str:
        return "".join(
            f"{self.gap(indent)}{' ' * indent}{self.key()}:{self.value(indent, depth)}"
            for _ in range(self.rng.randint(1, 4))
        )

    def sequence(self, indent: int, depth: int) -> str:
        return "".join(
            f"{self.gap(indent)}{' ' * indent}-{self.item(indent, depth)}" for _ in range(self.rng.randint(1, 4))
        )

    def item(self, indent: int, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.5:
            return self.value(indent, 0)
        spaces = self.rng.choice((1, 1, 3))
        inner = self.rng.choice((self.mapping, self.sequence))(indent + 1 + spaces, depth - 1)
        return f"{' ' * spaces}{inner.lstrip()}" if inner.lstrip()[0] != "#" else f"\n{inner}"

    def value(self, indent: int, depth: int) -> str:
        choice = self.rng.random()
        if self.anchors and choice < 0.06:
            return f" *{self.rng.choice(self.anchors)}{self.note()}\n"
        anchor = f"n{self.keys}" if self.rng.random() < 0.1 else ""
        head = f" &{anchor}" if anchor else ""
        if depth <= 0 or choice < 0.4:
            text = f"{head} {self.scalar(indent)}\n"
        elif choice < 0.6:
            text = f"{head} {self.flow(indent, 2)}\n"
        elif choice < 0.8:
            text = f"{head}{self.note()}\n{self.mapping(indent + self.rng.choice((1, 2, 4)), depth - 1)}"
        else:
            text = f"{head}{self.note()}\n{self.sequence(indent + self.rng.choice((0, 2)), depth - 1)}"
        self.anchors += [anchor] if anchor else []
        return text

    def scalar(self, indent: int) -> str:
        pad = "\n" + " " * (indent + self.rng.randint(1, 3))
        return self.rng.choice(
            (
                self.plain() + self.note(),
                "'it''s '" + self.note(),
                f"one{pad}two three{pad}- x",
                f"'one {pad} # no\n{pad}it''s '",
                f'"a\\n{pad} b\n\n{pad}c \\{pad}\\td "',
                self.block(indent),
            )
        )

    def block(self, indent: int) -> str:
        digit = self.rng.choice(("", "", "", "1", "2"))
        pad = " " * (indent + int(digit or self.rng.choice("124")))
        lines = ["text", "more text ", "- item", "k: v", "# no", "  deeper", "\ttab", "word " * 20 + "end", "it's", "é"]
        body = [line and pad + line for line in self.rng.choices([*lines, "", ""], k=self.rng.randint(1, 6))]
        first = f"{pad}{'  ' if digit else ''}first"
        return "\n".join((self.rng.choice("|>") + digit + self.rng.choice(("", "-", "+")), first, *body))

    def flow(self, indent: int, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.4:
            return self.rng.choice((self.plain(), '"q\\t"', "'s, '"))
        comma = self.rng.choice((",", ", ", ",\n" + " " * (indent + 3), f", # c\n{' ' * (indent + 2)}"))
        items = [self.flow(indent, depth - 1) for _ in range(self.rng.randint(0, 3))]
        if self.rng.random() < 0.5:
            return f"[{comma.join(items)}]"
        return f"{{{comma.join(f'{self.key()}: {item}' for item in items)}}}"

    def plain(self) -> str:
        return self.rng.choice(PLAIN)

    def key(self) -> str:
        self.keys += 1
        return self.rng.choice(("k%d", "a.b/c%d", "A-%d", "x y%d", '"q%d"', "'s%d'")) % self.keys

    def note(self) -> str:
        return self.rng.choice(("", "", "", " # note", "  # x: y"))

    def gap(self, indent: int) -> str:
        return self.rng.choice(("", "", "", "", "\n", "# c\n", f"{' ' * indent}# in\n", "   \n"))


def test_documents_are_printed_as_kubectl_prints_them(tmp_path: Path) -> None:
    documents = Documents(random.Random(2_000))
    texts = [documents.document(f"a{index}") for index in range(COUNT // 10)]
    accepted = [text for text in texts if ours([text]) is not None]
    differences = [
        difference
        for start in range(0, len(accepted), 50)
        for difference in differing(tmp_path, accepted[start : start + 50])
        if "\n=== kubectl\nNone\n" not in difference  # its own writer made what it cannot read
    ]
    assert len(accepted) > len(texts) // 2
    assert not differences, "\n\n".join(differences)
