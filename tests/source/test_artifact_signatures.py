"""Signatures of artifacts by cosign: which are accepted, for which digest and files, and how they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, Refused, SourceUnavailable
from gitsync.integrations.registry import digest_of
from gitsync.objects.application import GitSource
from gitsync.objects.signers import Signer
from gitsync.ports import Credentials, SourceRevision
from gitsync.ports.source import ArtifactSignature
from gitsync.source.repositories import Repositories
from gitsync.source.signatures import verify_artifact, verify_revision
from tests.cosign import ANN, BOB, KEYS, PrivateKey, envelope, public, signature, signed_by
from tests.fakes.artifacts import FakeArtifacts, packed

DIGEST = f"sha256:{'a' * 64}"
OTHER = f"sha256:{'b' * 64}"


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("sign", [signature, envelope])
def test_keys_of_each_kind_sign(key: PrivateKey, sign: Callable[[str, PrivateKey], ArtifactSignature]) -> None:
    signed = sign(DIGEST, key)
    verify_artifact(DIGEST, [signature(DIGEST, BOB), signed], [public(key)])
    with pytest.raises(Refused, match="not among the trusted ones"):
        verify_artifact(DIGEST, [replace(signed, signature=signed.signature[:-1] + b"x")], [public(key)])
    with pytest.raises(Refused, match="not among the trusted ones"):
        verify_artifact(DIGEST, [replace(signed, statement=signed.statement + b" ")], [public(key)])


@pytest.mark.parametrize(
    ("signatures", "keys", "says"),
    [
        ([], [public()], "it is not signed"),
        ([signature(DIGEST, BOB)], [public()], "the key is not among the trusted ones"),
        ([signature(OTHER)], [public()], f"it is the one of {OTHER}"),
        ([envelope(OTHER)], [public()], f"it is the one of {OTHER}"),
        # an attestation by the same key says what the artifact is made of
        (
            [envelope(DIGEST, predicate="https://slsa.dev/provenance/v1")],
            [public()],
            "it is the one of another statement",
        ),
        ([envelope(DIGEST, kind="text/plain")], [public()], "it is the one of another statement"),
        ([signature(DIGEST)], ["ssh-ed25519 AAAA"], "none of the trusted keys is a public key of cosign"),
    ],
)
def test_what_is_not_signed_is_one_line(signatures: list[ArtifactSignature], keys: list[str], says: str) -> None:
    with pytest.raises(Refused) as refusal:
        verify_artifact(DIGEST, signatures, keys)
    assert says in refusal.value.message
    assert "\n" not in str(refusal.value)


def test_a_signature_of_another_artifact_hides_no_good_one() -> None:
    verify_artifact(DIGEST, [signature(OTHER), signature(DIGEST)], [public()])


@pytest.mark.parametrize("statement", [b"", b"[]", b'{"critical": []}', b"[" * 5000])
def test_an_odd_statement_that_is_signed_is_one_line(statement: bytes) -> None:
    odd = ArtifactSignature(statement, signed_by(ANN, statement))
    with pytest.raises(Refused, match="it is the one of"):
        verify_artifact(DIGEST, [odd], [public()])


def test_a_key_that_cannot_verify_is_one_line() -> None:
    broken = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
    with pytest.raises(InvalidInput, match="none of ECDSA, RSA and Ed25519"):
        verify_artifact(DIGEST, [signature(DIGEST)], [broken])


ARCHIVE = packed({"deploy/web.yaml": "a: 1", "team/x.yaml": "b: 1"})
SIGNED = digest_of(ARCHIVE)


@pytest.fixture
def servers() -> FakeArtifacts:
    return FakeArtifacts({"1.0.0": ARCHIVE}, is_chart=False)


@pytest.fixture
def repositories(tmp_path: Path, servers: FakeArtifacts) -> Iterator[Repositories]:
    opened = Repositories(tmp_path, artifacts=servers)
    yield opened
    opened.close()


SOURCE = GitSource(repo_url="oci://r.example.com/team/web", revision="1.0.0")


def verify(repositories: Repositories, *signers: Signer) -> None:
    """Verify the artifact that the source names, by one of some signers."""
    commit = repositories.resolve(SOURCE, Credentials())
    snapshot = repositories.snapshot(SOURCE, Credentials(), commit)
    digest = repositories.fetch_signatures(SOURCE, Credentials(), commit)
    verify_revision(SourceRevision(snapshot.git_dir, commit, "deploy", digest=digest), (signers,))


def test_an_artifact_is_accepted_once_it_is_signed(repositories: Repositories, servers: FakeArtifacts) -> None:
    signer = Signer(keys=(public(),))
    with pytest.raises(Refused, match="it is not signed"):
        verify(repositories, signer)
    servers.sign("1.0.0", signature(SIGNED))
    verify(repositories, signer)


def test_signatures_are_kept_like_the_artifact(repositories: Repositories, servers: FakeArtifacts) -> None:
    commit = repositories.resolve(SOURCE, Credentials())
    servers.failure = SourceUnavailable("away")
    with pytest.raises(SourceUnavailable):
        repositories.fetch_signatures(SOURCE, Credentials(), commit)
    servers.failure = None
    servers.sign("1.0.0", signature(SIGNED))
    verify(repositories, Signer(keys=(public(),)))
    servers.failure = SourceUnavailable("away")
    digest = repositories.fetch_signatures(SOURCE, Credentials(), commit)
    git_dir = repositories.snapshot(SOURCE, Credentials(), commit).git_dir
    verify_revision(SourceRevision(git_dir, commit, digest=digest), ((Signer(keys=(public(),)),),))


def test_keys_sign_the_files_that_they_may(repositories: Repositories, servers: FakeArtifacts) -> None:
    team = Signer(keys=(public(),), paths=("team/*",))
    rest = Signer(keys=(public(BOB),), paths=("deploy/*",))
    servers.sign("1.0.0", signature(SIGNED))
    # the folder that is rendered is not the whole of what is signed
    with pytest.raises(Refused, match=r"its key may not sign deploy/web\.yaml"):
        verify(repositories, team, rest)
    servers.sign("1.0.0", signature(SIGNED, BOB))
    verify(repositories, team, rest)


def test_who_signed_an_artifact_is_an_author(repositories: Repositories, servers: FakeArtifacts) -> None:
    servers.sign("1.0.0", signature(SIGNED))
    signer = Signer(keys=(public(),), users=("ann",))
    verify(repositories, signer)
    commit = repositories.resolve(SOURCE, Credentials())
    assert repositories.signing_users(SOURCE, "", commit, ((signer, Signer(keys=(public(BOB),), users=("bob",))),)) == {
        "ann"
    }
