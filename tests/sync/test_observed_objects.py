"""What live objects say is computed again only for those that changed."""

from __future__ import annotations

from typing import cast

from gitsync.merge.schema import Schemas
from gitsync.objects.application import Application, parse_application
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.tracking import marked
from gitsync.ports import LiveCache
from gitsync.sync.observe import Observation
from gitsync.sync.observed_objects import ObservedObjects, updated_inventory

NO_CACHE = cast("LiveCache", None)  # only workloads need one


def application(name: str = "shop") -> Application:
    return parse_application(
        {
            "metadata": {"name": name, "namespace": "gitsync", "uid": "u", "generation": 1},
            "spec": {"source": {"repoURL": "https://git.example/r.git"}, "destination": {"namespace": "shop"}},
        }
    )


def live_object(name: str, version: str = "1", **annotations: str) -> Manifest:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "annotations": annotations}}


def owned(name: str, version: str = "1") -> Manifest:
    manifest = live_object(name, version)
    return marked(application(), ref_of(manifest), manifest)


def by_ref(*manifests: Manifest) -> dict[ObjectRef, Manifest]:
    return {ref_of(manifest): manifest for manifest in manifests}


def inventory_after(observed: ObservedObjects, live: dict[ObjectRef, Manifest], held: Inventory) -> Inventory:
    """Return the inventory after the observation of live objects that are all declared."""
    observation = Observation(live, live, dict.fromkeys(live, "v1"), Schemas({}), held)
    objects = observed.update(application(), live, NO_CACHE)
    return updated_inventory(application(), observation, objects)


def test_only_objects_that_changed_are_assessed_again() -> None:
    observed, seen = ObservedObjects(), by_ref(owned("a"), owned("b"))
    first = observed.update(application(), seen, NO_CACHE)
    changed = owned("b", "2")
    second = observed.update(application(), {**seen, ref_of(changed): changed}, NO_CACHE)
    assert [second[ref] is first[ref] for ref in seen] == [True, False]
    assert second[ref_of(changed)].live is changed


def test_another_spec_assesses_all_again() -> None:
    observed, seen = ObservedObjects(), by_ref(owned("a"))
    assert [found.is_owned for found in observed.update(application(), seen, NO_CACHE).values()] == [True]
    assert [found.is_owned for found in observed.update(application("other"), seen, NO_CACHE).values()] == [False]


def test_an_inventory_that_stays_is_the_identical_one() -> None:
    observed, live = ObservedObjects(), by_ref(owned("a"), owned("b"))
    held = inventory_after(observed, live, Inventory())
    assert {entry.uid for entry in held.entries.values()} == {"uid-a", "uid-b"}
    assert inventory_after(observed, live, Inventory(dict(held.entries))) == held
    assert inventory_after(observed, live, held) is held


def test_an_object_that_was_recreated_has_its_new_uid() -> None:
    observed, live = ObservedObjects(), by_ref(owned("a"))
    held = inventory_after(observed, live, Inventory())
    (ref,) = live
    again = {**live[ref], "metadata": {**live[ref]["metadata"], "uid": "new"}}
    assert inventory_after(observed, {ref: again}, held).entries == {ref: InventoryEntry("v1", "new")}


def test_an_object_of_another_owner_leaves_the_inventory_once_it_is_not_declared() -> None:
    manifest = live_object("a", **{"gitsync.dev/tracking-id": "gitsync/other:/ConfigMap/shop/a"})
    ref, app = ref_of(manifest), application()
    held = Inventory({ref: InventoryEntry("v1", "uid-a")})
    objects = ObservedObjects().update(app, {ref: manifest}, NO_CACHE)
    observation = Observation({}, {ref: manifest}, {ref: "v1"}, Schemas({}), held)
    assert updated_inventory(app, observation, objects) == Inventory()
