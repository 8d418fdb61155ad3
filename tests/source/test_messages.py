"""What a Git server, a repository or credentials can be wrong about: situation, message, fix, with real servers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gitsync.errors import GitsyncError
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.sandbox.http.transport.tls import Certificate, make_certificate
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import SourceLimits
from tests.git_http_server import EVERY, GitServer
from tests.git_repository import GitRepo, git
from tests.ssh_server import ssh_server

SECRET = "the Secret of spec.source.credentials"


@dataclass
class Site:
    """A Git server behind TLS with a private authority and a password, and what an Application says of it."""

    folder: Path
    server: GitServer
    repo: GitRepo
    certificate: Certificate
    credentials: Credentials
    revision: str = "main"
    url: str = ""
    limits: SourceLimits = field(default_factory=SourceLimits)

    def use(self, **changes: str) -> None:
        self.credentials = replace(self.credentials, **changes)

    def read(self) -> str:
        """Return a file, as a controller that has just started does."""
        source = GitSource(repo_url=self.url or self.server.url("origin.git"), revision=self.revision)
        repositories = Repositories(self.folder / "mirrors", Transport(("https", "ssh"), limits=self.limits))
        commit = repositories.resolve(source, self.credentials)
        return repositories.snapshot(source, self.credentials, commit).tree.read("a.yaml").decode()

    def revert(self, branch: str = "") -> None:
        """Push the revert of the newest commit."""
        source = GitSource(repo_url=self.server.url("origin.git"))
        repositories = Repositories(self.folder / "mirrors")
        commit = repositories.resolve(source, self.credentials)
        repositories.revert(source, self.credentials, [commit], author="Ada", branch=branch)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return make_certificate()


@pytest.fixture
def site(tmp_path: Path, certificate: Certificate) -> Iterator[Site]:
    repo = GitRepo(tmp_path / "git")
    repo.commit({"a.yaml": "1"})
    with GitServer(tmp_path / "git", certificate) as server:
        server.accepted = {"ada:right"}
        yield Site(tmp_path, server, repo, certificate, Credentials("ada", "right", ca=certificate.authority))


def fails(code: int, path: str = "") -> Callable[[Site], None]:
    return lambda site: site.server.failures.update({path: code})


def sign_in_page(site: Site) -> None:
    site.server.page = b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n"


def empty(site: Site) -> None:
    git(site.repo.origin, "update-ref", "-d", "refs/heads/main")


def revision(name: str) -> Callable[[Site], None]:
    def set_up(site: Site) -> None:
        git(site.repo.work, "push", "-q", "origin", "HEAD:refs/heads/maintenance", "HEAD:refs/tags/v1.2.0")
        site.revision = name

    return set_up


def abbreviated(site: Site) -> None:
    site.revision = git(site.repo.work, "rev-parse", "HEAD")[:10]


def upper_case(site: Site) -> None:
    site.revision = git(site.repo.work, "rev-parse", "HEAD").upper()


def not_advertised(site: Site) -> None:
    site.revision = site.repo.commit({"a.yaml": "2"})
    git(site.repo.work, "push", "-q", "--force", "origin", "HEAD~1:main")
    site.server.is_old = True  # a server of the second version gives each commit by its id


def tag_of_a_blob(site: Site) -> None:
    git(site.repo.work, "tag", "-a", "-m", "a key", "key", git(site.repo.work, "rev-parse", "HEAD:a.yaml"))
    git(site.repo.work, "push", "-q", "origin", "key")
    site.revision = "key"


def large(site: Site) -> None:
    site.repo.commit({"big": os.urandom(100_000)})
    site.limits = SourceLimits(pack_bytes=20_000)


def shallow(site: Site) -> None:
    site.repo.commit({"a.yaml": "2"})
    git(site.folder / "git", "clone", "-q", "--bare", "--depth", "1", site.repo.url, "shallow.git")
    site.url = site.server.url("shallow.git")


def moved(site: Site) -> None:
    site.server.redirects["/origin.git"] = "https://git.example.test/new/origin.git"


MESSAGES = {
    "wrong password": (
        lambda site: site.use(password="wrong"),
        "rejected the credentials, or requires some",
        f"set username and password (a token), or ssh-privatekey and known_hosts, in {SECRET}",
    ),
    "no password": (lambda site: site.use(password=""), "rejected the credentials, or requires some", SECRET),
    "forbidden": (
        fails(403),
        "does not allow these credentials to read the repository (403)",
        "grant them read access",
    ),
    "not found": (fails(404), "has no such repository, or does not show it to these", "correct spec.source.repoURL"),
    "too many requests": (fails(429), "limits the rate of requests (429)", "raise spec.sync.interval"),
    "too many fetches": (fails(429, "/git-upload-pack"), "limits the rate of requests (429)", "use webhooks"),
    "server error": (fails(500), "the Git server has failed (500)", "the request is retried"),
    "unavailable": (fails(503), "the Git server has failed (503)", "the request is retried"),
    "sign-in page": (sign_in_page, "a web page instead of Git", "set spec.source.repoURL to the URL for git clone"),
    "unknown authority": (
        lambda site: site.use(ca=make_certificate().authority),
        "the TLS certificate of 127.0.0.1 is not trusted",
        f"set ca.crt in {SECRET}",
    ),
    "private authority": (lambda site: site.use(ca=""), "is not trusted", "GITSYNC_GIT_CA for all Applications"),
    "connection cut": (
        lambda site: setattr(site.server, "cut", (EVERY, 0.5)),
        "the Git server refused or did not answer",
        "",
    ),
    "empty repository": (empty, "is empty, so 'main' does not exist in it", "push a first commit"),
    "missing branch": (revision("mainn"), "the revision 'mainn' does not exist in", "similar names: main"),
    "missing tag": (revision("v1.3.0"), "the revision 'v1.3.0' does not exist in", "similar names: v1.2.0"),
    "missing range": (revision(">=2"), "the revision '>=2' does not exist in", "main"),
    "abbreviated commit": (abbreviated, "does not exist in", "write a commit id in full"),
    "upper-case commit": (upper_case, "does not exist in", "in small letters"),
    "unknown commit": (
        lambda site: setattr(site, "revision", "1" * 40),
        f"does not have the commit {'1' * 40}, or does not serve it by its id",
        "set spec.source.revision to a branch or tag that contains it",
    ),
    "commit not advertised": (
        not_advertised,
        "or does not serve it by its id",
        "set spec.source.revision to a branch or tag that contains it",
    ),
    "tag of a blob": (tag_of_a_blob, "'key' names an object in", "tag a commit"),
    "pack limit": (large, "a pack of more than the limit of 20000 bytes", "raise GITSYNC_GIT_PACK"),
    "shallow upstream": (shallow, "is a shallow clone", "run git fetch --unshallow in it"),
    "moved to another host": (
        moved,
        "the repository has moved to https://git.example.test/new/origin.git",
        "set spec.source.repoURL to it",
    ),
    "no such host": (
        lambda site: setattr(site, "url", "https://git.invalid/origin.git"),
        "Could not resolve host",
        "",
    ),
}


@pytest.mark.parametrize("situation", MESSAGES)
def test_the_message_says_what_happened_and_how_to_fix_it(site: Site, situation: str) -> None:
    set_up, message, fix = MESSAGES[situation]
    set_up(site)
    with pytest.raises(GitsyncError) as caught:
        site.read()
    assert message in caught.value.message
    assert fix in caught.value.hint
    assert "right" not in str(caught.value)
    assert str(site.folder) not in str(caught.value)


def second_commit(site: Site) -> None:
    site.repo.commit({"a.yaml": "2"})
    git(site.repo.origin, "config", "http.receivepack", "true")


def refusing(words: str) -> Callable[[Site], None]:
    def protected(site: Site) -> None:
        second_commit(site)
        hook = site.repo.origin / "hooks" / "pre-receive"
        hook.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
        hook.chmod(0o755)

    return protected


def read_only(site: Site) -> None:
    second_commit(site)
    site.server.failures["/git-receive-pack"] = site.server.failures["service=git-receive-pack"] = 403


SIGNING = f"set a key in {SECRET}: signing-privatekey that the account verified at its host"
REVERT_MESSAGES = {
    "push refused": (
        refusing("main is protected: open a merge request"),
        "",
        "main is protected: open a merge request",
    ),
    # the words of Gitea, Forgejo and GitHub
    "signed commits at Gitea": (refusing("branch main is protected from unverified commit 1"), "", SIGNING),
    "signed commits at GitHub": (refusing("Commits must have verified signatures."), "", SIGNING),
    "no write access": (read_only, "", f"403; grant write access to the credentials in {SECRET}"),
    "revert of the first commit": (lambda site: None, "", "is the first one of the repository"),
    "branch that is a tag": (second_commit, "refs/tags/v1", "--branch: "),
    "branch that is an option": (second_commit, "--force", "--branch: "),
}


@pytest.mark.parametrize("situation", REVERT_MESSAGES)
def test_a_revert_that_cannot_be_pushed_says_why(site: Site, situation: str) -> None:
    set_up, branch, message = REVERT_MESSAGES[situation]
    set_up(site)
    refs = git(site.repo.work, "ls-remote", "origin")
    with pytest.raises(GitsyncError) as caught:
        site.revert(branch)
    assert message in str(caught.value)
    assert "right" not in str(caught.value)
    assert git(site.repo.work, "ls-remote", "origin") == refs


def test_a_server_with_a_private_authority_and_a_password_is_read(site: Site) -> None:
    assert site.read() == "1"


def test_a_redirect_on_the_same_host_is_followed(site: Site) -> None:
    site.server.redirects["/old"] = "/origin.git"
    site.url = site.server.url("old")
    assert site.read() == "1"
    site.server.redirects.clear()
    with pytest.raises(GitsyncError, match="no such repository"):
        site.read()


def test_credentials_are_not_sent_to_the_host_of_a_redirect(site: Site, certificate: Certificate) -> None:
    with GitServer(site.folder / "git", certificate) as other:
        site.server.redirects["/origin.git"] = other.url("origin.git")
        with pytest.raises(GitsyncError, match="has moved to"):
            site.read()
        assert not other.requests


def test_the_user_of_the_url_is_used_where_the_secret_has_none(site: Site) -> None:
    site.use(username="")
    site.url = site.server.url("origin.git").replace("https://", "https://ada@")
    assert site.read() == "1"


def test_certificates_of_the_operator_are_trusted(site: Site) -> None:
    file = site.folder / "ca.crt"
    file.write_text(site.certificate.authority)
    repositories = Repositories(site.folder / "mirrors", Transport(ca_file=file))
    source = GitSource(repo_url=site.server.url("origin.git"))
    assert repositories.resolve(source, Credentials("ada", "right"))


def encrypted(site: Site, key: str) -> str:
    file = site.folder / "encrypted"
    file.write_text(key)
    file.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "passphrase", "-f", str(file)], check=True, capture_output=True)
    return file.read_text()


SSH_MESSAGES = {
    "no host key": (lambda site, key: site.use(known_hosts=""), "host key of 127.0.0.1 is unknown", "known_hosts in"),
    "changed host key": (
        lambda site, key: site.use(known_hosts=f"{site.credentials.known_hosts.split()[0]} {OTHER_KEY}\n"),
        "host key of 127.0.0.1 has changed",
        "ssh-keyscan -p ",
    ),
    "key with a passphrase": (
        lambda site, key: site.use(ssh_key=encrypted(site, key)),
        "the SSH key has a passphrase",
        "ssh-keygen -p",
    ),
    "not a private key": (
        lambda site, key: site.use(ssh_key="-----BEGIN OPENSSH PRIVATE KEY-----\nabc"),
        "is not a private key",
        "the complete private key",
    ),
    "public key": (lambda site, key: site.use(ssh_key=OTHER_KEY), "is not a private key", "ssh-privatekey in"),
    "no key": (lambda site, key: site.use(ssh_key=""), "rejected the credentials", "ssh-privatekey"),
    "no repository": (lambda site, key: setattr(site, "url", f"{site.url}x"), "no such repository", "repoURL"),
}
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDdBxzYBx2ASQlLN5bDsPKGBhLhk6d28bv0yCJFV3XNw"


@pytest.fixture
def ssh_site(site: Site) -> Iterator[Site]:
    with ssh_server(site.folder / "sshd") as server:
        site.url = server.url(site.repo.origin)
        site.credentials = Credentials(ssh_key=server.key, known_hosts=server.known_hosts)
        yield site


def test_a_repository_is_read_over_ssh(ssh_site: Site) -> None:
    assert ssh_site.read() == "1"


@pytest.mark.parametrize("situation", SSH_MESSAGES)
def test_ssh_says_what_happened_and_how_to_fix_it(ssh_site: Site, situation: str) -> None:
    set_up, message, fix = SSH_MESSAGES[situation]
    set_up(ssh_site, ssh_site.credentials.ssh_key)
    with pytest.raises(GitsyncError) as caught:
        ssh_site.read()
    assert message in caught.value.message
    assert fix in caught.value.hint
