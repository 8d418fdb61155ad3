"""
HelmProgram: the ``helm`` program as the renderer of charts, without network, credentials, files and cluster.

It reads the chart from an archive in memory, since a render process may write no files, and values from pipes.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import mmap
import os
import posixpath
import re
import resource
import select
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.charts import ChartFile, ChartOptions, HelmFailed

PROGRAM: Final = "helm"
_ARCHIVE_BYTES: Final = 48 << 20
"""Room for the archive of the largest chart, 32 MiB, with the headers of its files."""
_OUTPUT_BYTES: Final = 32 << 20
_ERROR_BYTES: Final = 1 << 20
_SECONDS: Final = 60.0
"""Most charts take less than 1 s; a render process has a shorter limit of its own, by which it is killed."""
_MEMORY: Final = 512 << 20
_CHUNK: Final = 1 << 16
_NOWHERE: Final = "/nonexistent"
"""The home of users without one, as Debian has it (base-passwd); /dev/null/none would be an error of its own."""
# Helm reads and writes below these; none of them may name a folder of ours. A proxy that nothing listens at refuses the
# connection that a chart without an archive of its own would be fetched by.
_ENVIRONMENT: Final = {
    "HOME": _NOWHERE,
    **dict.fromkeys(
        (
            *("HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME", "HELM_PLUGINS", "HELM_REGISTRY_CONFIG"),
            *("HELM_REPOSITORY_CONFIG", "HELM_REPOSITORY_CACHE", "HELM_CONTENT_CACHE"),
        ),
        _NOWHERE,
    ),
    "KUBECONFIG": os.devnull,
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
    "GOMAXPROCS": "2",
    # Most of a render is the start of the program, which allocates much that stays: a fifth of its time was the search
    # for garbage there.
    "GOGC": "400",
    # Collect garbage more often before the limit ends the process.
    "GOMEMLIMIT": str(_MEMORY * 3 // 4),
}
_REASON: Final = re.compile(r"(?ms)^Error: (.*?)(?:\s*Use --debug flag .*)?\Z")
_SCHEMA: Final = "values.schema.json"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef", "$schema")
"""What in a JSON schema Helm opens; ``_INSIDE`` begins what is in the schema itself, or in the program."""
_INSIDE: Final = ("#", "http://json-schema.org/", "https://json-schema.org/")
_OUT_OF_MEMORY: Final = (b"out of memory", b"cannot allocate memory", b"failed to reserve")


class HelmProgram:
    """
    Implement ``gitsync.objects.charts.Helm`` with the program that is found on PATH; for one render at a time.

    Make it before a process sets its limits: the archive in memory cannot grow under a limit on the size of files.
    """

    def __init__(self) -> None:
        self._archive = -1
        self._owner = 0

    def prepare(self) -> None:
        """Reserve the archive, which takes no memory until a chart is written into it."""
        # A fork shares the archive of its parent, and would write into it at the same time.
        if self._owner == os.getpid():
            return
        self._archive = os.memfd_create("chart", os.MFD_CLOEXEC)
        os.ftruncate(self._archive, _ARCHIVE_BYTES)
        self._owner = os.getpid()

    def template(self, chart: tuple[ChartFile, ...], values: tuple[ChartFile, ...], options: ChartOptions) -> bytes:
        """Return what ``helm template`` prints; see the port."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise InvalidInput(
                f"the folder is a Helm chart, and the program {PROGRAM} is not on PATH",
                hint="install Helm 3 or 4 beside gitsync (https://helm.sh/docs/intro/install), or commit the output "
                "of 'helm template'",
            )
        self.prepare()
        archive = _archive(tuple(map(_checked, chart)))
        if len(archive) > _ARCHIVE_BYTES:
            raise InvalidInput(f"the chart is larger than the limit of {_ARCHIVE_BYTES >> 20} MiB")
        with mmap.mmap(self._archive, _ARCHIVE_BYTES) as memory, _pipes(values) as pipes:
            memory[: len(archive)] = archive
            try:
                command = [program, *_arguments(f"/proc/self/fd/{self._archive}", pipes, options)]
                code, output, errors = _run(command, (self._archive, *pipes))
            finally:
                # gives the pages back; the file keeps its size
                memory.madvise(mmap.MADV_REMOVE)
        if code:
            raise _failure(code, errors, dict(zip(pipes, values, strict=True)))
        return output

    def __del__(self) -> None:
        """Close the archive."""
        if self._owner == os.getpid():
            # the interpreter may be shutting down
            with contextlib.suppress(OSError):
                os.close(self._archive)


