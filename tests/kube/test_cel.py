"""Expressions of users: what they may cost."""

from __future__ import annotations

import pytest

from gitsync.kube import cel

DOUBLED_TEXT = "['" + "x" * 64 + "']" + ".map(a, a + a)" * 24 + ".exists(a, a == '')"
DOUBLED_LIST = "[[1]]" + ".map(a, [a, a])" * 24 + " == [[1]]"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(DOUBLED_TEXT, id="text"),
        pytest.param(DOUBLED_LIST, id="lists"),
        pytest.param("['x'].map(a, [a].map(b, b + b + b + b)[0] + a + a + a) == ['x']", id="nested"),
        pytest.param("['x'].map(a, a+a+a+a+a+a+a+a+a) == []", id="many in one"),
        pytest.param("['x'] . map ( a , [a,a,a] ) .filter(b, b == b)\n.map(c, {'k': c, 'l': c}) == []", id="spaces"),
        pytest.param(" + ".join(["object.data.k"] * 10) + " == ''", id="concatenations"),
        pytest.param(r"[r'\'].map(a, [a,a,a,a,a,a,a,a,a]) == ['']", id="after a raw literal"),
        pytest.param("// '''\n['x'].map(a, [a,a,a,a,a,a,a,a,a]) == [] // '''", id="between comments with quotes"),
        pytest.param(r"['\''].map(a, [a,a,a,a,a,a,a,a,a]) == ['\'']", id="after an escaped quote"),
        pytest.param('["""\'"""].map(a, [a,a,a,a,a,a,a,a,a]) == [b""]', id="after three quotes"),
    ],
)
def test_an_expression_whose_values_grow_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"size|grow"):
        cel.holds(expression, {"data": {"k": "x"}})


@pytest.mark.parametrize(
    "expression",
    [
        "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True' && c.reason != '')",
        "object.status.conditions.filter(c, c.type == 'Ready').map(c, c.status)[0] == 'True'",
        "object.spec.items.map(i, i.a + i.b).filter(i, i > 1).size() == 1",
        "object.metadata.name == 'a+a+a+a+a+a+a+a+a+a+a' || object.spec.n + 1 == 2",
        "object.spec.items.all(i, i.a == 1 && i.a == 1 && i.b == 1 && i.b == 1 && i.a == 1 && i.a == 1)",
    ],
)
def test_an_ordinary_expression_is_evaluated(expression: str) -> None:
    value = {
        "metadata": {"name": "x"},
        "spec": {"n": 1, "items": [{"a": 1, "b": 1}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
    }

    assert cel.holds(expression, value)


def test_iterations_have_a_limit() -> None:
    assert not cel.holds("object.l.all(a, object.l.all(b, a == b))", {"l": [1] * 300})


TEN = "[0,1,2,3,4,5,6,7,8,9]"


@pytest.mark.parametrize(
    ("expression", "iterations"),
    [
        ("object.data.a == 'a'", 1),
        ("object.items.all(i, i == 'b')", 10),
        ("object.items.exists(i, i == 'b') && object.items.exists(i, i == 'c')", 10),
        (f"{TEN}.all(i, {TEN}.all(j, object.data.a.contains('b')))", 21**2),
        (f"{TEN}.all(i, {TEN}.all(j, {TEN}.all(k, {TEN}.all(l, true))))", 10_000),
        ("object.data.a == '.all(i, .all(j, '", 1),
    ],
)
def test_the_work_of_an_expression_is_bounded_by_its_iterations(expression: str, iterations: int) -> None:
    value = {"data": {"a": "x" * 1000}, "items": ["b"] * 10}
    assert cel.work_of(expression, value) == iterations * 1020
