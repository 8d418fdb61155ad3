"""Render paths and print their manifests: ``gitsync build`` without the option parser, which takes long to import."""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeAlias, TypeVar

from gitsync.cli.output import BuildFormat, Exit, to_json
from gitsync.errors import GitsyncError, InvalidInput, RemoteNeeded, one_line
from gitsync.objects.tree import Tree
from gitsync.render.build import Build, build
from gitsync.render.yaml.writer import write_all
from gitsync.source.local import LocalTarget, file_limit, open_path

if TYPE_CHECKING:
    from gitsync.objects.charts import ChartFile, ChartOptions
    from gitsync.ports import RemoteBase

TaskOutput: TypeAlias = tuple[str, ...]
"""The result of one task: a tuple of strings."""
_LENGTH_BYTES: Final = 8


def print_builds(paths: Sequence[str], options: BuildOptions, output: BuildFormat, check: bool) -> Exit:
    """Print the manifests of every path, in order; after a path that fails the others are rendered nevertheless."""
    work = partial(_render_one, options, output, check)
    texts = []
    failed = False
    for text, messages, failure in map_forked(work, paths) if len(paths) > 1 else map(work, paths):
        sys.stderr.write(messages)
        failed = failed or bool(failure)
        texts.append(text)
    if failed:
        return Exit.INVALID
    if not check:  # all or nothing: a pipe to kubectl must not get the manifests of some paths
        sys.stdout.write(_joined([text for text in texts if text], output))
    return Exit.OK


def _render_one(options: BuildOptions, output: BuildFormat, check: bool, path: str) -> tuple[str, str, str]:
    """Return the manifests of a path as text, the messages for standard error, and a text where it failed."""
    try:
        place = open_path(path, options.revision)
        problems = _check(place, options) if check else ()
        build = options.render(place) if not problems else None
    except GitsyncError as error:
        problems = (str(error),)
        build = None
    if build is None:
        return "", "".join(f"gitsync: {_as_typed(line, path)}\n" for line in problems), "failed"
    warnings = "".join(f"warning: {_as_typed(one_line(warning), path)}\n" for warning in build.warnings)
    manifests = list(build.manifests)
    if check or not manifests:
        return "", warnings, ""
    return to_json(manifests) if output is BuildFormat.JSON else write_all(manifests), warnings, ""


def _as_typed(line: str, path: str) -> str:
    """
    Return a line in which files below a path are named as the user typed the path, and others relative to here.

    Outside Git the tree is the whole disk, and its files are named relative to the root of the disk.
    """
    typed = os.path.normpath(path)
    whole = os.path.realpath(path)[1:]
    here = os.getcwd()[1:]
    if not whole or not here:
        return line
    parts = (part.replace(f"{here}/", "") for part in line.split(f"{whole}/"))
    return ("" if typed == "." else f"{typed}/").join(parts)


def _joined(texts: Sequence[str], output: BuildFormat) -> str:
    """Return the manifests of several paths as one text."""
    if output is BuildFormat.YAML:
        return "---\n".join(texts)
    # without the brackets and the line break of each list
    return "[" + ",".join(text[1:-2] for text in texts) + ("\n]\n" if texts else "]\n")


def _check(place: LocalTarget, options: BuildOptions) -> Sequence[str]:
    from gitsync.cli.check import problems  # it loads the schemas of Kubernetes, which a plain build does not need

    return problems(place, options)


_T = TypeVar("_T")


class BuildOptions(NamedTuple):
    """
    The Git revision to render (empty: the files on disk), the renderer, and whether loads are restricted.

    ``remotes`` are the URLs of other repositories, with ``*``, whose folders a kustomization may name.
    ``chart`` has the values of a folder that is a chart.
    """

    revision: str = ""
    renderer: str = "Auto"
    load_restrictions: bool = True
    remotes: tuple[str, ...] = ()
    chart: ChartOptions | None = None

    def render(
        self, place: LocalTarget, *, provenance: bool = False, faults: list[InvalidInput] | None = None
    ) -> Build:
        """Return what a path renders to."""
        return self.visit(
            place.tree, lambda tree: self.build(tree, place.path, provenance=provenance, faults=faults), faults
        )

    def build(
        self, tree: Tree, path: str, *, provenance: bool = False, faults: list[InvalidInput] | None = None
    ) -> Build:
        """Return what a path of a tree renders to; raise RemoteNeeded for what the tree lacks of other repositories."""
        return build(
            tree,
            path,
            renderer=self.renderer,
            load_restrictions=self.load_restrictions,
            provenance=provenance,
            faults=faults,
            chart=self.chart,
            helm=LateHelm(),
        )

    def visit(self, tree: Tree, work: Callable[[Tree], _T], faults: list[InvalidInput] | None = None) -> _T:
        """Return what ``work`` makes of a tree, which has what its builds need of the allowed repositories."""
        return _with_remotes(tree, work, self.remotes, faults) if self.remotes else work(tree)


