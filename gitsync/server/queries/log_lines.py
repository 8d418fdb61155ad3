"""Lines of the logs of Pods: their times and levels, their order by time, and those that a user wants to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Level(StrEnum):
    """How serious a line of a log is."""

    ERROR = "error"
    WARNING = "warning"
    OTHER = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log; ``pod`` is empty where it is the only one, ``time`` (RFC 3339) where it is not known."""

    text: str
    time: str = ""
    pod: str = ""
    level: Level = Level.OTHER

    @property
    def second(self) -> str:
        """The time to the second, without its zone: the API server's times are in UTC."""
        return self.time[:19].replace("T", " ")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """
    What a user wants to read of a log.

    ``text`` is searched in any case. ``least`` ERROR leaves out warnings, OTHER nothing. A search reads all lines; else
    those of probes that succeeded are left out, unless ``has_probes``.
    """

    text: str = ""
    least: Level = Level.OTHER
    has_probes: bool = False

    def matching(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Return the lines that have the text and the level."""
        levels = _AT_LEAST[self.least]
        needle = self.text.casefold()
        return [line for line in lines if line.level in levels and needle in f"{line.pod} {line.text}".casefold()]

    def without_probes(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """Return the lines that are shown of those that match."""
        return list(lines) if self.text or self.has_probes else [line for line in lines if not is_probe(line.text)]


_AT_LEAST = {
    Level.ERROR: frozenset({Level.ERROR}),
    Level.WARNING: frozenset({Level.ERROR, Level.WARNING}),
    Level.OTHER: frozenset(Level),
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ?")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""What colours the text of a terminal (ECMA-48, SGR)."""
_HEAD = 200
"""Characters of a line that are searched for its level, so that a long line costs no more than a short one."""
_MEMBER = re.compile(r"""["']?\b(?:level|lvl|severity|levelname)["']?\s*[:=]\s*["']?(\w+)""", re.IGNORECASE)
"""The level of a structured log: a member of JSON, or ``level=error``."""
_KLOG = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d")
"""The header of a line of klog, which the components of Kubernetes write."""
_WORD = re.compile(
    r"(?<![\w/])(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERR|ERROR|CRITICAL|FATAL|SEVERE|PANIC"
    # in lower case only in brackets, as nginx and Apache write it
    r"|(?<=\[)(?:debug|info|notice|warn|error|crit|alert|emerg))(?=[\s:\]|)]|$)"
)
"""The level as a word in capitals, after times and names: the first one counts, a message may have others."""
_START = re.compile(r"(Traceback \(most|panic|fatal|error|warning)(?:: | error: | recent call last)", re.IGNORECASE)
_LEVELS = {
    **dict.fromkeys(("error", "err", "critical", "crit", "fatal", "severe", "panic", "alert", "emerg"), Level.ERROR),
    **dict.fromkeys(("e", "f", "traceback (most"), Level.ERROR),
    **dict.fromkeys(("warn", "warning", "w"), Level.WARNING),
}
_PROBED = re.compile(
    # what kubelets and load balancers ask for, answered by 2xx: a failed probe is worth reading
    r'"(?:GET|HEAD) /(?:healthz?|readyz?|livez|live|liveness|readiness|startupz?|ping)(?:[/?][^ ]*)? HTTP/[\d.]+" 2\d\d'
)
_ANSWERED = re.compile(r'" 2\d\d ')


def read_log(text: str, pod: str = "") -> list[LogLine]:
    """
    Return the lines of a log that was read with times.

    The times are those of the API server only where all lines have one: the sandbox does not know when a process wrote
    a line, and a program may print times itself. An indented line, as of a traceback, has the level of the one before.
    """
    # a line ends at LF alone, as for kubectl: other separators, such as those of Unicode, are content
    raw_lines = [line.removesuffix("\r") for line in _COLOUR.sub("", text).removesuffix("\n").split("\n") if text]
    matches = [_TIME.match(line) for line in raw_lines]
    has_times = all(matches)
    lines: list[LogLine] = []
    for raw, match in zip(raw_lines, matches, strict=True):
        content = raw[match.end() :] if match and has_times else raw
        level = lines[-1].level if lines and content[:1].isspace() else level_of(content)
        lines.append(LogLine(content, match.group(1) if match and has_times else "", pod, level))
    return lines


def in_order(logs: Sequence[list[LogLine]]) -> list[LogLine]:
    """Return the lines of several logs by time; one log after another where a time is not known."""
    lines = [line for log in logs for line in log]
    if not all(line.time for line in lines):
        return lines
    # stable: lines of one nanosecond keep the order of their log
    return sorted(lines, key=_moment)


def _moment(line: LogLine) -> tuple[datetime, str]:
    # Python keeps microseconds; the digits of nanoseconds decide between lines of one of them
    digits = re.search(r"\.(\d+)", line.time)
    return datetime.fromisoformat(line.time), digits.group(1).ljust(9, "0") if digits else ""


def level_of(line: str) -> Level:
    """Return the level of a line by what loggers write at its start; OTHER where there is none."""
    head = line[:_HEAD]
    match = _KLOG.match(head) or _START.match(head) or _MEMBER.search(head) or _WORD.search(head)
    return _LEVELS.get(match.group(1).casefold(), Level.OTHER) if match else Level.OTHER


def is_probe(line: str) -> bool:
    """Return whether a line of an access log records a probe that succeeded."""
    # A search for both in one expression takes quadratic time in a line of half a megabyte, which a Pod can write.
    answered = _ANSWERED.search(line, 0, max(line.rfind("kube-probe/"), 0))
    return answered is not None or _PROBED.search(line) is not None


def as_text(lines: Iterable[LogLine], *, has_times: bool) -> str:
    """Return lines as a text file, each with its time where wanted and known, and its Pod where there are several."""
    parts = ((line.time if has_times else "", line.pod, line.text) for line in lines)
    return "".join(" ".join(filter(None, part)) + "\n" for part in parts)