def helm_fingerprint() -> str:
    """Return a text that differs between versions of the program, empty where there is none."""
    program = shutil.which(PROGRAM)
    if program is None:
        return ""
    facts = Path(program).stat()
    return f"{PROGRAM} {facts.st_size} {facts.st_mtime_ns}"


def _archive(chart: Sequence[ChartFile]) -> bytes:
    """Return a chart as ``helm package`` packs it."""
    # late: few processes render a chart
    import gzip
    import tarfile

    # Not compressed: it is read once, by the process beside this one.
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=0, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in chart:
            entry = tarfile.TarInfo(f"chart/{file.path}")
            entry.size = len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))
    return buffer.getvalue()


def _checked(file: ChartFile) -> ChartFile:
    """
    Return a file of a chart as Helm gets it; raise InvalidInput for a schema that refers to anything but itself.

    Helm opens what a schema refers to, also files of this machine and servers on loopback, and its errors quote it.
    """
    folder, name = posixpath.split(file.path)
    if name == _SCHEMA:
        _check_schema(file)
    if posixpath.basename(folder) != "charts" or not name.endswith(".tgz"):
        return file
    # Packed again: of an archive that is not well-formed, Helm might read other files than those that were checked.
    return file._replace(content=_archive(tuple(map(_checked, _unpacked(file)))))


def _unpacked(file: ChartFile) -> Iterator[ChartFile]:
    """Yield the files of a dependency in an archive, as Helm names them (``archive.LoadArchiveFiles``)."""
    # late, as in _archive
    import gzip
    import tarfile

    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(file.content)).read(_ARCHIVE_BYTES + 1)
        if len(content) > _ARCHIVE_BYTES:
            raise InvalidInput(f"{file.path} is larger than the limit of {_ARCHIVE_BYTES >> 20} MiB, unpacked")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                packed = archive.extractfile(entry) if entry.isreg() else None
                if packed is not None:
                    path = posixpath.normpath(entry.name.replace("\\", "/").partition("/")[2])
                    yield ChartFile(path, packed.read())
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise InvalidInput(
            f"{file.path} is not an archive of a chart: {error}", hint="run 'helm dependency build' again"
        ) from None


def _check_schema(file: ChartFile) -> None:
    try:
        pending = [orjson.loads(file.content)]
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{file.path} is not JSON: {error}", hint="correct the schema") from None
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += item.values()
            for key in _REFERENCES:
                reference = item.get(key, "#")
                if isinstance(reference, str) and not reference.startswith(_INSIDE):
                    raise InvalidInput(
                        f"{key} of {file.path} refers to {reference}, and schemas are not downloaded",
                        hint="copy what it refers to into $defs of the schema",
                    )


@contextlib.contextmanager
def _pipes(values: Sequence[ChartFile]) -> Iterator[tuple[int, ...]]:
    """Yield pipes that hold the values, which the program reads to their end."""
    with contextlib.ExitStack() as stack:
        pipes: list[int] = []
        for file in values:
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            pipes.append(reading)
            with os.fdopen(writing, "wb", buffering=0) as end:
                try:
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, max(len(file.content), 1))
                # Of the user: all of their pipes together have a limit (pipe(7)).
                except OSError as error:
                    raise SourceUnavailable(f"no pipe can be made for the values: {error.strerror}") from error
                end.write(file.content)
        yield tuple(pipes)


