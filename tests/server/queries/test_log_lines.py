"""Lines of logs: times, levels, order, and what is left out of them."""

from __future__ import annotations

import pytest

from gitsync.server.queries.log_lines import (
    Level,
    LogFilter,
    LogLine,
    as_text,
    in_order,
    is_probe,
    level_of,
    read_log,
)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ('{"time":"2026-03-01T11:58:00Z","level":"error","msg":"refused"}', Level.ERROR),
        ('{"severity": "WARNING", "message": "slow"}', Level.WARNING),
        ('{"level":"info","msg":"ERROR budget is fine"}', Level.OTHER),
        ('time="2026-03-01" level=warn msg="slow"', Level.WARNING),
        ("E0301 11:58:00.000000       1 reflector.go:138] failed to watch", Level.ERROR),
        ("W0301 11:58:00.000000       1 client.go:40] throttled", Level.WARNING),
        ("I0301 11:58:00.000000       1 main.go:40] ERROR: is a word of the message", Level.OTHER),
        ("2026-03-01 11:58:00,123 [main] ERROR o.e.Shop - refused", Level.ERROR),
        ("2026/03/01 11:58:00 [warn] 29#29: conflicting server name", Level.WARNING),
        ("2026/03/01 11:58:00 [error] 29#29: refused", Level.ERROR),
        ("[main] an error", Level.OTHER),
        ("[2026-03-01] WARN: slow", Level.WARNING),
        ("INFO:     Started after ERROR", Level.OTHER),
        ("ERROR:    [Errno 98] address in use", Level.ERROR),
        ("Traceback (most recent call last):", Level.ERROR),
        ("panic: runtime error: index out of range", Level.ERROR),
        ("fatal error: all goroutines are asleep", Level.ERROR),
        ("Error: connect ECONNREFUSED", Level.ERROR),
        ("warning: deprecated", Level.WARNING),
        ("GET /docs/ERROR 200", Level.OTHER),
        ("no error here", Level.OTHER),
        ("", Level.OTHER),
    ],
)
def test_the_level_of_a_line_is_what_its_logger_wrote(line: str, level: Level) -> None:
    assert level_of(line) is level


def test_lines_have_the_times_of_the_api_server() -> None:
    lines = read_log("2026-03-01T11:58:00.123456789Z 2026-03-01T11:57:59Z started\n2026-03-01T11:58:01Z \n")

    assert [(line.time, line.text) for line in lines] == [
        ("2026-03-01T11:58:00.123456789Z", "2026-03-01T11:57:59Z started"),
        ("2026-03-01T11:58:01Z", ""),
    ]
    assert lines[0].second == "2026-03-01 11:58:00"


def test_times_that_only_some_lines_have_are_part_of_the_text() -> None:
    lines = read_log("2026-03-01T11:58:00Z started\nready\n")

    assert [(line.time, line.text) for line in lines] == [("", "2026-03-01T11:58:00Z started"), ("", "ready")]


def test_an_indented_line_has_the_level_of_the_one_before() -> None:
    lines = read_log('Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n  indented\n')

    assert [line.level for line in lines] == [Level.ERROR, Level.ERROR, Level.OTHER, Level.OTHER]


def test_colours_and_line_ends_of_windows_are_no_text() -> None:
    (line,) = read_log("\x1b[31mERROR\x1b[0m: refused\r\n")

    assert line == LogLine("ERROR: refused", level=Level.ERROR)


def test_an_empty_log_has_no_lines() -> None:
    assert read_log("") == []
    assert as_text([], has_times=True) == ""


def test_lines_of_several_pods_are_in_the_order_of_their_times() -> None:
    web = read_log("2026-03-01T11:58:00.000000002Z third\n2026-03-01T13:58:00.5+02:00 fourth\n", "web")
    db = read_log("2026-03-01T11:58:00.000000001Z second\n2026-03-01T11:57:59Z first\n", "db")

    assert [line.text for line in in_order([web, db])] == ["first", "second", "third", "fourth"]
    assert as_text(in_order([web, db])[:2], has_times=False) == "db first\ndb second\n"
    assert as_text(in_order([web, db])[:1], has_times=True) == "2026-03-01T11:57:59Z db first\n"


def test_logs_without_times_follow_one_another() -> None:
    logs = [read_log("b\n", "web"), read_log("2026-03-01T11:57:59Z a\n", "db")]

    assert [line.text for line in in_order(logs)] == ["b", "a"]


LINES = [
    LogLine("ERROR: refused", pod="web-a", level=Level.ERROR),
    LogLine("WARN: slow", pod="web-b", level=Level.WARNING),
    LogLine('"GET /readyz HTTP/1.1" 200', pod="web-b"),
]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (LogFilter(), [0, 1]),
        (LogFilter(has_probes=True), [0, 1, 2]),
        (LogFilter(text="READYZ"), [2]),
        (LogFilter(text="web-b"), [1, 2]),
        (LogFilter(least=Level.WARNING), [0, 1]),
        (LogFilter(least=Level.ERROR), [0]),
        (LogFilter(text="slow", least=Level.ERROR), []),
    ],
)
def test_a_filter_leaves_the_lines_that_a_user_wants(wanted: LogFilter, shown: list[int]) -> None:
    assert wanted.without_probes(wanted.matching(LINES)) == [LINES[index] for index in shown]


def test_a_long_line_of_a_log_does_not_occupy_the_server() -> None:
    # an expression with two parts that may begin anywhere takes hours for this
    line = '" 200 ' * 1_000_000

    assert not is_probe(line)
    assert not is_probe(f'"kube-probe/1.36{line}')
    assert is_probe(f'{line}"kube-probe/1.36"')
    assert level_of("ERRO" * 1_000_000) is Level.OTHER
    assert level_of(' level="' * 1_000_000) is Level.OTHER
