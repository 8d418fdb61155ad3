"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any


def merge_patch(value: Any, patch: Any) -> Any:
    """
    Return a value with a merge patch applied: members are laid over, null removes, anything else replaces.

    The input is not changed; what the patch does not touch is shared, and a patch that changes nothing gives
    back an equal value.
    """
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for name, member in patch.items():
        if member is None:
            out.pop(name, None)
        else:
            out[name] = merge_patch(out.get(name), member)
    return out
