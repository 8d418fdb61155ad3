"""
Further controller processes of ``gitsync run --processes``, and the entry of one: ``python -m`` this module.

Such a process has no dashboard. It reads its settings from the first line of its standard input, answers each further
line with its metrics and costs, and stops when that ends: however the first process ends, no other one is left. When
it ends by itself, it is started again.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

import orjson
from pydantic import SecretStr

from gitsync.cli.data_folder import lock_data
from gitsync.cli.errors import exit_on_error
from gitsync.cli.output import Exit
from gitsync.ports import Cost, OtherProcesses, ProcessReport, Spent
from gitsync.runtime.controller import Manager
from gitsync.runtime.logs import configure, toggle_debug_on_signal
from gitsync.server.metrics import process_text
from gitsync.settings import Settings
from gitsync.wiring import Engine, ProcessGroup, build_controller, group_name

_log = logging.getLogger(__name__)
_RESTART_DELAY = 5.0
"""Seconds between the end of a process and its next start."""
_POLL = 0.2
"""Seconds between two checks that a process runs."""
_STOP_SECONDS = 60.0
"""Seconds after which a process that does not stop is killed."""
_CHUNK = 1 << 20
_MOST_OPEN = 100
"""Questions without an answer after which a process gets no more of them, as its input would fill."""


class ChildProcess:
    """
    Run a command that gets ``message`` as the first line of its standard input, and stops when that input ends.

    The system ends the input however this process ends. The child has a session of its own, so that Ctrl-C in a
    terminal reaches only this process, which then stops it in order. Further lines of its input are questions, which
    it answers on its standard output.
    """

    def __init__(self, name: str, command: Sequence[str], message: bytes, *, delay: float = _RESTART_DELAY) -> None:
        self._name = name
        self._command = tuple(command)
        self._message = message
        self._delay = delay
        self._stopped = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._questions: Questions | None = None
        self._asking = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def id(self) -> int | None:
        """The id of the process, None before its start."""
        return self._process.pid if self._process is not None else None

    def ask(self, seconds: float) -> bytes | None:
        """Return the line by which the process answers a line; None where it does not, in time."""
        with self._asking:
            return self._questions.ask(seconds) if self._questions is not None else None

    def start(self) -> None:
        """Start the process, and the thread that keeps it."""
        self._process = self._begin()
        self._thread.start()

    def stop(self) -> None:
        """End the input of the process, and return once it has ended."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _begin(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )  # Ctrl-C is for this one
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already
            process.stdin.write(self._message + b"\n")
            process.stdin.flush()
        self._questions = Questions(process)
        return process

    def _keep(self) -> None:
        while self._process is not None and self._has_failed(self._process):
            _log.warning("%s ended with code %s and is started again", self._name, self._process.returncode)
            self._end(self._process)
            if self._stopped.wait(self._delay):
                return
            try:
                self._process = self._begin()
            except OSError as error:  # such as a limit of processes: the next attempt may succeed
                _log.warning("%s cannot be started: %s", self._name, error)

    def _has_failed(self, process: subprocess.Popen[bytes]) -> bool:
        """Return True once the process has ended by itself, False once it was stopped."""
        while not self._stopped.wait(_POLL):
            if process.poll() is not None:
                return True
        self._end(process)
        return False

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End input and output of a process, and return once it has ended."""
        # after a question that is being asked, which must not read from a closed pipe
        with self._asking:
            self._questions = None
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()  # type: ignore[union-attr]
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Questions:
    """
    Ask a process, by one thread at a time; a question is a number, and its answer a line that begins with it.

    So an answer that comes too late is not taken for that of the next question.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._asked = self._answered = 0
        self._rest = b""

    def ask(self, seconds: float) -> bytes | None:
        """Return the answer to a question; None where the process has ended or does not answer in time."""
        give_up = time.monotonic() + seconds
        questions = self._process.stdin
        if questions is None:
            return None
        try:
            self._answer(b"", 0.0)  # reads those that came too late
            if self._asked - self._answered >= _MOST_OPEN:
                return None
            self._asked += 1
            number = b"%d" % self._asked
            questions.write(number + b"\n")
            questions.flush()
            return self._answer(number, give_up)
        except (OSError, ValueError):  # it has ended, or is being stopped
            return None

    def _answer(self, number: bytes, give_up: float) -> bytes | None:
        while (line := self._line(give_up)) is not None:
            # a line that is not an answer is a ValueError, as a closed pipe is
            answered, _, answer = line.partition(b" ")
            self._answered = int(answered)
            if answered == number:
                return answer
        return None

    def _line(self, give_up: float) -> bytes | None:
        output = self._process.stdout
        while output is not None and b"\n" not in self._rest:
            if not _is_readable(output, give_up - time.monotonic()):
                return None
            # what has arrived: a buffered read would wait for a whole chunk, and poll() would not see what it keeps
            chunk = os.read(output.fileno(), _CHUNK)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def answer_until_end(questions: Iterable[bytes], output: IO[bytes], report: Callable[[], bytes]) -> None:
    """Answer each question by a report without line breaks, until the input ends or no one reads the answers."""
    with suppress(BrokenPipeError):
        for line in questions:
            output.write(line.strip() + b" " + report() + b"\n")
            output.flush()


