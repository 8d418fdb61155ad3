"""Hide the values of Secrets before anything is shown, logged or recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gitsync.kube.masked_fields import SHORTEST, Pattern, hide, masked_fields, spellings, values_at
from gitsync.objects.change import ABSENT, Change, FieldDifference
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, pointer_parts
from gitsync.objects.ref import ObjectRef

MASK = "••••••"
_MASKED_ROOTS = ("/data", "/stringData")


def is_secret(ref: ObjectRef) -> bool:
    """Whether objects of this kind hold secret values."""
    return ref.group == "" and ref.kind == "Secret"


def mask(manifest: Manifest) -> Manifest:
    """
    Return a manifest that may be shown.

    In a Secret every value of ``data`` and ``stringData`` is hidden and the last-applied annotation too; of other
    objects the fields that they mark as masked. One without any is returned unchanged.
    """
    if manifest.get("kind") != "Secret" or manifest.get("apiVersion") != "v1":
        return dict(hide(manifest, (), patterns, _hidden)) if (patterns := masked_fields(manifest)) else manifest
    # Keys stay visible: which members exist is not secret, and users need it to review a change.
    result = {key: _hidden(value) if key in ("data", "stringData") else value for key, value in manifest.items()}
    if LAST_APPLIED in annotations_of(manifest):
        metadata = metadata_of(manifest)
        result["metadata"] = {**metadata, "annotations": {**metadata["annotations"], LAST_APPLIED: MASK}}
    return result


_SIDES: Final = ("in Git", "in the cluster")


def mask_difference(
    ref: ObjectRef,
    difference: FieldDifference,
    sides: tuple[str, str] = _SIDES,
    fields: frozenset[Pattern] = frozenset(),
) -> FieldDifference:
    """
    Return a difference that may be shown: whether a value was added, removed or changed, never the value.

    ``sides`` say where the desired and the live value are; ``fields`` are those that an object of another kind masks.
    """
    if not is_secret(ref):
        return _masked_below(difference, sides, fields) if fields else difference
    if not _is_hidden(difference.pointer):
        return difference
    return _masked(difference, sides)


def _masked_below(difference: FieldDifference, sides: tuple[str, str], fields: frozenset[Pattern]) -> FieldDifference:
    """Return a difference without the values of masked fields, which may be a part of its own."""
    at = pointer_parts(difference.pointer)
    desired, live = (
        value if value is ABSENT else hide(value, at, fields, _hidden)
        for value in (difference.desired, difference.live)
    )
    if desired is difference.desired and live is difference.live:
        return difference
    # the whole value is hidden: what is left to tell is which side has it
    if MASK in (desired, live):
        return _masked(difference, sides)
    return replace(difference, desired=desired, live=live)


def _masked(difference: FieldDifference, sides: tuple[str, str]) -> FieldDifference:
    one_sided = difference.desired is ABSENT or difference.live is ABSENT
    note = "" if difference.desired == difference.live else " only" if one_sided else ", differs"
    return replace(
        difference,
        desired=_hidden_value(difference.desired, note and f"{sides[0]}{note}"),
        live=_hidden_value(difference.live, note and f"{sides[1]}{note}"),
    )


def mask_change(change: Change, sides: tuple[str, str] = _SIDES) -> Change:
    """Return a step that may be shown, with both sides and all differences masked; see ``mask_difference``."""
    fields = frozenset() if is_secret(change.ref) else masked_fields(change.desired, change.live)
    if not is_secret(change.ref) and not fields:
        return change
    return replace(
        change,
        desired=_shown(change.desired, fields),
        live=_shown(change.live, fields),
        differences=tuple(mask_difference(change.ref, difference, sides, fields) for difference in change.differences),
    )


def _shown(manifest: Manifest | None, fields: frozenset[Pattern]) -> Manifest | None:
    """Return one side of a step; each hides what the other one masks too, such as a value that was secret before."""
    if not manifest:
        return manifest
    return dict(hide(manifest, (), fields, _hidden)) if fields else mask(manifest)


def to_record(change: Change) -> list[dict[str, Any]]:
    """Return the differences of a step as audit and history store them: Secret values masked, absent values null."""
    return [difference_record(difference) for difference in mask_change(change).differences]


def difference_record(difference: FieldDifference) -> dict[str, Any]:
    """Return a difference, masked before, as JSON members; an absent value is null."""
    return {
        "path": difference.path,
        "kind": difference.kind.value,
        "desired": json_value(difference.desired),
        "live": json_value(difference.live),
        "owners": [
            {"manager": owner.manager, "operation": owner.operation, "time": owner.time} for owner in difference.owners
        ],
    }


def json_value(value: Any) -> Any:
    """Return a value of a difference for JSON; an absent one is null."""
    return None if value is ABSENT else value


def mask_text(text: str, manifests: Iterable[Manifest | None]) -> str:
    """
    Return a text, such as an error of the API server, without the secret values of these objects.

    Plain and base64 forms are hidden, also where the server quotes them with escapes.
    """
    # Longest first: a value that is part of another one would leave the rest of that readable.
    for value in sorted(_secret_texts(manifests), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def _is_hidden(pointer: str) -> bool:
    # "" is the whole object.
    if pointer == "" or pointer.startswith(_MASKED_ROOTS):
        return True
    # All annotations: the last-applied one repeats the data, and a difference may be of the whole map.
    return pointer.startswith("/metadata/annotations")


def _hidden(value: Any) -> Any:
    return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK


def _hidden_value(value: Any, what: str) -> Any:
    if value is ABSENT:
        return value
    text = f"{MASK} ({what})" if what else MASK
    return dict.fromkeys(value, text) if isinstance(value, dict) else text


def _secret_texts(manifests: Iterable[Manifest | None]) -> set[str]:
    texts: set[str] = set()
    for manifest in manifests:
        if manifest is None:
            continue
        texts.update(*map(spellings, values_at(manifest, masked_fields(manifest))))
        # Of any group, unlike ``mask``: in a message, hiding too much does no harm.
        if manifest.get("kind") != "Secret":
            continue
        for root in ("data", "stringData"):
            values = manifest.get(root)
            for value in values.values() if isinstance(values, dict) else ():
                texts |= spellings(str(value))
    return {text for text in texts if len(text) >= SHORTEST}
