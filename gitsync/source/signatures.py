"""Signatures of commits and tags, verified by git with some keys and no others."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from gitsync.errors import Refused
from gitsync.source.git import GitFailed, environment, run

Kind = Literal["commit", "tag"]

_SSH_KEY = re.compile(r"^(ssh-|ecdsa-|sk-)", re.MULTILINE)
_SIGNED = {"commit": re.compile(rb"\A(?:.+\n)*?gpgsig"), "tag": re.compile(rb"^-----BEGIN (?:PGP|SSH) ", re.MULTILINE)}
_UNKNOWN = "the key is not among the trusted ones"
_GPG_STATUS = {
    "GOODSIG": "",
    "BADSIG": "the signature does not fit the {}",
    "EXPSIG": "the signature is expired",
    "EXPKEYSIG": "the key is expired",
    "REVKEYSIG": "the key was revoked",
    "ERRSIG": _UNKNOWN,
    "NO_PUBKEY": _UNKNOWN,
}


def verify_object(git_dir: Path, kind: Kind, id: str, env: Mapping[str, str]) -> str:
    """Return the key that signed a commit or a tag; raise Refused unless the keyring of ``env`` has it."""
    try:
        content = run(git_dir, "cat-file", kind, id, env=env)
    except GitFailed as error:
        raise Refused(f"{kind} {id[:12]} cannot be read", location="spec.source.verify") from error
    if not _SIGNED[kind].search(content):
        raise refused(kind, id, "it is not signed")
    done = subprocess.run(
        ["git", "--git-dir", str(git_dir), f"verify-{kind}", "--raw", id],
        env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    text = done.stderr.decode(errors="replace")
    return _gpg_verdict(kind, id, text) if "[GNUPG:]" in text else _ssh_verdict(kind, id, text, done.returncode)


def _gpg_verdict(kind: Kind, id: str, text: str) -> str:
    """Return the key id of a good signature, by GnuPG's status lines (doc/DETAILS of GnuPG)."""
    lines = [line.split() for line in text.splitlines() if line.startswith("[GNUPG:]")]
    found = {parts[1]: parts[2] if len(parts) > 2 else "" for parts in lines if len(parts) > 1}
    for status, reason in _GPG_STATUS.items():
        if reason and status in found:
            raise refused(kind, id, reason.format(kind), found[status])
    if "GOODSIG" not in found or "VALIDSIG" not in found:
        raise refused(kind, id, "the signature cannot be checked")
    return found["VALIDSIG"]


def _ssh_verdict(kind: Kind, id: str, text: str, code: int) -> str:
    """Return the fingerprint of a good signature, by what ssh-keygen prints through git."""
    key = re.search(r"SHA256:\S+", text)
    name = key.group() if key else ""
    if code == 0 and text.startswith('Good "git" signature for '):
        return name
    if "No principal matched" in text or text.startswith('Good "git" signature with'):
        raise refused(kind, id, f"{_UNKNOWN}, or not at that time", name)
    if "expired" in text:
        raise refused(kind, id, "the key is expired", name)
    raise refused(kind, id, f"the signature does not fit the {kind} or {_UNKNOWN}", name)


def refused(kind: Kind, id: str, reason: str, key: str = "") -> Refused:
    """Return the error of a signature that does not count."""
    return Refused(
        f"the signature of {kind} {id[:12]} is not accepted: {reason}" + (f" (key {key})" if key else ""),
        location="spec.source.verify",
        hint="sign it with a trusted key; the last good revision stays applied",
    )


@contextlib.contextmanager
def keyring(keys: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield an environment in which git knows these keys and no others."""
    keys = tuple(keys)
    with tempfile.TemporaryDirectory(prefix="gitsync-keys-") as folder:
        home = Path(folder) / "gpg"
        home.mkdir(mode=0o700)
        signers = Path(folder) / "allowed_signers"
        signers.write_text("".join(_signer_lines(keys)))
        env = environment((), {"gpg.ssh.allowedSignersFile": str(signers)}) | {"GNUPGHOME": str(home), "HOME": folder}
        armored = "\n".join(text for text in keys if "BEGIN PGP PUBLIC KEY" in text)
        if armored:
            subprocess.run(
                ["gpg", "--batch", "--quiet", "--no-autostart", "--import"],
                env=env, input=armored.encode(), capture_output=True, timeout=30, check=False,
            )  # fmt: skip
            # a key that is named is trusted; GnuPG's own web of trust does not apply
            (home / "gpg.conf").write_text("trust-model always\nno-auto-key-retrieve\n")
        yield env


def _signer_lines(keys: Iterable[str]) -> Iterator[str]:
    for text in keys:
        if "BEGIN PGP" in text:
            continue
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                yield f"* {line}\n" if _SSH_KEY.match(line) else f"{line}\n"