def _is_readable(output: IO[bytes], seconds: float) -> bool:
    # not select(), which refuses descriptors from 1,024 on
    poll = select.poll()
    poll.register(output, select.POLLIN)
    return bool(poll.poll(max(seconds, 0.0) * 1000))


# -P: a file gitsync.py in the current folder must not be imported instead
_COMMAND = (sys.executable, "-P", "-m", "gitsync.cli.further_processes")
_OF_THE_FIRST = {"install_crds": False, "users": None, "audit_days": 0, "audit_records": 0}
"""Settings without what only the first process does."""
_REPORT_SECONDS = 2.0
"""Seconds in which a process has to report."""


@contextmanager
def further_processes(settings: Settings) -> Iterator[list[ChildProcess]]:
    """Run the processes of the settings beside this one, which is one of them."""
    group = group_name(settings) if settings.processes > 1 else ""
    numbers = range(2, settings.processes + 1)
    children = [ChildProcess(f"process-{number}", _COMMAND, message(settings, group, number)) for number in numbers]
    manager = Manager([*children])
    manager.start()
    try:
        yield children
    finally:
        manager.stop()


def message(settings: Settings, group: str, number: int) -> bytes:
    """Return the settings of a process, without the secrets that only the dashboard uses, and its group."""
    secrets = {name for name in Settings.model_fields if isinstance(getattr(settings, name), SecretStr)}
    own = {
        # each process locks a data folder of its own; the database is shared
        "data": str(settings.data / "processes" / str(number)),
        "database": settings.database_url,
        # the processes share the cores of one machine
        "render_workers": max(settings.render_workers // settings.processes, 1),
    }
    kept = settings.model_dump(mode="json", exclude=secrets)
    return orjson.dumps({"settings": kept | _OF_THE_FIRST | own, "group": group, "data": str(settings.data)})


@exit_on_error
def main() -> Exit:
    """Run the controller that the first line describes until the input ends."""
    configure(sys.stderr)
    answers = _own_output()
    message = orjson.loads(sys.stdin.buffer.readline())
    settings = Settings(**message["settings"])
    configure(sys.stderr, settings.log_level)
    toggle_debug_on_signal()
    with lock_data(settings.data):
        controller = build_controller(settings, group=ProcessGroup(message["group"], Path(message["data"])))
        try:
            controller.start()
            answer_until_end(sys.stdin.buffer, answers, partial(report_of, controller))
        finally:
            controller.stop()
    return Exit.OK


def _own_output() -> IO[bytes]:
    """Return the standard output for answers alone: whatever else is printed goes to the log."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a print of a library would be taken for an answer
    return answers


def report_of(engine: Engine) -> bytes:
    """Return what this process measured."""
    costs = {view.key: engine.view.cost(view.key) for view in engine.view.applications()}
    return orjson.dumps(
        {
            "metrics": process_text(engine, has_applications=engine.is_replica),
            "costs": {key: _to_json(cost) for key, cost in costs.items() if cost != Cost()},
        }
    )


def reports_of(children: Iterable[ChildProcess]) -> OtherProcesses:
    """Return what asks these processes for their reports."""
    return lambda: tuple(_report(child) for child in children)


def _report(child: ChildProcess) -> ProcessReport:
    number = child.name.rpartition("-")[2]
    answer = child.ask(_REPORT_SECONDS)
    if answer is None:
        return ProcessReport(number, is_up=False)
    report = orjson.loads(answer)
    return ProcessReport(number, report["metrics"], {key: _of_json(cost) for key, cost in report["costs"].items()})


def _to_json(cost: Cost) -> dict[str, object]:
    stages = {name: list(spent) for name, spent in cost.stages.items()}
    return {"full": cost.full, "partial": cost.partial, "requests": cost.requests, "stages": stages}


def _of_json(members: dict[str, object]) -> Cost:
    cost = Cost(**members)  # type: ignore[arg-type]
    return Cost(cost.full, cost.partial, cost.requests, {name: Spent(*spent) for name, spent in cost.stages.items()})


if __name__ == "__main__":
    main()
