"""The order of the output: as listed (fifo), or by kind (legacy, which is the default)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.render.resources.field_spec import KIND_ORDER, gvk_order
from gitsync.render.resources.resource import Gvk, Id, Resource

_PLACE: Final = itemgetter(0)


def in_order(
    ids: Sequence[Id], resources: Sequence[Resource], options: Mapping[str, Any] | None, location: str
) -> list[Resource]:
    """Return the resources, which have these ids, in the order that ``sortOptions`` asks for."""
    order = "legacy" if options is None else options.get("order") or ""
    legacy = (options or {}).get("legacySortOptions")
    if order not in ("legacy", "fifo"):
        raise InvalidInput(f"sortOptions.order {order!r} is not known", location=location, hint="write fifo or legacy")
    if order == "fifo":
        if legacy is not None:
            raise InvalidInput(
                "legacySortOptions is set, but the order is fifo", location=location, hint="write order: legacy"
            )
        return list(resources)
    ranks = KIND_ORDER
    if legacy is not None:
        first, last = legacy.get("orderFirst") or (), legacy.get("orderLast") or ()
        ranks = {kind: index - len(first) for index, kind in enumerate(first)}
        ranks.update({kind: index + 1 for index, kind in enumerate(last)})

    by_kind: dict[Gvk, list[tuple[str, Resource]]] = {}
    for id_, resource in zip(ids, resources, strict=True):
        by_kind.setdefault(id_.gvk, []).append((f"{resource.namespace or '~X'}|{id_.name}", resource))
    kinds = sorted(by_kind, key=lambda gvk: (ranks.get(gvk.kind, 0), gvk_order(gvk)[1], gvk.kind))
    return [resource for gvk in kinds for _, resource in sorted(by_kind[gvk], key=_PLACE)]
