"""
Refuse ConfigMaps in which readers of YAML 1.1 and 1.2 see different values.

Kustomize reads ``debug: no`` as a string, ``kubectl apply`` as false, which a ConfigMap cannot hold. The
author meant one of them, and gitsync does not guess.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.render.yaml.scalars import Yaml11Bool


def reject_ambiguous_bools(manifests: Iterable[Manifest], passed: Iterable[Manifest] = ()) -> None:
    """
    Raise InvalidInput for a ConfigMap with ``yes``, ``no``, ``on``, ``off``, ``y`` or ``n`` without quotes.

    Objects that passed before (the identical ones) are skipped.
    """
    done = set(map(id, passed))
    for manifest in manifests:
        data = manifest.get("data")
        if manifest.get("kind") != "ConfigMap" or id(manifest) in done or not isinstance(data, dict):
            continue
        found = [f"data.{key} is {value}" for key, value in data.items() if isinstance(value, Yaml11Bool)]
        if found:
            raise InvalidInput(
                f"{', '.join(found)}: a string for some readers of YAML, true or false for others",
                object=str(ref_of(manifest)),
                hint="quote it",
            )
