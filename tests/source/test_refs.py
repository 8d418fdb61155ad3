"""Which branch or tag a revision names."""

from __future__ import annotations

import tracemalloc

import pytest

from gitsync.errors import InvalidInput, MissingRevision
from gitsync.source.refs import RefListing, branch_name, find_ref, hidden_range, missing_revision

REFS = ("refs/heads/main", "refs/heads/1.x", "refs/heads/v2.3.x", "refs/heads/>=1", "refs/tags/v1.4.0", "refs/tags/9.x")
URL = "https://git.example.test/shop"


@pytest.mark.parametrize(
    ("revision", "ref"),
    [
        ("main", "refs/heads/main"),
        ("v1.4.0", "refs/tags/v1.4.0"),
        ("refs/heads/1.x", "refs/heads/1.x"),
        pytest.param("1.x", "refs/heads/1.x", id="the branch, not the range"),
        pytest.param("v2.3.x", "refs/heads/v2.3.x", id="the branch of a minor version"),
        pytest.param("9.x", "refs/tags/9.x", id="a tag of that name"),
        pytest.param("v1.x", "refs/tags/v1.4.0", id="a range, since no branch has the name"),
        pytest.param(">=1", "refs/tags/v1.4.0", id="an operator is a range whatever branches there are"),
        pytest.param("~1", "refs/tags/v1.4.0", id="a range"),
        pytest.param("3.x", None, id="neither"),
        pytest.param("a" * 40, None, id="a commit id"),
    ],
)
def test_a_revision_names_one_ref(revision: str, ref: str | None) -> None:
    assert find_ref(revision, REFS) == ref


def test_a_branch_and_a_tag_of_one_version_name_are_ambiguous() -> None:
    with pytest.raises(InvalidInput, match=r"'1\.x' is ambiguous"):
        find_ref("1.x", (*REFS, "refs/tags/1.x"))


@pytest.mark.parametrize(
    ("revision", "warning"),
    [
        ("1.x", "the revision 1.x is refs/heads/1.x, not a range of versions; write ~1 for the highest tag"),
        ("v2.3.x", ""),  # no tag is in the range, so nothing is hidden
        ("v1.x", ""),
        ("~1", ""),
        ("main", ""),
    ],
)
def test_a_branch_that_hides_a_range_is_reported(revision: str, warning: str) -> None:
    assert hidden_range(revision, REFS) == warning


def test_what_could_be_a_branch_counts_as_one_before_an_answer() -> None:
    names = {revision: branch_name(revision) for revision in ("main", "1.x", "~1", "refs/tags/v1", "a" * 40)}
    assert names == {
        "main": "refs/heads/main", "1.x": "refs/heads/1.x", "~1": None, "refs/tags/v1": None, "a" * 40: None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("mian", "the revision 'mian' does not exist in .*; similar names: main"),
        ("HEAD", "HEAD is not followed; .*name the branch, such as main"),
        ("refs/pull/1/head", "refs/pull/1/head is neither a branch nor a tag; push the commit to a branch"),
        ("refs/merge-requests/7/head", "is neither a branch nor a tag"),
        ("refs/heads/mian", "does not exist in .*similar names: main"),
        ("abc1234", "write a commit id in full"),
    ],
)
def test_a_missing_revision_is_explained(revision: str, message: str) -> None:
    error = missing_revision(revision, REFS, URL)
    assert isinstance(error, MissingRevision)
    with pytest.raises(MissingRevision, match=message):
        raise error


def test_a_listing_is_a_mapping_from_names_to_ids() -> None:
    ids = [digit * 40 for digit in "abc"]
    names = ["refs/heads/main", "refs/tags/v1", "refs/tags/v1^{}"]
    listing = RefListing("".join(f"{id}\t{name}\n" for id, name in zip(ids, names, strict=True)))
    assert listing == dict(zip(names, ids, strict=True))
    assert (list(listing), list(listing.values()), len(listing)) == (names, ids, 3)
    assert [name in listing for name in ("refs/heads/mai", "main", "", ids[0], f"refs/heads/main\n{ids[1]}")] == [
        False
    ] * 5
    assert not RefListing()


def test_many_refs_take_the_memory_of_their_text() -> None:
    text = "".join(f"{'a' * 40}\trefs/heads/b{number}\n" for number in range(20_000))
    tracemalloc.start()
    try:
        listing = RefListing(text)
        assert find_ref("b19999", listing) == "refs/heads/b19999"
        assert sum(1 for _ in listing.pairs()) == len(listing) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 1.1 * len(text), "not even for a moment"
    finally:
        tracemalloc.stop()
