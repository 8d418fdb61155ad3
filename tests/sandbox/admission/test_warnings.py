from __future__ import annotations

from tests.sandbox.admission.cluster import World, manifest, pod


def test_fractions_of_bytes_are_warned_of() -> None:
    world = World()
    world.admit(manifest("v1", "PersistentVolumeClaim", spec={"resources": {"limits": {"storage": "0.01Ti"}}}))
    assert world.warnings == [
        'spec.resources.limits[storage]: fractional byte value "10995116277760m" is invalid, must be an integer'
    ]


def test_a_hidden_variable_is_warned_of() -> None:
    world = World()
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    world.admit(pod(containers=[{"name": "c", "image": "i", "env": env}]))
    assert world.warnings == [
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
    ]
