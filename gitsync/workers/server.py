"""
A render process: it reads requests from standard input and answers on standard output until that ends.

It holds no credentials, and sets its limits before it reads the first request. Start it by ``RenderPool``.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

import gitsync.render.yaml.composer  # noqa: F401  # a build loads it late, where the limits would count it
from gitsync.errors import GitsyncError, InvalidInput, SourceUnavailable
from gitsync.objects.charts import Helm
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import MountedTree, Tree
from gitsync.render.build import Build, build, check_count, memo_of
from gitsync.render.kustomize.files import ParseCache
from gitsync.render.provenance.trace import trace
from gitsync.render.yaml.yaml11 import reject_ambiguous_bools
from gitsync.runtime.garbage import return_memory, share_memory
from gitsync.source.landlock import forbid_sockets, restrict
from gitsync.source.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, MeteredTree, SourceLimits, open_remotes
from gitsync.workers import protocol
from gitsync.workers.helm import HelmProgram
from gitsync.workers.protocol import BuildHistory

_MAPPED: Final = 4 << 30
"""Room beside the memory limit for files that are only mapped, such as the packs that git reads."""
_MAX_FILES: Final = 64
_PAGE: Final = resource.getpagesize()


def confine(memory: int, hidden: Iterable[Path] = (), shown: Iterable[Path] = ()) -> None:
    """
    Limit this process to a number of bytes of memory and few open files, and forbid writing files.

    Where the kernel has Landlock, it changes no file, has no network by TCP, and does not read what is hidden; where it
    has seccomp filters, it has no network at all.
    """
    restrict(hidden, shown)
    forbid_sockets()
    for limit, value in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_AS, memory + _MAPPED),
        (resource.RLIMIT_NOFILE, _MAX_FILES),
        (resource.RLIMIT_FSIZE, 0),
        # A core would hold manifests, perhaps Secrets.
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def allow_processor_time(seconds: float) -> None:
    """Set the processor time after which the system kills this process, in case its parent does not."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # The limit counts the whole life of the process; 2 s are for the parent, which kills it first.
    until = int(usage.ru_utime + usage.ru_stime + seconds) + 2
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (until, hard))


def memory_in_use() -> int:
    """Return the bytes of data that this process holds now."""
    return _memory(5)


def resident_memory() -> int:
    """Return the bytes of memory that this process takes from others now."""
    return _memory(1)


def _memory(column: int) -> int:
    return int(Path("/proc/self/statm").read_text().split()[column]) * _PAGE


class TreeCache:
    """Open trees of commits; only the reader of the last repository stays open."""

    def __init__(self) -> None:
        self._reader = ObjectReader("")

    def open_all(self, request: dict[str, Any]) -> Tree:
        """Return the tree of a request, with the files of other repositories that it names."""
        tree = self.open(request["git_dir"], request["commit"], request["file_bytes"])
        if not request.get("remotes"):
            return tree
        return MountedTree(tree, *open_remotes(request["remotes"], SourceLimits(file_bytes=request["file_bytes"])))

    def open(self, git_dir: str, commit: str, file_bytes: int) -> Tree:
        """Return the tree of a commit, for one build that may read files of this size."""
        if str(self._reader.git_dir) != git_dir:
            self._reader.close()
            self._reader = ObjectReader(git_dir)
        limits = SourceLimits(file_bytes=file_bytes)
        return MeteredTree(GitTree(git_dir, commit, limits, self._reader), limits.read_bytes)


_GROWTH: Final = 2 << 20
"""Bytes by which a process grows before it returns what is free, which takes a millisecond and more."""
_LARGEST_OBJECT: Final = 3 << 20
"""
Bytes of a request that an API server reads.

Source: ``MaxRequestBodyBytes`` in ``k8s.io/apiserver/pkg/server/config.go``.
"""


def reject_large(build: dict[str, Any]) -> None:
    """
    Raise InvalidInput for an object of a build, as it travels, that no API server can take.

    Here, since the controller compares and plans what it receives while those of others wait.
    """
    for manifest, (file, _) in zip(build["manifests"], build["sources"], strict=True):
        size = len(protocol.frame(manifest))
        if size > _LARGEST_OBJECT:
            raise InvalidInput(
                f"{ref_of(manifest)} has {size / (1 << 20):.1f} MiB, and an API server takes at most"
                f" {_LARGEST_OBJECT >> 20} MiB for one object",
                location=file,
                hint="divide it, or keep its content outside the cluster",
            )


_MAX_REQUESTS: Final = 1_000
"""Builds after which a new process takes over: limits the effect of leaks."""


