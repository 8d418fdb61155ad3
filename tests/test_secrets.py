"""SOPS files are decrypted exactly or rejected, and errors contain none of their content."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.render.yaml.reader import read_all
from gitsync.secrets import check_binding, decrypt, identities_of, is_encrypted
from tests.sops_encryption import Sealer, new_key

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
    return decrypt(
        manifest, read_all(text, "s.yaml"), identities_of(key_file, "keys"), location="s.yaml", subject="Secret shop/s"
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
        pytest.param(lambda d: d["sops"].update(age=[]), "none of the age keys", id="no recipient"),
        pytest.param(lambda d: d["sops"].update(age="x"), "none of the age keys", id="a recipient of another form"),
        pytest.param(lambda d: d["sops"]["age"][0].update(enc="x"), "none of the age keys", id="a broken message"),
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
    with pytest.raises(InvalidInput, match="none of the age keys"):
        opened(read_all(text, "s.yaml")[0], text, new_key()[1])
    both = KEY_FILE + new_key()[1]
    assert opened(read_all(text, "s.yaml")[0], text, both) == SECRET


def test_a_broken_key_file_is_named_without_its_text() -> None:
    with pytest.raises(InvalidInput, match=r"keys: is not an age key file") as caught:
        identities_of("AGE-SECRET-KEY-1BROKEN", "keys")
    assert "BROKEN" not in str(caught.value)