def _with_remotes(
    tree: Tree, work: Callable[[Tree], _T], allowed: Sequence[str], faults: list[InvalidInput] | None
) -> _T:
    """Return what ``work`` makes of a tree with folders and charts of the allowed repositories."""
    from gitsync.sync.remote_bases import mounted  # late, as below

    def attempt(fetched: Mapping[str, RemoteBase]) -> _T:
        built = work(mounted(tree, fetched))
        # a collector of faults keeps the error that is raised otherwise
        needed = next((fault for fault in faults or () if isinstance(fault, RemoteNeeded)), None)
        if faults and needed:
            faults.clear()
            raise needed
        return built

    return collect_remotes(attempt, allowed)


def collect_remotes(work: Callable[[Mapping[str, RemoteBase]], _T], allowed: Sequence[str]) -> _T:
    """
    Return the result of ``work``, which gets what it needs of the allowed repositories, by its references.

    RemoteNeeded ends it, and it starts again with those files, fetched for this run without credentials.
    """
    # late: they load Git and HTTP, which a plain build does not need
    import tempfile
    from pathlib import Path

    from gitsync.cli.options import load_settings
    from gitsync.gate.policy import Policy
    from gitsync.integrations.artifacts import ArtifactClient
    from gitsync.ports import Credentials
    from gitsync.source.remote import Transport
    from gitsync.source.repositories import Repositories
    from gitsync.source.snapshot import SourceLimits
    from gitsync.source.validation import SAFE_SCHEMES, PlainHosts
    from gitsync.sync.remote_bases import RemoteFetcher

    # the schemes without encryption only where the user names them
    plain = {scheme for scheme in ("file", "http") if any(url.startswith(f"{scheme}:") for url in allowed)}
    with tempfile.TemporaryDirectory(prefix="gitsync-remotes-") as folder:
        limits = SourceLimits(file_bytes=file_limit())
        settings = load_settings()
        hosts = PlainHosts.parse(settings.git_http_hosts, "")
        transport = Transport(tuple(sorted(SAFE_SCHEMES | plain)), hosts, limits, settings.git_ca)
        source = Repositories(Path(folder), transport, ArtifactClient())
        policy = Policy(name="--remote", remotes=tuple(allowed))
        try:
            return RemoteFetcher(source, lambda url: Credentials(), (policy,)).collect(work)[1]
        finally:
            source.close()


class LateHelm:
    """Helm, which is loaded with the first chart; see ``gitsync.objects.charts.Helm``."""

    def template(self, chart: tuple[ChartFile, ...], values: tuple[ChartFile, ...], options: ChartOptions) -> bytes:
        """Return what the program prints."""
        from gitsync.workers.helm import HelmProgram  # most builds have no chart

        return HelmProgram().template(chart, values, options)


def map_forked(work: Callable[[str], TaskOutput], items: Sequence[str]) -> Iterator[TaskOutput]:
    """
    Yield ``work(item)`` for each item, in order, computed in forked processes. ``work`` must be free of side effects.

    Forked processes share the modules that are loaded. Items of a process that ended early are computed here.
    """
    count = min(len(items), os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        replies = (
            # every count-th item: the results are read in the order of the items, from each process in turn
            [stack.enter_context(_forked(work, items[start::count])) for start in range(count)] if count > 1 else []
        )
        for index, item in enumerate(items):
            result = _read(replies[index % count]) if replies else None
            yield work(item) if result is None else result


@contextlib.contextmanager
def _forked(work: Callable[[str], TaskOutput], items: Sequence[str]) -> Iterator[BinaryIO]:
    """Fork a process that computes the results of some items, and yield the pipe that it writes them to."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        # a process whose item fails ends: the parent computes that item again, and raises its error
        with contextlib.suppress(BaseException), os.fdopen(writing, "wb") as replies:
            for item in items:
                # marshal is safe here: the bytes come from a fork of this process
                body = marshal.dumps(work(item))
                replies.write(len(body).to_bytes(_LENGTH_BYTES) + body)
                replies.flush()
        os._exit(0)  # what the parent has opened must not be closed or flushed twice
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as replies:
            yield replies
    finally:
        # the pipe is closed by now: a child that still writes to it ends
        os.waitpid(child, 0)


def _read(replies: BinaryIO) -> TaskOutput | None:
    """Return the next result, None when the process has ended."""
    body = replies.read(int.from_bytes(replies.read(_LENGTH_BYTES)))
    try:
        result: TaskOutput = marshal.loads(body)
    # the process ended before this result was complete
    except (EOFError, ValueError):
        return None
    return result


def find_object(build: Build, wanted: str) -> int:
    """Return the position of the object of a name such as ``Deployment/web`` or ``deployment/shop/web``."""
    from gitsync.objects.ref import ref_of  # late: a build does not need it

    kind, _, name = wanted.partition("/")
    refs = list(map(ref_of, build.manifests))
    matching = [
        position
        for position, ref in enumerate(refs)
        if kind.lower() in (ref.kind.lower(), str(ref.of).lower()) and name in (ref.name, f"{ref.namespace}/{ref.name}")
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(
            f"{refs[position].of}/{refs[position].namespace}/{refs[position].name}" for position in matching
        )
        raise InvalidInput(f"{wanted} is ambiguous", hint=f"name one of {names}")
    alike = [ref for ref in refs if ref.kind.lower() == kind.lower()] or refs
    names = ", ".join(sorted(f"{ref.kind}/{ref.name}" for ref in alike))
    raise InvalidInput(f"{wanted} not found", hint=f"write KIND/NAME: {names}")
