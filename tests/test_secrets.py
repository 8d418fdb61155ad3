"""SOPS files are decrypted exactly or rejected, and errors contain none of their content."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.errors import InvalidInput, TransientError
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.render.yaml.reader import read_all
from gitsync.secrets import WrappedKey, check_binding, decrypt, identities_of, is_encrypted, open_by_age
from tests.sops_encryption import Sealer, new_key, shares_of, wrapped_by_age

IDENTITY, KEY_FILE = new_key()
CANARY = "the-hidden-canary"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "labels": {"app": "shop"}},
    "stringData": {"password": CANARY, "empty": ""},
}


def sealed(*documents: dict[str, Any], under: tuple[str, ...] = ("data", "stringData"), only: bool = False) -> str:
    return Sealer(IDENTITY.to_public(), under, mac_only_encrypted=only).file(*(documents or (SECRET,)))


def opened(manifest: Manifest, text: str, key_file: str = KEY_FILE) -> Manifest:
    identities = identities_of(key_file, "keys")
    return decrypt(
        manifest,
        read_all(text, "s.yaml"),
        lambda wrapped: open_by_age(wrapped, identities),
        location="s.yaml",
        subject="Secret shop/s",
    )


def round_trip(text: str) -> list[Manifest]:
    return [opened(one, text) for one in read_all(text, "s.yaml")]


@pytest.mark.parametrize("only", [False, True])
def test_a_secret_comes_back_without_its_sops_member(only: bool) -> None:
    text = sealed(only=only)
    assert CANARY not in text
    assert is_encrypted(read_all(text, "s.yaml")[0])
    assert round_trip(text) == [SECRET]


@pytest.mark.parametrize(
    ("written", "applied", "is_allowed"),
    [("shop", "shop", True), ("shop", "bank", False), (None, "bank", True)],
)
def test_a_file_is_opened_only_in_the_namespace_that_it_names(
    written: str | None, applied: str, is_allowed: bool
) -> None:
    metadata = {"name": "s", **({"namespace": written} if written else {})}
    documents = read_all(sealed({**SECRET, "metadata": metadata}), "s.yaml")
    rendered = {**documents[0], "metadata": {"name": "s", "namespace": applied}}
    expected = (
        contextlib.nullcontext()
        if is_allowed
        else pytest.raises(InvalidInput, match="was encrypted for namespace shop, and would be decrypted in bank")
    )
    with expected:
        check_binding(rendered, documents, ObjectRef("", "Secret", applied, "s"), is_shared=False, location="s.yaml")


@pytest.mark.parametrize(
    ("metadata", "only", "is_allowed"),
    [
        pytest.param({"name": "s", "namespace": "shop"}, False, True, id="names both"),
        pytest.param({"name": "s"}, False, False, id="names no namespace"),
        pytest.param({"name": "other", "namespace": "shop"}, False, False, id="names another object"),
        # the MAC covers encrypted values alone, so that everyone may write another namespace
        pytest.param({"name": "s", "namespace": "shop"}, True, False, id="does not cover what it names"),
    ],
)
def test_with_a_shared_key_a_file_names_what_it_becomes(metadata: dict[str, str], only: bool, is_allowed: bool) -> None:
    documents = read_all(sealed({**SECRET, "metadata": metadata}, only=only), "s.yaml")
    target = ObjectRef("", "Secret", "shop", "s")
    expected = contextlib.nullcontext() if is_allowed else pytest.raises(InvalidInput, match="does not name shop/s")
    with expected:
        check_binding(documents[0], documents, target, is_shared=True, location="s.yaml")


def test_documents_of_one_file_are_checked_together() -> None:
    other = {**SECRET, "metadata": {"name": "t"}}
    text = sealed(SECRET, other)
    assert round_trip(text) == [SECRET, other]
    first, second = text.split("\n---\n")
    with pytest.raises(InvalidInput, match="MAC does not fit"):
        round_trip(first)
    with pytest.raises(InvalidInput, match="MAC does not fit"):
        round_trip(f"{second}---\n{first}\n")


def test_types_lists_and_unencrypted_names_are_kept() -> None:
    document = {
        "kind_unencrypted": "x",
        "a": [1, 2.5, True, False, None, "yes", {"b": -7}],
        "c_unencrypted": {"d": 1.0},
    }
    text = sealed(document, under=())
    assert round_trip(text) == [document]


values = st.recursive(
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), max_size=12)
    | st.integers(-(2**53), 2**53)
    | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-r]{1,6}", fullmatch=True), values, min_size=1, max_size=4))
def test_whatever_is_sealed_is_opened(document: dict[str, Any]) -> None:
    assert round_trip(sealed(document, under=())) == [document]


def test_what_a_render_adds_does_not_matter() -> None:
    text = sealed()
    (manifest,) = read_all(text, "s.yaml")
    rendered = {**manifest, "metadata": {**manifest["metadata"], "namespace": "shop"}}
    assert opened(rendered, text) == {**SECRET, "metadata": {**SECRET["metadata"], "namespace": "shop"}}


def _dump(document: dict[str, Any]) -> str:
    return str(yaml.safe_dump(document, sort_keys=False))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda d: d["metadata"]["labels"].update(app="other"), "MAC does not fit", id="a plain value"),
        pytest.param(lambda d: d["stringData"].pop("password"), "MAC does not fit", id="a value left out"),
        pytest.param(
            lambda d: d["stringData"].update(other=d["stringData"].pop("password")), "was moved", id="a value moved"
        ),
        pytest.param(lambda d: d["stringData"].update(password="plain"), "damaged", id="a value in the clear"),
        pytest.param(lambda d: d["stringData"].update(password=7), "damaged", id="a number in the clear"),
        pytest.param(lambda d: d["sops"].update(lastmodified="2027-01-01T00:00:00Z"), "damaged", id="another time"),
        pytest.param(lambda d: d["sops"].update(mac="x"), "damaged", id="no checksum"),
        pytest.param(lambda d: d["sops"].update(encrypted_regex="(" * 9), "regular expression", id="a broken rule"),
        pytest.param(lambda d: d["sops"].update(encrypted_comment_regex="x"), "comments", id="a rule on comments"),
        pytest.param(lambda d: d["sops"].update(age=[]), "none of the keys given", id="no recipient"),
        pytest.param(lambda d: d["sops"].update(age="x"), "none of the keys given", id="a recipient of another form"),
        pytest.param(lambda d: d["sops"]["age"][0].update(enc="x"), "none of the keys given", id="a broken message"),
    ],
)
def test_what_was_tampered_with_is_refused(change: Any, message: str) -> None:
    (document,) = read_all(sealed(), "s.yaml")
    change(document)
    text = _dump(document)
    with pytest.raises(InvalidInput, match=message) as caught:
        round_trip(text)
    assert str(caught.value).startswith("s.yaml: Secret shop/s: ")
    assert CANARY not in str(caught.value)
    assert "ENC[" not in str(caught.value)


def test_another_key_does_not_open_it() -> None:
    text = sealed()
    with pytest.raises(InvalidInput, match="none of the keys given"):
        opened(read_all(text, "s.yaml")[0], text, new_key()[1])
    both = KEY_FILE + new_key()[1]
    assert opened(read_all(text, "s.yaml")[0], text, both) == SECRET


def test_a_broken_key_file_is_named_without_its_text() -> None:
    with pytest.raises(InvalidInput, match=r"keys: is not an age key file") as caught:
        identities_of("AGE-SECRET-KEY-1BROKEN", "keys")
    assert "BROKEN" not in str(caught.value)


GROUPS = [new_key() for _ in range(3)]


def sealed_to_groups(threshold: int | None) -> str:
    def wrap(key: bytes) -> dict[str, Any]:
        shares = shares_of(key, len(GROUPS), threshold or len(GROUPS))
        groups = [
            {"hc_vault": [], "age": [wrapped_by_age(share, identity.to_public())]}
            for share, (identity, _) in zip(shares, GROUPS, strict=True)
        ]
        return {"key_groups": groups, **({"shamir_threshold": threshold} if threshold else {})}

    return Sealer(None, ("stringData",), wrap=wrap).file(SECRET)


@pytest.mark.parametrize("group_indexes", [(0, 1), (0, 2), (2, 1), (0, 1, 2)])
def test_as_many_groups_open_a_file_as_its_threshold(group_indexes: tuple[int, ...]) -> None:
    text = sealed_to_groups(2)
    (document,) = read_all(text, "s.yaml")
    assert opened(document, text, "".join(GROUPS[index][1] for index in group_indexes)) == SECRET


@pytest.mark.parametrize(("threshold", "group_indexes"), [(2, (1,)), (3, (0, 2)), (None, (0, 1))])
def test_fewer_groups_than_the_threshold_open_nothing(threshold: int | None, group_indexes: tuple[int, ...]) -> None:
    text = sealed_to_groups(threshold)
    (document,) = read_all(text, "s.yaml")
    with pytest.raises(InvalidInput, match="for age, and none of the keys given opens it"):
        opened(document, text, "".join(GROUPS[index][1] for index in group_indexes))


@pytest.mark.parametrize("threshold", [0, 1, -1])
def test_a_file_cannot_lower_its_threshold_to_one_group(threshold: int) -> None:
    text = sealed_to_groups(2).replace("shamir_threshold: 2", f"shamir_threshold: {threshold}")
    (document,) = read_all(text, "s.yaml")
    with pytest.raises(InvalidInput, match="none of the keys given"):
        opened(document, text, GROUPS[0][1])


def test_a_file_names_a_bounded_number_of_keys() -> None:
    (document,) = read_all(sealed(), "s.yaml")
    document["sops"]["age"] *= 65
    text = _dump(document)
    with pytest.raises(InvalidInput, match="more than 64 keys"):
        round_trip(text)


def test_a_key_service_that_fails_is_reported_only_where_no_other_key_fits() -> None:
    (document,) = read_all(sealed(), "s.yaml")
    document["sops"]["kms"] = [{"arn": "x", "enc": "x"}]
    text = _dump(document)
    (document,) = read_all(text, "s.yaml")

    def opened_by(identities: tuple[Any, ...]) -> Manifest:
        def open_key(wrapped: WrappedKey) -> bytes | None:
            if wrapped.kind == "kms":
                raise TransientError("AWS KMS does not answer")
            return open_by_age(wrapped, identities)

        return decrypt(document, read_all(text, "s.yaml"), open_key, location="s.yaml", subject="Secret shop/s")

    assert opened_by((IDENTITY,)) == SECRET
    with pytest.raises(TransientError, match=r"^s.yaml: Secret shop/s: AWS KMS does not answer$"):
        opened_by(())
