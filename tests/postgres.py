"""A PostgreSQL of our own, on a socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def programs() -> Path | None:
    """Return the folder of the newest server programs, None where there are none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    folder: Path
    bin: Path

    @property
    def url(self) -> str:
        """The URL of its database ``postgres``."""
        return f"postgresql://gitsync@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off"
        self.run("pg_ctl", "-D", "data", "-o", options, "-w", "-l", "log", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it as a crash does, or in another mode of ``pg_ctl``."""
        self.run("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL, as another user where this one is root, which it refuses."""
        user: dict[str, int] = {}
        if os.geteuid() == 0:
            postgres = pwd.getpwnam("postgres")
            user = {"user": postgres.pw_uid, "group": postgres.pw_gid}
        command = [str(self.bin / program), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, **user)  # type: ignore[call-overload]


@contextmanager
def running(bin: Path) -> Iterator[Postgres]:
    """Run a new server until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="gitsync-pg-", dir="/tmp"))  # a path of a socket must be short
    server = Postgres(folder, bin)
    try:
        if os.geteuid() == 0:
            postgres = pwd.getpwnam("postgres")
            os.chown(folder, postgres.pw_uid, postgres.pw_gid)
        server.run("initdb", "-D", "data", "-U", "gitsync", "-A", "trust", "--no-sync")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
