from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.charts import ChartOptions
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import MergeResult, Snapshot
from gitsync.ports.previews import PreviewRequest
from gitsync.render.build import Build
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.source.snapshot import GitTree
from gitsync.workers import pool as pool_module
from gitsync.workers.pool import RenderPool, RenderQueue
from gitsync.workers.process import Process
from tests.git_repository import GitRepo
from tests.waiting import until

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\ndata:\n"
MIB = 1 << 20


def kustomization(*resources: str) -> str:
    return "resources:\n" + "".join(f"- {name}\n" for name in resources)


def slow_files(folder: str) -> dict[str, str]:
    """Return files that take many seconds and much memory to read, each with a quarter of a million lists."""
    values = "v: [" + "[]," * (MIB // 4) + "[]]\n"
    files = {f"{folder}/{index}.yaml": HEAD.replace("config", f"c{index}") + f"  k: v\n{values}" for index in range(40)}
    names = (name.removeprefix(f"{folder}/") for name in files)
    return {**files, f"{folder}/kustomization.yaml": kustomization(*names)}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    """A repository of good and hostile applications."""
    repo = GitRepo(tmp_path_factory.mktemp("repo"))
    commit = repo.commit(
        {
            "good/kustomization.yaml": kustomization("config.yaml") + "namePrefix: my-\n",
            "good/config.yaml": f"{HEAD}  k: v\n",
            "other/kustomization.yaml": kustomization("../good"),
            "broken/kustomization.yaml": kustomization("broken.yaml"),
            "broken/broken.yaml": "a: 1\nb: @\n",
            "large/kustomization.yaml": kustomization("large.yaml"),
            "large/large.yaml": f"{HEAD}  k: {'x' * 20 * MIB}\n",
            "bomb/kustomization.yaml": kustomization("bomb.yaml"),
            "bomb/bomb.yaml": "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)),
            "deep/kustomization.yaml": kustomization("deep.yaml"),
            "deep/deep.yaml": "[" * 40_000,
            "environment/kustomization.yaml": "configMapGenerator:\n- name: c\n  envs: [e.env]\n",
            "environment/e.env": "RENDER_CANARY\nPATH=mine\n",
            "plain/odd\udcff.yaml": f"{HEAD}  k: v\n",
            **slow_files("slow"),
        }
    )
    tree = GitTree(repo.origin, commit)
    yield Snapshot(Commit(commit), tree, str(repo.origin))
    tree.close()


@pytest.fixture
def make_pool() -> Iterator[Callable[..., RenderPool]]:
    with contextlib.ExitStack() as stack:

        def make(size: int = 1, seconds: float = 60.0, memory_mib: int = 512) -> RenderPool:
            pool = RenderPool(size, seconds, memory_mib)
            stack.callback(pool.close)
            return pool

        yield make


@pytest.fixture(scope="module")
def pool() -> Iterator[RenderPool]:
    pool = RenderPool(2, 60.0, 512)
    yield pool
    pool.close()


def children() -> set[int]:
    """Return the process ids of our render processes."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            is_ours = int(status[1]) == os.getpid() and status[0] != "Z"
            if is_ours and b"gitsync.workers.server" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found


def test_renders_of_a_tenant_wait_for_those_of_others() -> None:
    queue = RenderQueue()
    queue.begin("hostile")
    queue.begin("hostile")
    queued = [queue.join("hostile") for _ in range(8)]
    neighbour = queue.join("shop")
    assert queue.next is neighbour
    queue.begin("shop")
    queue.leave(neighbour)
    second = queue.join("shop")
    assert queue.next is second
    queue.leave(second)
    assert queue.next is queued[0]
    queue.end("hostile")
    queue.end("hostile")
    queue.leave(queued[0])
    assert queue.next is queued[1]


def test_slow_folders_of_a_tenant_are_rendered_one_at_a_time(make_pool: Callable[..., RenderPool]) -> None:
    pool = make_pool(2)
    folder = ("mirror", "slow")
    pool._slow[folder] = 6.0
    assert pool._lane_of(folder, "shop") is pool._lane_of(folder, "shop")
    assert pool._lane_of(folder, "shop") is not pool._lane_of(folder, "bank")
    assert pool._lane_of(("mirror", "quick"), "shop") is not pool._lane_of(folder, "shop")


def test_renders_of_a_second_leave_a_process_where_others_wait(make_pool: Callable[..., RenderPool]) -> None:
    pool = make_pool(2)
    folder = ("mirror", "one second")
    pool._slow[folder] = 1.0
    assert isinstance(pool._lane_of(folder, "shop"), contextlib.nullcontext), "a tenant alone may use all processes"
    pool._lane_of(("mirror", "quick"), "bank")
    assert pool._lane_of(folder, "shop") is pool._lane_of(folder, "shop")
    assert pool._lane_of(folder, "shop") is not pool._lane_of(folder, "bank")


def test_a_path_is_rendered(pool: RenderPool, snapshot: Snapshot) -> None:
    build = pool.render(snapshot, "good")
    assert [manifest["metadata"]["name"] for manifest in build.manifests] == ["my-config"]
    assert {"good/config.yaml", "good/kustomization.yaml"} <= build.files_read


def test_fields_are_traced_to_files_and_lines(pool: RenderPool, snapshot: Snapshot) -> None:
    config = ObjectRef("", "ConfigMap", "", "my-config")
    name = (
        FieldSetter("resource", "good/config.yaml:4"),
        FieldSetter("PrefixTransformer", "good/kustomization.yaml:3"),
    )
    odd = ObjectRef("", "ConfigMap", "", "config")

    assert pool.trace(snapshot, "other", "Auto", ChartOptions(), {config: [".metadata.name", ".data.gone"]}) == {
        config: {".metadata.name": name}
    }
    assert pool.trace(snapshot, "plain", "Auto", ChartOptions(), {odd: [""]}) == {
        odd: {"": (FieldSetter("manifest", "plain/odd\udcff.yaml:1"),)}
    }
    with pytest.raises(InvalidInput, match=r"broken/broken.yaml:2"):
        pool.trace(snapshot, "broken", "Auto", ChartOptions(), {config: [""]})


def test_the_renderer_is_passed_on(pool: RenderPool, snapshot: Snapshot) -> None:
    with pytest.raises(InvalidInput, match="kustomization"):
        pool.render(snapshot, "", "Kustomize")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("broken", "broken/broken.yaml:2: a value cannot begin with the character @"),
        ("missing", "the path missing does not exist"),
        ("large", r"large/large\.yaml: .*too large.*limit"),
        ("bomb", r"bomb/bomb\.yaml:\d+: the aliases expand"),
        ("deep", r"deep/deep\.yaml:1: nesting is deeper"),
    ],
)
def test_what_is_wrong_with_an_input_comes_back_whole(
    pool: RenderPool, snapshot: Snapshot, path: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        pool.render(snapshot, path)
    assert pool.render(snapshot, "good").manifests


def test_a_path_that_is_not_utf_8_is_carried(pool: RenderPool, snapshot: Snapshot) -> None:
    assert "plain/odd\udcff.yaml" in pool.render(snapshot, "plain").files_read


def test_an_unknown_commit_is_a_matter_of_the_source(pool: RenderPool, snapshot: Snapshot) -> None:
    with pytest.raises(SourceUnavailable, match="commit 111111111111 cannot be read"):
        pool.render(Snapshot(Commit("1" * 40), snapshot.tree, snapshot.git_dir), "good")


def test_a_process_stays_for_the_next_render(make_pool: Callable[..., RenderPool], snapshot: Snapshot) -> None:
    before = children()
    pool = make_pool(size=2)
    assert children() == before
    for path in ("good", "other", "broken", "good"):
        with contextlib.suppress(InvalidInput):
            pool.render(snapshot, path)
    assert len(children() - before) == 1


def test_a_process_that_was_prepared_serves_the_next_request(
    make_pool: Callable[..., RenderPool], snapshot: Snapshot
) -> None:
    before = children()
    pool = make_pool(size=2)
    pool.prepare_preview()
    pool.prepare_preview()
    [process] = children() - before
    assert pool.render(snapshot, "good").manifests
    assert children() - before == {process}


def test_a_process_that_is_idle_for_long_ends(snapshot: Snapshot) -> None:
    before, pool = children(), RenderPool(2, 60.0, 512, idle_seconds=0.2)
    with contextlib.closing(pool):
        for _ in range(2):
            assert pool.render(snapshot, "good").manifests
            until(lambda: children() == before)


def test_of_several_idle_processes_the_one_used_last_is_kept(
    monkeypatch: pytest.MonkeyPatch, make_pool: Callable[..., RenderPool], snapshot: Snapshot
) -> None:
    monkeypatch.setattr(pool_module, "_FURTHER_IDLE_SECONDS", 0.5)
    pool = make_pool(size=2)
    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(lambda path: pool.render(snapshot, path).manifests, ("good", "other")))
    until(lambda: len(pool._processes) == 1)
    [kept] = pool._processes
    assert pool.render(snapshot, "good").manifests
    assert pool._processes == {kept}


def test_what_a_commit_does_not_touch_stays_the_very_same_object(
    make_pool: Callable[..., RenderPool], tmp_path: Path
) -> None:
    """Also after a commit that cannot be rendered, and in a process that died and was replaced."""
    repo, pool = GitRepo(tmp_path), make_pool()
    files: dict[str, str | bytes | None] = {f"{name}.yaml": HEAD.replace("config", name) + "  k: v\n" for name in "abc"}

    def render(**changed: str) -> Build:
        commit = repo.commit({f"{name}.yaml": content for name, content in changed.items()})
        return pool.render(Snapshot(Commit(commit), GitTree(repo.origin, commit), str(repo.origin)), "")

    repo.commit({**files, "kustomization.yaml": kustomization("a.yaml", "b.yaml", "c.yaml") + "namePrefix: p-\n"})
    first = render(a=HEAD.replace("config", "a") + "  k: one\n")
    with pytest.raises(InvalidInput):
        render(a="a: @")
    second = render(a=HEAD.replace("config", "a") + "  k: two\n")
    assert [one is other for one, other in zip(second.manifests, first.manifests, strict=True)] == [False, True, True]
    assert second.manifests[0] == {**first.manifests[0], "data": {"k": "two"}}
    assert (second.sources, second.files_read) == (first.sources, first.files_read)

    (process,) = pool._processes
    os.kill(process.id, signal.SIGKILL)
    third = render(b=HEAD.replace("config", "b") + "  k: two\n")
    assert third.manifests == (second.manifests[0], {**first.manifests[1], "data": {"k": "two"}}, first.manifests[2])


def test_an_application_goes_to_the_process_that_built_it_before(
    make_pool: Callable[..., RenderPool], snapshot: Snapshot
) -> None:
    pool = make_pool(size=2)
    with ThreadPoolExecutor(2) as threads:
        renders = {path: threads.submit(pool.render, snapshot, path) for path in ("good", "other")}
    for path in ("other", "good", "good", "other"):
        assert pool.render(snapshot, path).manifests[0] is renders[path].result().manifests[0]


def test_an_application_that_goes_to_another_process_keeps_its_objects(
    make_pool: Callable[..., RenderPool], snapshot: Snapshot
) -> None:
    pool = make_pool(size=2)
    with ThreadPoolExecutor(2) as threads:
        first, _ = threads.map(lambda path: pool.render(snapshot, path), ("good", "other"))
    for _ in range(2):
        # as one that another request keeps busy
        process = next(iter(pool._idle))
        since = pool._idle.pop(process)
        assert pool.render(snapshot, "good").manifests[0] is first.manifests[0]
        pool._idle[process] = since


def test_a_process_forgets_a_folder_that_another_one_has_built_twice(
    make_pool: Callable[..., RenderPool], snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(size=2)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda path: pool.render(snapshot, path), ("good", "other")))
    asked: list[tuple[Process, list[str]]] = []
    exchange = Process._exchange

    def exchanged(process: Process, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        asked.append((process, [folder["path"] for folder in request["forget"]]))
        return exchange(process, request, seconds)

    monkeypatch.setattr(Process, "_exchange", exchanged)
    pool.render(snapshot, "good")
    builder = asked[-1][0]
    since = pool._idle.pop(builder)
    (other,) = pool._idle
    # each builds it once in turn, and then one of them again
    for busy in (None, other):
        if busy is not None:
            pool._idle[builder] = since
            del pool._idle[other]
        pool.render(snapshot, "good")
    pool.render(snapshot, "good")
    assert [process for process, _ in asked] == [builder, other, builder, builder]
    del pool._idle[builder]
    pool._idle[other] = since
    pool.render(snapshot, "other")
    # so that it is ended with the pool
    pool._idle[builder] = since
    assert asked[-1] == (other, ["good"])
    assert all(forgotten == [] for _, forgotten in asked[:-1])


def test_renders_run_side_by_side_up_to_the_size(make_pool: Callable[..., RenderPool], snapshot: Snapshot) -> None:
    before = children()
    pool = make_pool(size=2)
    with ThreadPoolExecutor(8) as threads:
        builds = list(threads.map(lambda _: pool.render(snapshot, "good"), range(40)))
    assert len({build.manifests[0]["metadata"]["name"] for build in builds}) == 1
    assert 1 <= len(children() - before) <= 2


def test_a_render_that_takes_too_long_is_ended(make_pool: Callable[..., RenderPool], snapshot: Snapshot) -> None:
    pool = make_pool(seconds=0.5)
    start = time.monotonic()
    with pytest.raises(InvalidInput, match=r"longer than the limit of 0\.5 s"):
        pool.render(snapshot, "slow")
    assert time.monotonic() - start < 60
    assert make_pool().render(snapshot, "good").manifests


def test_a_render_that_needs_too_much_memory_is_ended(make_pool: Callable[..., RenderPool], snapshot: Snapshot) -> None:
    before = children()
    pool = make_pool(memory_mib=128)
    with pytest.raises(InvalidInput, match="more memory than the limit of 128 MiB"):
        pool.render(snapshot, "slow")
    assert children() == before
    assert pool.render(snapshot, "good").manifests


def test_a_process_that_was_killed_is_replaced(make_pool: Callable[..., RenderPool], snapshot: Snapshot) -> None:
    before = children()
    pool = make_pool()
    pool.render(snapshot, "good")
    (process,) = children() - before
    os.kill(process, signal.SIGKILL)
    assert pool.render(snapshot, "good").manifests
    assert children() - before not in ({process}, set())


@contextlib.contextmanager
def killing(number: signal.Signals) -> Iterator[None]:
    """Send a signal to each render process that starts meanwhile."""
    before, done = children(), threading.Event()

    def kill() -> None:
        while not done.wait(0.05):
            for process in children() - before:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        done.set()
        killer.join()


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (signal.SIGSEGV, InvalidInput, "was ended by signal SIGSEGV; its limits are 60 s and 512 MiB"),
        (signal.SIGXCPU, InvalidInput, "rendering takes longer than the limit of 60 s"),
        (signal.SIGKILL, SourceUnavailable, "was ended by signal SIGKILL; does its machine have enough memory"),
        (signal.SIGTERM, SourceUnavailable, "was ended by signal SIGTERM"),
    ],
)
def test_only_a_crash_or_a_limit_is_the_fault_of_the_input(
    make_pool: Callable[..., RenderPool],
    snapshot: Snapshot,
    number: signal.Signals,
    error: type[Exception],
    message: str,
) -> None:
    pool = make_pool()
    with killing(number), pytest.raises(error, match=message):
        pool.render(snapshot, "slow")
    assert pool.render(snapshot, "good").manifests


def test_costly_folders_leave_a_process_for_others(make_pool: Callable[..., RenderPool], snapshot: Snapshot) -> None:
    pool = make_pool(size=2, seconds=2.0)
    with pytest.raises(InvalidInput, match="limit"):
        pool.render(snapshot, "slow")
    with ThreadPoolExecutor(3) as threads:
        slow = [threads.submit(pool.render, snapshot, "slow") for _ in range(3)]
        assert pool.render(snapshot, "good").manifests
        assert not slow[-1].done() or not slow[-2].done()
        for render in slow:
            with pytest.raises(InvalidInput, match="limit"):
                render.result()


def test_a_process_sees_nothing_of_our_environment(
    monkeypatch: pytest.MonkeyPatch, make_pool: Callable[..., RenderPool], snapshot: Snapshot
) -> None:
    monkeypatch.setenv("RENDER_CANARY", "secret-canary")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    before = children()
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        build = make_pool().render(snapshot, "environment")
        (process,) = children() - before
        environment = Path(f"/proc/{process}/environ").read_bytes()
        descriptors = {os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir()}
        ours = os.readlink(f"/proc/self/fd/{writer}")
    finally:
        os.close(reader)
        os.close(writer)
    assert build.manifests[0]["data"] == {"RENDER_CANARY": "", "PATH": "mine"}
    assert b"canary" not in environment
    assert b"KUBERNETES" not in environment
    assert ours not in descriptors


def test_a_closed_pool_ends_its_processes_and_renders_no_more(
    make_pool: Callable[..., RenderPool], snapshot: Snapshot
) -> None:
    before = children()
    pool = make_pool(size=2)
    pool.render(snapshot, "good")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.render, snapshot, "slow")
        deadline = time.monotonic() + 60
        while not pool_is_busy(before) and time.monotonic() < deadline:
            time.sleep(0.01)
        pool.close()
        with pytest.raises((SourceUnavailable, InvalidInput)):
            running.result(timeout=60)
    assert children() == before
    with pytest.raises(SourceUnavailable, match="the controller stops"):
        pool.render(snapshot, "good")


def pool_is_busy(before: set[int]) -> bool:
    return any(
        Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "R"
        for process in children() - before
    )


def test_a_change_is_rehearsed_within_the_limits(make_pool: Callable[..., RenderPool], tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    job = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec:\n  template:\n    spec:\n"
        "      restartPolicy: Never\n      containers: [{name: c, image: 'tool:1'}]\n"
    )
    base = repo.commit({"prod/kustomization.yaml": kustomization("job.yaml"), "prod/job.yaml": job})
    head = repo.commit({"prod/job.yaml": job.replace("tool:1", "tool:2")})
    request = PreviewRequest(MergeResult(base, head, head, frozenset({"prod/job.yaml"})), ())
    tree = GitTree(repo.origin, head)
    with contextlib.closing(tree):
        rehearsal = make_pool().rehearse(Snapshot(Commit(head), tree, str(repo.origin)), request)
    [refusal] = rehearsal.refusals
    assert (refusal.folder, refusal.object, refusal.step) == ("prod", "Job default/migrate", "apply")
    assert "field is immutable" in refusal.problem
    assert refusal.where == "prod/job.yaml:1"
