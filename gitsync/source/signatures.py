"""
Who signed a revision: the signatures of its commits, or of its tag, by the keys that may sign what they change.

An artifact is signed as a whole, by cosign; its signatures are kept in the mirror.
"""

from __future__ import annotations

import base64
import contextlib
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import orjson

from gitsync.errors import InvalidInput, Refused, SourceUnavailable
from gitsync.objects.manifest import at
from gitsync.objects.signers import Signer, Trust
from gitsync.ports import SourceRevision, Tag
from gitsync.ports.source import ArtifactSignature
from gitsync.source.git import GitFailed, environment, run
from gitsync.source.validation import clean_path

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

Kind = Literal["commit", "tag", "artifact"]

_SSH_KEY = re.compile(r"^(ssh-|ecdsa-|sk-)", re.MULTILINE)
_PEM_KEY: Final = re.compile(r"-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----")
_SIGNED = {"commit": re.compile(rb"\A(?:.+\n)*?gpgsig"), "tag": re.compile(rb"^-----BEGIN (?:PGP|SSH) ", re.MULTILINE)}
_UNSIGNED = "it is not signed"
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
        raise refused(kind, id, _UNSIGNED)
    done = subprocess.run(
        ["git", "--git-dir", str(git_dir), f"verify-{kind}", "--raw", id],
        env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    text = done.stderr.decode(errors="replace")
    return _gpg_verdict(kind, id, text) if "[GNUPG:]" in text else _ssh_verdict(kind, id, text, done.returncode)


def _gpg_verdict(kind: Kind, id: str, text: str) -> str:
    """Return the key id of a good signature, by GnuPG's status lines (doc/DETAILS of GnuPG)."""
    lines = [line.split() for line in text.splitlines() if line.startswith("[GNUPG:]")]
    keys = {parts[1]: parts[2] if len(parts) > 2 else "" for parts in lines if len(parts) > 1}
    # bad ones first: one block may hold several signatures, and one that fits must not hide one that does not
    for status, reason in _GPG_STATUS.items():
        if reason and status in keys:
            raise refused(kind, id, reason.format(kind), keys[status])
    # VALIDSIG alone is not enough: GnuPG prints it for expired signatures and revoked keys too (doc/DETAILS)
    if "GOODSIG" not in keys or "VALIDSIG" not in keys:
        raise refused(kind, id, "the signature cannot be checked")
    return keys["VALIDSIG"]


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
    shown = id.removeprefix("sha256:")[:12]
    return Refused(
        f"the signature of {kind} {shown} is not accepted: {reason}" + (f" (key {key})" if key else ""),
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
            # --no-autostart: importing needs no agent, and one would outlive this process
            subprocess.run(
                ["gpg", "--batch", "--quiet", "--no-autostart", "--import"],
                env=env, input=armored.encode(), capture_output=True, timeout=30, check=False,
            )  # fmt: skip
            # a key that is named is trusted; GnuPG's own web of trust does not apply
            (home / "gpg.conf").write_text("trust-model always\nno-auto-key-retrieve\n")
        yield env


def _signer_lines(keys: Iterable[str]) -> Iterator[str]:
    for text in keys:
        if "BEGIN PGP" in text or _PEM_KEY.search(text):
            continue
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                yield f"* {line}\n" if _SSH_KEY.match(line) else f"{line}\n"


# signers, each with the environment in which git knows its keys
_Known = Sequence[tuple[Signer, Mapping[str, str]]]


def verify_revision(revision: SourceRevision, trust: Trust) -> None:
    """
    Raise Refused unless all commits after the applied one are signed by keys that may sign what they change.

    A signed commit on top of an unsigned one would otherwise apply both. Without an applied commit, or where it is not
    in the mirror, only the commit itself is verified, and its keys have to cover every file of the folder too. The
    signature of a tag is accepted in place of those of its commits if a signer sets ``tags: true``.
    """
    for signers in trust:
        if not any(key.strip() for signer in signers for key in signer.keys):
            raise InvalidInput(
                "no trusted keys are named",
                location="spec.source.verify",
                hint="name a Secret with public keys: secretRef",
            )
        if revision.digest:
            _verify_artifact(revision, signers)
            continue
        with contextlib.ExitStack() as stack:
            known = [(signer, stack.enter_context(keyring(signer.keys))) for signer in signers]
            _Verification(revision, known).run()


def signing_users(git_dir: Path, commits: Mapping[str, str], trust: Trust) -> frozenset[str]:
    """
    Return the users of the signers whose keys signed one of some commits.

    ``commits`` are their ids, with the digest of the artifact that each one is, empty for one of Git.
    """
    users: set[str] = set()
    for signer in (signer for signers in trust for signer in signers if signer.users):
        with keyring(signer.keys) as env:
            if any(_is_signed_by(git_dir, commit, digest, signer, env) for commit, digest in commits.items()):
                users |= set(signer.users)
    return frozenset(users)


def _is_signed_by(git_dir: Path, commit: str, digest: str, signer: Signer, env: Mapping[str, str]) -> bool:
    with contextlib.suppress(Refused):
        if digest:
            verify_artifact(digest, kept_signatures(git_dir, digest), signer.keys)
        else:
            verify_object(git_dir, "commit", commit, env)
        return True
    return False


_SIGNATURES: Final = "refs/gitsync/signatures"
"""Where the signatures of artifacts are in a mirror, by digest: one blob for each artifact."""
_SIMPLE_SIGNING: Final = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1")
_STATEMENT: Final = "application/vnd.in-toto+json"
_SIGN: Final = "https://sigstore.dev/cosign/sign/v1"


def keep_signatures(git_dir: Path, digest: str, signatures: Sequence[ArtifactSignature]) -> None:
    """Write the signatures of an artifact into its mirror, in place of those that are there."""
    listed = [
        {
            "statement": base64.b64encode(signature.statement).decode(),
            "signature": base64.b64encode(signature.signature).decode(),
            "type": signature.payload_type,
        }
        for signature in signatures
    ]
    env = environment(())
    try:
        id = run(git_dir, "hash-object", "-w", "--stdin", env=env, stdin=orjson.dumps(listed)).decode().strip()
        run(git_dir, "update-ref", _signatures_ref(digest), id, env=env)
    except GitFailed as error:
        raise SourceUnavailable(f"the signatures of {digest} cannot be written: {error}") from error


def kept_signatures(git_dir: Path, digest: str) -> tuple[ArtifactSignature, ...]:
    """Return the signatures of an artifact that are in its mirror."""
    try:
        listed = orjson.loads(run(git_dir, "cat-file", "blob", _signatures_ref(digest), env=environment(())))
    except GitFailed:  # there are none
        return ()
    return tuple(
        ArtifactSignature(base64.b64decode(item["statement"]), base64.b64decode(item["signature"]), item["type"])
        for item in listed
    )


def _signatures_ref(digest: str) -> str:
    return f"{_SIGNATURES}/{digest.removeprefix('sha256:')}"


def _verify_artifact(revision: SourceRevision, signers: Sequence[Signer]) -> None:
    """Raise Refused unless keys that may sign all files of an artifact signed it."""
    git_dir = Path(revision.git_dir)
    signatures = kept_signatures(git_dir, revision.digest)
    # of the whole artifact, also where a folder of it is rendered: a signature is one of all
    unsigned = frozenset(
        _names(run(git_dir, *_ALL_FILES, revision.commit, env=environment(())).decode(errors="replace"))
    )
    refusals = []
    for signer in signers:
        try:
            verify_artifact(revision.digest, signatures, signer.keys)
        except Refused as refusal:
            refusals.append(refusal)
            continue
        unsigned = signer.unsigned(unsigned)
        if not unsigned:
            return
    if len(refusals) == len(signers):
        raise next((refusal for refusal in refusals if _UNKNOWN not in refusal.message), refusals[0])
    raise refused("artifact", revision.digest, f"its key may not sign {_some_of(unsigned)}")


_ALL_FILES: Final = ("ls-tree", "-r", "-z", "--name-only", "--full-tree")


def verify_artifact(digest: str, signatures: Iterable[ArtifactSignature], keys: Iterable[str]) -> None:
    """
    Raise Refused unless one of some signatures is cosign's of this artifact, by one of the keys that are PEM.

    Source: cosign's SIGNATURE_SPEC.md; the DSSE protocol, "Signature Definition".
    """
    public_keys = [key for text in keys for key in _public_keys(text)]
    if not public_keys:
        raise refused("artifact", digest, "none of the trusted keys is a public key of cosign (PEM)")
    reason = _UNSIGNED
    for signature in signatures:
        if any(_is_signed_with(signature, key) for key in public_keys):
            # it may be copied from another artifact: what counts is the digest in what it signs
            signed = _signed_digests(signature)
            if digest in signed:
                return
            reason = f"it is the one of {', '.join(signed) or 'another statement'}"
        elif reason == _UNSIGNED:
            reason = _UNKNOWN
    raise refused("artifact", digest, reason)


def _public_keys(text: str) -> Iterator[PublicKeyTypes]:
    """Yield the public keys in a text; raise InvalidInput for one that cannot verify."""
    # late, as cryptography below: it takes 8 MiB in each process, and few of them verify artifacts
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    for block in _PEM_KEY.findall(text):
        try:
            key = load_pem_public_key(block.encode())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey):
            raise InvalidInput(
                "a public key is none of ECDSA, RSA and Ed25519",
                location="spec.source.verify",
                hint="put in the cosign.pub that cosign generate-key-pair writes",
            )
        yield key


def _is_signed_with(signature: ArtifactSignature, key: PublicKeyTypes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256

    message = signature.statement
    if signature.payload_type:  # the encoding that is signed in place of an envelope
        kind = signature.payload_type.encode()
        message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(message), message)
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature.signature, message, ec.ECDSA(SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(signature.signature, message, padding.PKCS1v15(), SHA256())
        elif isinstance(key, Ed25519PublicKey):
            key.verify(signature.signature, message)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _signed_digests(signature: ArtifactSignature) -> list[str]:
    """Return the digests of the artifacts that a statement says are signed; none for a statement of another kind."""
    try:
        statement = orjson.loads(signature.statement)
    except ValueError:
        return []
    if not signature.payload_type:
        critical = at(statement, "critical", default={})
        digest = at(critical, "image", "docker-manifest-digest", default="")
        return [str(digest)] if at(critical, "type") in _SIMPLE_SIGNING else []
    # the same key may sign what an artifact is made of (an attestation), which does not release it
    if signature.payload_type != _STATEMENT or at(statement, "predicateType") != _SIGN:
        return []
    subjects = at(statement, "subject")
    return [
        f"sha256:{at(subject, 'digest', 'sha256', default='')}"
        for subject in (subjects if isinstance(subjects, list) else ())
    ]


class _Verification:
    """Verify one revision by one set of signers."""

    def __init__(self, revision: SourceRevision, known: _Known) -> None:
        self._revision = revision
        self._git_dir = Path(revision.git_dir)
        self._known = known
        self._env = environment(())
        self._names_files = any(signer.paths != ("*",) for signer, _ in known)

    def run(self) -> None:
        """Verify the tag, or else each commit."""
        earlier = self._earlier()
        tag = self._revision.tag
        commits = [self._revision.commit, *(earlier or ())]
        vouched = self._files() if earlier is None else frozenset[str]()
        if tag is not None and self._is_signed(tag, vouched | self._changed(commits)):
            return
        for number, id in enumerate(commits):
            self._check("commit", id, self._changed([id]) | (frozenset() if number else vouched), self._known)

    def _earlier(self) -> list[str] | None:
        """Return the commits between the applied commit and this one; None if no applied commit is in the mirror."""
        since, commit = self._revision.since, self._revision.commit
        if not since:
            return None
        try:
            run(self._git_dir, "cat-file", "-e", f"{since}^{{commit}}", env=self._env)
        except GitFailed:
            return None
        return self._git("rev-list", "--skip=1", commit, f"^{since}").split()

    def _is_signed(self, tag: Tag, changed: frozenset[str]) -> bool:
        """Return whether a tag is signed by keys that may sign all that its commits change."""
        taggers = [(signer, env) for signer, env in self._known if signer.tags]
        if not taggers:
            return False
        header, _, _ = self._git("cat-file", "tag", tag.id).partition("\n\n")
        if f"\ntag {tag.name}\n" not in f"{header}\n":
            return False  # a ref may be moved to the signed tag of another version
        try:
            self._check("tag", tag.id, changed, taggers)
        except Refused:
            return False
        return True

    def _files(self) -> frozenset[str]:
        """Return the files of the folder, where it matters which these are."""
        if not self._names_files:
            return frozenset()
        names = _names(self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", self._revision.commit))
        folder = clean_path(self._revision.path)
        return frozenset(name for name in names if not folder or name.startswith(f"{folder}/"))

    def _changed(self, commits: Iterable[str]) -> frozenset[str]:
        """
        Return the files that commits change, where it matters which these are.

        A merge changes what differs from the automatic merge of its parents, and one of more than two parents what
        differs from any of them.
        """
        if not self._names_files:
            return frozenset()
        return frozenset(name for commit in commits for name in self._changed_by(commit))

    def _changed_by(self, commit: str) -> list[str]:
        parents = len(self._git("rev-list", "--parents", "--max-count=1", commit).split()) - 1
        # git cannot remerge an octopus; an evil merge would otherwise hide changes that no parent has
        merge = "-m" if parents > 2 else "--remerge-diff"
        options = ("--format=", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        return _names(self._git("show", merge, *options, commit))

    def _check(self, kind: Kind, id: str, paths: Collection[str], known: _Known) -> None:
        """Raise Refused unless keys that may sign a change of all these files signed a commit or a tag."""
        unsigned = frozenset(paths)
        key = ""
        refusals = []
        for signer, env in known:
            rest = signer.unsigned(unsigned)
            if key and rest == unsigned:  # this signer covers none of them, so a check would cost a process in vain
                continue
            try:
                key = verify_object(self._git_dir, kind, id, env)
                unsigned = rest
            except Refused as refusal:
                refusals.append(refusal)
            if key and not unsigned:
                return
        if not key:
            raise next((refusal for refusal in refusals if "not among" not in refusal.message), refusals[0])
        raise refused(kind, id, f"its key may not sign a change of {_some_of(unsigned)}", key)

    def _git(self, *arguments: str) -> str:
        try:
            return run(self._git_dir, *arguments, env=self._env).decode(errors="surrogateescape")
        except GitFailed as error:
            commit = self._revision.commit[:12]
            raise SourceUnavailable(f"the signatures of {commit} cannot be verified: {error}") from error


def _some_of(files: Collection[str]) -> str:
    return min(files) + (f" and {len(files) - 1} more files" if len(files) > 1 else "")


def _names(listed: str) -> list[str]:
    """Return names that git divides by NUL."""
    return [name for name in listed.split("\0") if name]
