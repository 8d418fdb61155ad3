"""What a real sshd sees of the controller, and what remains of its ssh processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.repositories import Repositories
from tests.git_processes import processes_with
from tests.git_repository import ENV, GitRepo
from tests.ssh_server import SshServer, ssh_server
from tests.waiting import until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "sshd") as made:
        yield made


@pytest.fixture
def source(tmp_path: Path, server: SshServer) -> GitSource:
    repo = GitRepo(tmp_path / "git")
    repo.commit({"a.yaml": "1"})
    return GitSource(repo_url=server.url(repo.origin))


@pytest.fixture
def agent(tmp_path: Path, server: SshServer) -> Iterator[Path]:
    """Run an ssh-agent with the key that the server admits; yield its socket."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("ssh-agent is not installed")
    socket = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL) as process:
        until(socket.exists)
        env = {**ENV, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(server.key_file)], env=env, check=True)
        yield socket
        process.terminate()


def test_keys_in_the_agent_of_the_user_sign_in_no_application(
    tmp_path: Path, server: SshServer, source: GitSource, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(server.known_hosts)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    env = {**ENV, "SSH_AUTH_SOCK": str(agent), "GIT_SSH_COMMAND": f"ssh -F none -o UserKnownHostsFile={known}"}
    subprocess.run(["git", "ls-remote", source.repo_url], env=env, check=True, capture_output=True)
    repositories = Repositories(tmp_path / "mirrors")
    with pytest.raises(SourceUnavailable, match="rejected the credentials"):
        repositories.resolve(source, Credentials(known_hosts=server.known_hosts))
    assert repositories.resolve(source, Credentials(ssh_key=server.key, known_hosts=server.known_hosts))


POLL = """
import json, sys
from pathlib import Path
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.repositories import Repositories
Repositories(Path(sys.argv[1])).resolve(GitSource(repo_url=sys.argv[2]), Credentials(**json.load(sys.stdin)))
"""


def test_a_killed_controller_leaves_no_ssh_process(tmp_path: Path, server: SshServer, source: GitSource) -> None:
    credentials = json.dumps({"ssh_key": server.key, "known_hosts": server.known_hosts}).encode()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", POLL, str(tmp_path / "mirrors"), source.repo_url], stdin=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            process.stdin.write(credentials)
            process.stdin.close()
            ours = f"/proc/{process.pid}/fd/"  # where its key and host keys are
            until(lambda: "ssh" in processes_with(ours).values(), 30, lambda: processes_with(ours))
            process.kill()
        until(lambda: not processes_with(ours), 5, lambda: processes_with(ours))
    finally:
        os.kill(server.pid, signal.SIGCONT)
