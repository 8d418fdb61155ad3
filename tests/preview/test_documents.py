"""A comment says what a reviewer needs, and nothing that a hostile change put there is interpreted."""

from __future__ import annotations

import random
import re

import pytest

from gitsync.preview.documents import MARKER, problem_markdown, to_markdown
from gitsync.preview.report import PreviewReport, ReportedChange, ReportedEffect, ReportedField, ReportedStep, TextLine
from tests.preview.factories import deployment, report

HOSTILE = (
    "@everyone <script>alert(1)</script> ![x](https://evil.example/x.png) [a](javascript:alert(1)) #1 "
    "``` ````` `x` ~~~ </details> <!-- --> \u202e\u200b\x1b[31m\n# title\n| a | b |\n\u2028 %0A::error::x"
)


def text_of(hostile: str) -> str:
    field = ReportedField(path=hostile, before=hostile, after=hostile, where=hostile, commit="c" * 40, author=hostile)
    prompt = ReportedField(path=".data.p", lines=(TextLine(mark="+", text=hostile),))
    step = ReportedStep(
        action="update",
        object=hostile,
        risk="Dangerous",
        rule=hostile,
        reason=hostile,
        fields=(field, prompt),
        content={hostile: [hostile]},
    )
    change = ReportedChange(
        roots=(hostile,),
        applications=(hostile,),
        risk="Dangerous",
        problem=hostile,
        base_problem=hostile,
        violations=(hostile,),
        effects=(ReportedEffect(text=hostile, is_loss=True),),
        steps=(step,),
    )
    return to_markdown(
        PreviewReport(base="a" * 40, head="b" * 40, risk="Dangerous", covered=(), unchanged=(), changes=(change,))
    )


def outside_code(markdown: str) -> str:
    """Return the text that is in no fence and no inline code, by the rules of CommonMark."""
    without_fences = re.sub(r"^(`{3,})diff\n.*?\n\1$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", without_fences)


def check(markdown: str, folded: int = 1) -> None:
    plain = outside_code(markdown).removeprefix(MARKER)
    for sign in ("@", "<script", "![", "](", "`", "javascript", "evil"):
        assert sign not in plain
    assert plain.count("<details>") == plain.count("</details>") == folded
    assert all(char.isprintable() or char == "\n" for char in markdown)


def test_text_of_the_change_is_only_in_code() -> None:
    check(text_of(HOSTILE))


def test_random_text_of_the_change_is_only_in_code() -> None:
    pieces = [
        *HOSTILE.split(" "),
        "`",
        "``",
        "\n",
        " ",
        "  `",
        "` ",
        "@a",
        "<b>",
        "\r",
        "\t",
        "``` ",
        "\x00",
        "é",
        "\u202e",
        "\u200b",
    ]
    chosen = random.Random(7)
    for _ in range(2000):
        text = "".join(chosen.choice(pieces) for _ in range(chosen.randint(0, 12))) + chosen.choice(("", "x"))
        check(text_of(text))
        # names of files in conflict
        check(problem_markdown(text, "a" * 40, "b" * 40), folded=0)


def test_it_is_cut_at_the_limit_with_the_number_of_the_rest() -> None:
    base = {f"o{n}/kustomization.yaml": "resources: [d.yaml]" for n in range(20)}
    old = base | {f"o{n}/d.yaml": deployment(f"web-{n}") for n in range(20)}
    new = base | {f"o{n}/d.yaml": deployment(f"web-{n}", replicas=n + 2) for n in range(20)}
    whole = to_markdown(report(old, new))
    text = to_markdown(report(old, new), limit=3000)

    assert len(text) <= 3000 < len(whole)
    shown = text.count("#### ")
    assert f"**{20 - shown} changes more, cut here to fit a comment.**" in text


@pytest.mark.parametrize("limit", range(500, 6000, 500))
def test_every_limit_leaves_whole_blocks(limit: int) -> None:
    base = {"kustomization.yaml": "resources: [d.yaml]", "d.yaml": deployment()}
    text = to_markdown(report(base, {**base, "d.yaml": deployment(replicas=2)}), limit=limit)

    assert text.count("```") % 2 == 0
    assert text.count("<details>") == text.count("</details>")


def test_a_secret_shows_no_value() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: %s}\n"
    base = {"kustomization.yaml": "resources: [s.yaml]", "s.yaml": secret % "canary-one"}
    text = to_markdown(report(base, {**base, "s.yaml": secret % "canary-two"}))

    assert "Secret default/s" in text
    assert "canary" not in text
    assert "Y2FuYXJ5" not in text


def test_nothing_that_is_deployed_changes() -> None:
    base = {"kustomization.yaml": "resources: [d.yaml]", "d.yaml": deployment(), "README.md": "a"}

    assert "nothing that is deployed changes" in to_markdown(report(base, {**base, "README.md": "b"}))
