"""
Fuzz one target: ``python -m tests.fuzz NAME --seconds 600``; exit code 1 with the smallest input that fails.

Inputs are those of the corpus with edits that Hypothesis chooses. An input fails by an exception that no user should
see, by a second of processor time, or by 256 MiB more memory.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"
SECONDS, MEMORY = 1.0, 256 << 20
_ROUND = 500
"""Inputs between two readings of the clock."""
_LONGEST = 20_000
Edit = tuple[str, int, int, bytes]


class TooSlow(Exception):
    """An input took more processor time than it may."""


def edited(text: bytes, edits: Sequence[Edit]) -> bytes:
    """Return a text with edits at places that are taken modulo its length."""
    for kind, at, length, token in edits:
        start = at % (len(text) + 1)
        end = min(start + length, len(text))
        match kind:
            case "insert":
                text = text[:start] + token + text[start:]
            case "replace":
                text = text[:start] + token + text[start + len(token) :]
            case "delete":
                text = text[:start] + text[end:]
            case "repeat":
                text = text[:start] + text[start:end] * (1 + at % 60) + text[end:]
            case "move":
                text = text[end:] + text[start:end] + text[:start]
        text = text[:_LONGEST]
    return text


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Return edited texts of a corpus; tokens are its words, and bytes."""
    texts = [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]
    words = sorted({word for text in texts for word in text.split()})
    tokens = st.sampled_from(words) | st.binary(max_size=6) | st.sampled_from([b"\n", b" ", b"\x00", b"\xff", b"- "])
    kinds = st.sampled_from(["insert", "replace", "delete", "repeat", "move"])
    edit = st.tuples(kinds, st.integers(0, _LONGEST), st.integers(0, 400), tokens)
    return st.builds(edited, st.sampled_from(texts), st.lists(edit, max_size=12))


def _stop(number: int, frame: object) -> None:
    raise TooSlow


def check(target: Target, data: bytes) -> None:
    """Give an input to a target; raise TooSlow, or what the target should not raise."""
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, 3 * SECONDS)
    began = time.thread_time()
    try:
        target(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if time.thread_time() - began > SECONDS:
        raise TooSlow


def fuzz(name: str, seconds: float, first_seed: int) -> int:
    """Run a target until the time is over, and return the number of inputs."""
    target, count = TARGETS[name](), 0
    for file in sorted((CORPUS / name).iterdir()):
        target(file.read_bytes())  # what is imported and compiled once does not count
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + MEMORY, virtual + MEMORY))
    give_up = time.monotonic() + seconds
    number = first_seed
    while time.monotonic() < give_up:

        @seed(number)
        @settings(
            max_examples=_ROUND, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(inputs(name))
        def one_round(data: bytes) -> None:
            nonlocal count
            if time.monotonic() < give_up:
                count += 1
                check(target, data)

        one_round()
        number += 1
    return count


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    given_arguments = parser.parse_args()
    count = fuzz(given_arguments.name, given_arguments.seconds, given_arguments.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{given_arguments.name}: {count} inputs, no failure, at most {peak} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
