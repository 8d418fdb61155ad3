"""Texts side by side: numbers of both sides, changed words, folded context."""

from __future__ import annotations

from gitsync.server.queries.text_diff import DiffLine, TextRow, text_diff


def shown(line: DiffLine | None) -> str:
    """Return a line as ``number text``, changed words in brackets."""
    if line is None:
        return ""
    return f"{line.number} " + "".join(f"[{part.text}]" if part.is_changed else part.text for part in line.parts)


def pairs(rows: tuple[TextRow, ...]) -> list[tuple[str, str]]:
    return [(shown(row.before), shown(row.after)) for row in rows if not row.fold and not row.hidden]


def test_changed_words_are_marked_on_both_sides() -> None:
    rows = text_diff("Serve the client with care.\nBe brief.", "Serve the customer with speed.\nBe brief.")
    assert pairs(rows) == [
        ("1 Serve the [client] with [care].", "1 Serve the [customer] with [speed]."),
        ("2 Be brief.", "2 Be brief."),
    ]


def test_lines_that_are_not_alike_are_marked_as_a_whole() -> None:
    assert pairs(text_diff("a: 1\nsame", "zebra crossing!\nsame"))[0] == ("1 [a: 1]", "1 [zebra crossing!]")


def test_added_and_removed_lines_keep_the_numbers_of_their_side() -> None:
    assert pairs(text_diff("one\ntwo\nthree", "one\nthree\nfour")) == [
        ("1 one", "1 one"),
        ("2 two", ""),
        ("3 three", "2 three"),
        ("", "3 four"),
    ]


def test_equal_lines_fold_but_for_three_around_a_change() -> None:
    before = "\n".join(f"line {number}" for number in range(100))
    rows = text_diff(before, before.replace("line 50", "another line"))
    assert [row.hidden for row in rows if row.fold] == [47, 46]
    assert [len(row.fold) for row in rows if row.fold] == [20, 20]
    assert len(pairs(rows)) == 7
    assert text_diff("\n" * 700 + "a", "\n" * 700 + "b")[0].hidden == 697
    assert len(text_diff("\n" * 700 + "a", "\n" * 700 + "b")[0].fold) == 20


def test_a_value_of_one_line_and_other_values_have_no_rows() -> None:
    for before, after in (("a", "b"), (1, 2), ({"a": 1}, "x"), (None, "one")):
        assert text_diff(before, after) == ()


def test_invisible_characters_are_escaped() -> None:
    rows = text_diff("a\nsafe\u202egnp.exe", "a\nb")
    assert "\u202e" not in str(pairs(rows))


def test_rows_beyond_the_limit_are_counted() -> None:
    rows = text_diff("\n".join("ab"), "\n".join("cdefgh"), 4)
    assert (len(pairs(rows)), rows[-1].hidden) == (4, 2)