def _arguments(chart: str, pipes: Sequence[int], options: ChartOptions) -> Iterator[str]:
    # With an equals sign each: what begins with a dash is a value there, not another option.
    yield from ("template", f"--namespace={options.namespace}")
    yield from (f"--values=/proc/self/fd/{pipe}" for pipe in pipes)
    yield from (f"--api-versions={version}" for version in options.api_versions)
    if options.kube_version:
        yield f"--kube-version={options.kube_version}"
    flags = {
        "--include-crds": options.includes_crds,
        "--no-hooks": options.skips_hooks,
        "--skip-tests": options.skips_tests,
    }
    yield from (flag for flag, is_set in flags.items() if is_set)
    yield from ("--", options.release, chart)


def _run(command: Sequence[str], passed: Sequence[int]) -> tuple[int, bytes, bytes]:
    """Return the exit code, the output and the errors of a program; raise InvalidInput where it reaches a limit."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            cwd="/",
            env=_ENVIRONMENT,
            bufsize=0,
        )
    except OSError as error:
        raise SourceUnavailable(f"helm cannot be started: {error.strerror}") from error
    try:
        # a process that has ended already needs no limit
        with contextlib.suppress(ProcessLookupError):
            _limit(process.pid, resource.RLIMIT_DATA, _MEMORY)
            _limit(process.pid, resource.RLIMIT_CORE, 0)
        output, errors = _read(process)
        return process.wait(), output, errors
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def _limit(pid: int, kind: int, value: int) -> None:
    """Limit a process, as far as that is less than it may have."""
    hard = resource.prlimit(pid, kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.prlimit(pid, kind, (value, value))


def _read(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what a program writes until it ends; raise InvalidInput where that is too much, or takes too long."""
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    output = texts[process.stdout.fileno()]
    deadline = time.monotonic() + _SECONDS
    poll = select.poll()
    for descriptor in texts:
        poll.register(descriptor, select.POLLIN)
    remaining = len(texts)
    while remaining:
        events = poll.poll(max(deadline - time.monotonic(), 0.0) * 1000)
        if not events:
            raise InvalidInput(
                f"rendering the chart takes longer than the limit of {_SECONDS:g} s", hint="divide the chart"
            )
        for descriptor, _ in events:
            part = os.read(descriptor, _CHUNK)
            if not part:
                poll.unregister(descriptor)
                remaining -= 1
            # The end of the errors is not read, but the program must not wait for it.
            elif texts[descriptor] is output or len(texts[descriptor]) < _ERROR_BYTES:
                texts[descriptor] += part
        if len(output) > _OUTPUT_BYTES:
            raise InvalidInput(
                f"the chart renders to more than the limit of {_OUTPUT_BYTES >> 20} MiB", hint="divide the chart"
            )
    return bytes(output), bytes(texts[process.stderr.fileno()])


def _failure(code: int, errors: bytes, values: dict[int, ChartFile]) -> Exception:
    """Return the error of a program that ended with a code, with the files that it knows by descriptors."""
    if any(text in errors for text in _OUT_OF_MEMORY) or code in (-signal.SIGKILL, -signal.SIGSEGV):
        return InvalidInput(
            f"rendering the chart takes more memory than the limit of {_MEMORY >> 20} MiB", hint="divide the chart"
        )
    if code == -signal.SIGXCPU:
        return InvalidInput("rendering the chart takes too much processor time", hint="divide the chart")
    text = errors.decode("utf-8", "replace")
    for pipe, file in values.items():
        text = text.replace(f"/proc/self/fd/{pipe}:", f"{file.path}:")
    # Before the error, Helm logs warnings, which may show values.
    reason = _REASON.search(text)
    return HelmFailed(" ".join(reason[1].split()) if reason else f"helm ended with code {code}")
