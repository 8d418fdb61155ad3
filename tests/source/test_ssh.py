"""The ssh command line that git runs, as the real ssh and ssh-keygen read it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from gitsync.ports import Credentials
from gitsync.source.transport.authentication import authenticated_env
from gitsync.source.transport.ssh import key_failure
from tests.git_repository import ssh_key

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
URL = "ssh://git@git.example.test/shop.git"


def config_of(command: str) -> dict[str, list[str]]:
    """Return the configuration that ssh uses for a host, option by option."""
    output = subprocess.run(
        [*shlex.split(command), "-G", "git.example.test"], capture_output=True, text=True, check=True
    ).stdout
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
    with authenticated_env(URL, credentials, ("ssh",)) as env:
        config = config_of(env["GIT_SSH_COMMAND"])
    assert "SSH_AUTH_SOCK" not in env
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
    with authenticated_env(URL, credentials, ("ssh",)) as env:
        config = config_of(env["GIT_SSH_COMMAND"])
        identity, known = config["identityfile"][0], config["userknownhostsfile"][0]
        public = subprocess.run(["ssh-keygen", "-y", "-f", identity], capture_output=True, text=True, check=True).stdout
        assert public.split()[:2] == key.with_suffix(".pub").read_text().split()[:2]
        assert Path(known).read_text() == credentials.known_hosts
        assert not os.listdir(folder)
        assert key.read_text().splitlines()[1] not in str(env)
    assert not Path(identity).exists()


@pytest.mark.parametrize("text", ["", "not a key", "ssh-ed25519 AAAA"])
def test_a_key_that_ssh_cannot_use_is_explained(text: str) -> None:
    assert "Load key" in key_failure(text)


def test_a_good_key_has_no_failure(tmp_path: Path) -> None:
    text = ssh_key(tmp_path, "key").read_text()
    assert key_failure(text) == key_failure(f"\n{text}\n\n") == ""
