"""The audit of dependencies fails for a vulnerable one, and is skipped only where nothing could be audited."""

from __future__ import annotations

import pytest

from tools.audit_dependencies import report

SOUND = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "not found"}
VULNERABLE = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1"}]}


@pytest.mark.parametrize(
    ("dependencies", "code", "says"),
    [
        ([SOUND, UNKNOWN], 0, "1 of 2 dependencies audited, 0 vulnerabilities"),
        ([SOUND, VULNERABLE], 1, "c 2: PYSEC-1"),
        ([UNKNOWN], 0, "skipped, its data is not reachable: not found"),
    ],
)
def test_a_vulnerability_fails_the_check(
    dependencies: list[dict[str, object]], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(dependencies) == code
    assert says in capsys.readouterr().out
