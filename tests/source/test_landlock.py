"""Restricted processes: they change no file but their own, have no network, and do not read what is hidden."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.source.landlock import Concealed, Confinement, forbid_sockets, landlock_version
from tests.conformance_data import ROOT

has_landlock = pytest.mark.skipif(landlock_version() < 4, reason="the kernel has no Landlock that restricts TCP")
NO_SOCKETS = """
import errno, os, socket, subprocess, sys
from gitsync.source.landlock import forbid_sockets
if not forbid_sockets():
    sys.exit(77)
for family, kind in ((2, 1), (2, 2), (10, 1), (10, 2), (2, 3), (16, 3), (17, 3)):
    try:
        socket.socket(family, kind)
    except OSError as error:
        assert error.errno == errno.EACCES, (family, kind, error)
    else:
        raise AssertionError((family, kind))
left, right = socket.socketpair()
left.sendall(b"x")
assert right.recv(1) == b"x"
socket.socket(socket.AF_UNIX).close()
import ctypes
assert ctypes.CDLL(None, use_errno=True).syscall(425, 1, None) == -1
assert ctypes.get_errno() == errno.EACCES
subprocess.run(["git", "version"], check=True, stdout=subprocess.DEVNULL)
inner = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
assert subprocess.run([sys.executable, "-c", inner], stderr=subprocess.DEVNULL).returncode == 1
"""


def restricted(code: str, folder: Path) -> str:
    """Return the class of the error that code ends with, empty without one, in a process that restricted itself."""
    secret = folder / "data" / "secret"
    secret.parent.mkdir()
    secret.write_text("canary")
    shown = folder / "data" / "mirrors"
    shown.mkdir()
    (shown / "pack").write_text("a pack")
    (folder / "link").symlink_to(secret)
    (folder / "beside").write_text("beside")
    program = (
        "import os, socket, subprocess, sys\nfrom pathlib import Path\nfrom gitsync.source.landlock import restrict\n"
        f"folder = Path({str(folder)!r})\nassert restrict([folder / 'data'], [folder / 'data/mirrors'])\n{code}"
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert secret.read_text() == "canary"
    return done.stderr.strip().splitlines()[-1].partition(":")[0] if done.stderr else ""


@has_landlock
@pytest.mark.parametrize(
    "code",
    [
        "(folder / 'data/secret').read_text()",
        "(folder / 'link').read_text()",
        "os.listdir(folder / 'data')",
        "(folder / 'data/secret').unlink()",
        "os.truncate(folder / 'data/secret', 0)",
        "(folder / 'new').write_text('x')",
        "os.rename(folder / 'beside', folder / 'other')",
        "Path('/proc/%d/environ' % os.getppid()).read_bytes()",
        "socket.create_connection(('127.0.0.1', 1))",
        "socket.create_server(('127.0.0.1', 0))",
        # also what it starts
        "sys.exit(subprocess.run(['cat', folder / 'data/secret'], check=True) and 0)",
    ],
)
def test_it_cannot(code: str, tmp_path: Path) -> None:
    assert restricted(code, tmp_path) in ("PermissionError", "subprocess.CalledProcessError")


@has_landlock
@pytest.mark.parametrize(
    "code",
    [
        "(folder / 'beside').read_text()",
        "(folder / 'data/mirrors/pack').read_text()",
        "open('/dev/null', 'w').write('x')",
        "import json, zoneinfo, http.client",
        "subprocess.run(['git', 'version'], check=True, stdout=subprocess.DEVNULL)",
        "file = os.memfd_create('chart'); os.write(file, b'x'); open(f'/proc/self/fd/{file}').read()",
    ],
)
def test_it_still_can(code: str, tmp_path: Path) -> None:
    assert restricted(code, tmp_path) == ""


def test_a_filtered_process_has_unix_sockets_only() -> None:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", NO_SOCKETS], env=environment, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("the kernel has no seccomp filters, or its numbers are not known")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_architecture_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not forbid_sockets()


ATTEMPTS = """
import os, socket, sys
from pathlib import Path
folder = Path(sys.argv[1])
def can(act):
    try:
        act()
    except OSError:
        return False
    return True
print(*(name for name, act in {
    "reads-secret": lambda: (folder / "data/secret").read_text(),
    "reads-environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "changes-others": lambda: (folder / "beside").write_text("x"),
    "changes-its-own": lambda: (folder / "data/mirrors/new").write_text("x"),
    "moves-its-own": lambda: os.rename(folder / "data/mirrors/new", folder / "data/mirrors/objects/new"),
    "reads-others": lambda: (folder / "beside").read_text(),
    "connects": lambda: socket.create_connection(sys.argv[2].split(":")),
    "listens": lambda: socket.create_server(("127.0.0.1", 0)),
    "asks-names": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
}.items() if can(act)))
"""


def attempts(folder: Path, confinement: Confinement, changed: Path | None, *, has_network: bool) -> set[str]:
    """Return what a program under a confinement could do."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-c", ATTEMPTS, str(folder), address]

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, stdout=subprocess.PIPE)

        process = confinement.start(begin, changed, has_network=has_network)
        return set(process.communicate(timeout=60)[0].decode().split())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "data/mirrors/objects").mkdir(parents=True)
    (tmp_path / "data/secret").write_text("canary")
    (tmp_path / "beside").write_text("beside")
    return tmp_path


@has_landlock
def test_a_program_with_network_changes_its_folder_and_reads_no_secret(tree: Path) -> None:
    confinement = Confinement(Concealed((tree / "data",), (tree / "data/mirrors",)))
    done = attempts(tree, confinement, tree / "data/mirrors", has_network=True)
    assert done == {"changes-its-own", "moves-its-own", "reads-others", "connects", "asks-names"}


@has_landlock
def test_a_program_without_network_changes_its_folder_only(tree: Path) -> None:
    confinement = Confinement(Concealed((tree / "data",), (tree / "data/mirrors",)))
    done = attempts(tree, confinement, tree / "data/mirrors", has_network=False)
    assert done == {"changes-its-own", "moves-its-own", "reads-others"}


@has_landlock
def test_a_program_that_may_change_nothing_reads_what_is_not_concealed(tree: Path) -> None:
    done = attempts(tree, Confinement(), None, has_network=False)
    assert done == {"reads-secret", "reads-environment", "reads-others"}


@has_landlock
def test_starting_a_program_restricts_nothing_else(tree: Path) -> None:
    attempts(tree, Confinement(Concealed((tree / "data",))), None, has_network=False)
    (tree / "beside").write_text("changed")
    assert (tree / "data/secret").read_text() == "canary"
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()


@has_landlock
def test_no_finalizer_of_another_object_runs_confined(tree: Path) -> None:
    class Removes:
        def __init__(self) -> None:
            self.itself = self
            self.path = tree / "left"

        def __del__(self) -> None:
            self.path.unlink()

    def begin() -> subprocess.Popen[bytes]:
        Removes()
        garbage = [[[]] for _ in range(100_000)]  # more than any threshold of the collection
        assert len(garbage) == 100_000
        return subprocess.Popen(["true"])

    (tree / "left").write_text("x")
    Confinement().start(begin, None, has_network=False).wait(60)
    assert gc.isenabled()
    gc.collect()
    assert not (tree / "left").exists()


def test_an_error_of_the_start_is_the_callers() -> None:
    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/nowhere/git"])

    with pytest.raises(FileNotFoundError):
        Confinement().start(begin, None, has_network=False)
