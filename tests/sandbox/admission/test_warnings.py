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


def test_the_fields_of_a_pod_that_are_doubtful_are_warned_of() -> None:
    world = World()
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    port = {"containerPort": 80, "protocol": "TCP", "name": "a"}
    world.admit(
        pod(
            containers=[{"name": "c", "image": "i", "ports": [port, {**port, "hostPort": 80}]}],
            affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}},
            topologySpreadConstraints=[spread],
            imagePullSecrets=[{"name": "s"}, {"name": "s"}, {}],
            volumes=[{"name": "v", "rbd": {"image": "i"}}],
            terminationGracePeriodSeconds=-1,
        )
    )
    preferred = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
    assert world.warnings == [
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
        'spec.imagePullSecrets[1].name: duplicate name "s"',
        'spec.imagePullSecrets[2].name: invalid empty name ""',
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        'spec.containers[0].ports[1]: duplicate port name "a" with spec.containers[0].ports[0], services and probes '
        "that select ports by name will use spec.containers[0].ports[0]",
        "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        f"{preferred}.podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
    ]


def test_a_variable_that_extends_its_previous_definition_is_no_warning() -> None:
    world = World()
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A),2"}]
    world.admit(pod(containers=[{"name": "c", "image": "i", "env": env}]))
    assert not world.warnings


def test_ignored_fields_of_a_service_are_warned_of() -> None:
    world = World()
    world.admit(
        manifest("v1", "Service", spec={"type": "ClusterIP", "externalName": "a.b", "externalIPs": ["1.2.3.4"]})
    )
    assert world.warnings == [
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ]


def test_changed_token_requests_of_a_driver_are_warned_of_once() -> None:
    world = World()
    driver = manifest("storage.k8s.io/v1", "CSIDriver", spec={"tokenRequests": [{"audience": "a"}]})
    world.admit(driver)
    world.admit(driver, driver)
    assert len(world.warnings) == 1
