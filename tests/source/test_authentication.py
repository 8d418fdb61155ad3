"""Signing in by SSH: the command line, and a real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.authentication import key_failure, server_access
from gitsync.source.repositories import Repositories
from tests.git_processes import processes_with
from tests.git_repository import ENV, GitRepo, ssh_key
from tests.ssh_server import SshServer, ssh_server
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
URL = "ssh://git@git.example.test/shop.git"


def config_of(command: str) -> dict[str, list[str]]:
    """Return the configuration that ssh uses for a host, option by option, started as git starts it."""
    program = ["sh", "-c", f'{command} "$@"', command, "-G", "git.example.test"]
    output = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("has_key", [False, True])
def test_ssh_uses_nothing_of_the_user_that_runs_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    credentials = Credentials(ssh_key=ssh_key(tmp_path, "key").read_text() if has_key else "")
    with server_access(URL, credentials, ("ssh",)) as access:
        config = config_of(access.env["GIT_SSH_COMMAND"])
    assert "SSH_AUTH_SOCK" not in access.env
    assert len(config["identityfile"]) == 1
    assert config["identityfile"][0].startswith("/proc/") if has_key else config["identityfile"] == ["none"]
    wanted = {"identitiesonly": "yes", "identityagent": "none", "forwardagent": "no", "forwardx11": "no"}
    assert {name: config[name] for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert config["stricthostkeychecking"] in (["true"], ["yes"])
    assert config["preferredauthentications"] == ["publickey"]


def test_a_key_is_readable_by_ssh_and_is_no_file_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    key = ssh_key(tmp_path, "key")
    credentials = Credentials(ssh_key=key.read_text(), known_hosts="git.example.test ssh-ed25519 AAAA\n")
    with server_access(URL, credentials, ("ssh",)) as access:
        config = config_of(access.env["GIT_SSH_COMMAND"])
        identity, known = config["identityfile"][0], config["userknownhostsfile"][0]
        public = subprocess.run(["ssh-keygen", "-y", "-f", identity], capture_output=True, text=True, check=True).stdout
        assert public.split()[:2] == key.with_suffix(".pub").read_text().split()[:2]
        assert Path(known).read_text() == credentials.known_hosts
        assert not os.listdir(folder)
        assert key.read_text().splitlines()[1] not in str(access.env)
    assert not Path(identity).exists()


@pytest.mark.parametrize("text", ["", "not a key", "ssh-ed25519 AAAA"])
def test_a_key_that_ssh_cannot_use_is_explained(text: str) -> None:
    assert "Load key" in key_failure(text)


def test_a_good_key_has_no_failure(tmp_path: Path) -> None:
    text = ssh_key(tmp_path, "key").read_text()
    assert key_failure(text) == key_failure(f"\n{text}\n\n") == ""


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
            ours = source.repo_url  # git has it in its environment, and what git starts
            until(lambda: "ssh" in processes_with(ours).values(), 30, lambda: processes_with(ours))
            process.kill()
        until(lambda: not processes_with(ours), 5, lambda: processes_with(ours))
    finally:
        os.kill(server.pid, signal.SIGCONT)