class RenderServer:
    """Answer requests, keeping what was parsed and built, until it has answered many or holds much memory."""

    def __init__(self, memory: int, helm: Helm | None = None) -> None:
        self._memory = memory
        self._helm = helm
        self._caches: dict[str, ParseCache] = {}
        """By repository: folders of two may have the same path."""
        self._trees = TreeCache()
        self._recent = BuildHistory()
        self._requests = 0

    def answer(self, request: dict[str, Any]) -> bytes:
        """Return the frame that answers a request; nothing that goes wrong with an input raises."""
        self._requests += 1
        try:
            return self._built(request)
        except GitsyncError as error:
            return _refusal(error, is_last=self.is_done)
        except MemoryError:
            return protocol.frame({"limit": "memory", "is_last": True})
        except RecursionError:
            return _refusal(InvalidInput("the manifests are nested too deeply", hint="flatten them"), is_last=True)
        except OSError as failure:  # of the machine: this process reads a mirror, and writes only its answer
            reason = failure.strerror or type(failure).__name__
            away = SourceUnavailable(f"the render process cannot read the mirror: {reason}")
            return _refusal(away, is_last=True, trace=traceback.format_exc())
        except Exception as fault:  # a defect of ours must end this render, not the process
            what = f"the renderer has a defect: {type(fault).__name__}: {fault}"
            return _refusal(InvalidInput(what, hint="please report it"), is_last=True, trace=traceback.format_exc())

    def _forget(self, folder: dict[str, Any]) -> None:
        """Forget what was read and made for a folder that another process builds."""
        self._recent.forget(folder)
        cache = self._caches.get(folder["git_dir"])
        if cache is not None:
            cache.forget(_what(folder), memo_of(folder["path"], folder["renderer"]))

    def _built(self, request: dict[str, Any]) -> bytes:
        for folder in request.get("forget", ()):
            self._forget(folder)
        if "merge" in request:
            # late: previews need the policies and pydantic, and most processes never make one
            from gitsync.workers.previews import previewed

            return protocol.frame({**previewed(request, self._helm), "is_last": self.is_done})
        if "rehearse" in request:
            from gitsync.workers.previews import rehearsed  # late, as previews

            return protocol.frame({**rehearsed(request, self._helm), "is_last": self.is_done})
        tree = self._trees.open_all(request)
        if "values" in request:
            # late, as previews: most processes never edit
            from gitsync.workers.edits import adopted

            return protocol.frame({"adoption": adopted(tree, request, self._helm), "is_last": self.is_done})
        if "wanted" in request:
            made = self._build(tree, request, provenance=True)
            traces = protocol.of_traces(trace(made, protocol.to_wanted(request["wanted"])))
            return protocol.frame({"traces": traces, "is_last": self.is_done})
        cache = self._caches.setdefault(request["git_dir"], ParseCache())
        with cache.building(_what(request)):
            made = self._build(tree, request, cache=cache)
        last = self._recent.last(request)
        reject_ambiguous_bools(made.manifests, last.build.manifests if last else ())
        del self._caches[request["git_dir"]]  # it has all of what is refused here until it is right again
        check_count(made.manifests, request["max_objects"])
        previous = last.build if last and last.commit == request.get("before") else None
        sent = protocol.of_build(made, previous)
        frame = protocol.frame({"build": sent, "is_last": self.is_done})
        if len(frame) > _LARGEST_OBJECT:
            reject_large(sent)
        self._caches[request["git_dir"]] = cache
        self._recent.keep(request, made)
        return frame

    def _build(self, tree: Tree, request: dict[str, Any], **options: Any) -> Build:
        chart = protocol.to_chart(request.get("chart") or ())
        return build(tree, request["path"], renderer=request["renderer"], chart=chart, helm=self._helm, **options)

    @property
    def is_done(self) -> bool:
        """Whether a fresh process should take over."""
        return self._requests >= _MAX_REQUESTS or memory_in_use() > self._memory // 2


def _what(request: dict[str, Any]) -> tuple[str, ...]:
    """Return what a request has built, for the cache of its repository."""
    return request["path"], request["renderer"], repr(request.get("chart"))


def _refusal(error: GitsyncError, *, is_last: bool, trace: str = "") -> bytes:
    printable = trace.encode("utf-8", "backslashreplace").decode()
    return protocol.frame({"error": protocol.of_error(error), "is_last": is_last, "trace": printable})


def serve(requests: BinaryIO, replies: BinaryIO, memory: int, helm: Helm | None = None) -> None:
    """Answer each request until there are no more, or this process should be replaced."""
    renderer = RenderServer(memory, helm)
    resident = resident_memory()
    while length := requests.read(protocol.LENGTH_BYTES):
        request = orjson.loads(requests.read(int.from_bytes(length)))
        allow_processor_time(request["seconds"])
        replies.write(renderer.answer(request))
        replies.flush()
        gc.collect()
        gc.freeze()  # objects that are kept are not scanned again
        if resident_memory() > resident + _GROWTH:
            return_memory()
            resident = resident_memory()


def main() -> None:
    """
    Serve on standard input and output.

    Arguments are the limit on memory in bytes, the hidden paths and what is shown in them, as lists of JSON. With
    ``--previews`` it loads what previews need before the first one comes.
    """
    memory = int(sys.argv[1])
    hidden, shown = ([Path(item) for item in orjson.loads(argument)] for argument in sys.argv[2:4])
    share_memory()
    helm = HelmProgram()
    helm.prepare()
    if "--previews" in sys.argv[4:]:
        import gitsync.workers.previews  # noqa: F401  # most processes never preview
    confine(memory, hidden, shown)
    gc.disable()  # a build makes many objects and hardly a cycle: collection waits until the process is idle
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # so that nothing printed by accident gets between the frames
        try:
            serve(sys.stdin.buffer, replies, memory, helm)
        except MemoryError:
            os._exit(protocol.OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
