"""Signatures of commits, verified with the keys that an Application trusts."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from gitsync.errors import InvalidInput, Refused, SourceUnavailable
from gitsync.source.git import GitFailed, environment, run

_SSH_KEY = re.compile(r"^(ssh-|ecdsa-|sk-)", re.MULTILINE)
_GPG_STATUS = {
    "GOODSIG": "",
    "BADSIG": "the signature does not fit the commit",
    "EXPSIG": "the signature is expired",
    "EXPKEYSIG": "the key is expired",
    "REVKEYSIG": "the key was revoked",
    "ERRSIG": "the key is not among the trusted ones",
    "NO_PUBKEY": "the key is not among the trusted ones",
}


def verify_commit(git_dir: Path, commit: str, trusted: Mapping[str, str], since: str = "") -> str:
    """
    Return the key that signed a commit; raise Refused unless all commits after ``since`` have a trusted signature.

    A signed commit on top of an unsigned one would otherwise apply both. Without ``since``, or where it is not in the
    mirror, only the commit itself is verified. ``trusted`` maps names to texts: armored OpenPGP public keys, SSH
    public keys (one in a line), or lines of an SSH ``allowed_signers`` file, whose validity times count.
    """
    if not trusted:
        raise InvalidInput(
            "no trusted keys are named", location="spec.source.verify", hint="name a Secret with public keys: secretRef"
        )
    with _keyring(trusted) as env:
        key = _verify_one(git_dir, commit, env)
        for earlier in _commits_between(git_dir, since, commit, env):
            _verify_one(git_dir, earlier, env)
        return key


def _commits_between(git_dir: Path, since: str, commit: str, env: Mapping[str, str]) -> list[str]:
    """Return the ancestors of a commit that ``since`` does not contain, of merged branches too."""
    if not since:
        return []
    try:
        run(git_dir, "cat-file", "-e", f"{since}^{{commit}}", env=env)
    except GitFailed:
        return []
    try:
        return run(git_dir, "rev-list", "--skip=1", commit, f"^{since}", env=env).decode().split()
    except GitFailed as error:
        raise SourceUnavailable(f"the commits from {since[:12]} to {commit[:12]} cannot be read: {error}") from error


def _verify_one(git_dir: Path, commit: str, env: Mapping[str, str]) -> str:
    try:
        output = run(git_dir, "cat-file", "commit", commit, env=env)
    except GitFailed as error:
        raise Refused(f"commit {commit[:12]} cannot be read", location="spec.source.verify") from error
    if b"\ngpgsig" not in output.partition(b"\n\n")[0]:
        raise _refused(commit, "it is not signed")
    done = subprocess.run(
        ["git", "--git-dir", str(git_dir), "verify-commit", "--raw", commit],
        env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    text = done.stderr.decode(errors="replace")
    return _gpg_verdict(commit, text) if "[GNUPG:]" in text else _ssh_verdict(commit, text, done.returncode)


def _gpg_verdict(commit: str, text: str) -> str:
    """Return the key id of a good signature, by GnuPG's status lines (doc/DETAILS of GnuPG)."""
    lines = [line.split() for line in text.splitlines() if line.startswith("[GNUPG:]")]
    found = {parts[1]: parts[2] if len(parts) > 2 else "" for parts in lines if len(parts) > 1}
    for status, reason in _GPG_STATUS.items():
        if reason and status in found:
            raise _refused(commit, reason, found[status])
    if "GOODSIG" not in found or "VALIDSIG" not in found:
        raise _refused(commit, "the signature cannot be checked")
    return found["VALIDSIG"]


def _ssh_verdict(commit: str, text: str, code: int) -> str:
    """Return the fingerprint of a good signature, by what ssh-keygen prints through git."""
    key = re.search(r"SHA256:\S+", text)
    name = key.group() if key else ""
    if code == 0 and text.startswith('Good "git" signature for '):
        return name
    if "No principal matched" in text or text.startswith('Good "git" signature with'):
        raise _refused(commit, "the key is not among the trusted ones, or not at that time", name)
    if "expired" in text:
        raise _refused(commit, "the key is expired", name)
    raise _refused(commit, "the signature does not fit the commit or the key is not among the trusted ones", name)


def _refused(commit: str, reason: str, key: str = "") -> Refused:
    return Refused(
        f"the signature of commit {commit[:12]} is not accepted: {reason}" + (f" (key {key})" if key else ""),
        location="spec.source.verify",
        hint="sign it with a trusted key; the last good revision stays applied",
    )


@contextlib.contextmanager
def _keyring(trusted: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield an environment in which git knows the trusted keys and no others."""
    with tempfile.TemporaryDirectory(prefix="gitsync-keys-") as folder:
        home = Path(folder) / "gpg"
        home.mkdir(mode=0o700)
        signers = Path(folder) / "allowed_signers"
        signers.write_text("".join(_signer_lines(trusted)))
        env = environment((), {"gpg.ssh.allowedSignersFile": str(signers)}) | {"GNUPGHOME": str(home), "HOME": folder}
        armored = "\n".join(text for text in trusted.values() if "BEGIN PGP PUBLIC KEY" in text)
        if armored:
            subprocess.run(
                ["gpg", "--batch", "--quiet", "--no-autostart", "--import"],
                env=env, input=armored.encode(), capture_output=True, timeout=30, check=False,
            )  # fmt: skip
            # a key in the Secret is trusted; GnuPG's own web of trust does not apply
            (home / "gpg.conf").write_text("trust-model always\nno-auto-key-retrieve\n")
        yield env


def _signer_lines(trusted: Mapping[str, str]) -> Iterator[str]:
    for text in trusted.values():
        if "BEGIN PGP" in text:
            continue
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                yield f"* {line}\n" if _SSH_KEY.match(line) else f"{line}\n"
