"""The API server and the model accept and reject the same Agents and systems, and name the same field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import pytest

from gitsync.agents.systems.members import check_object
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.crds import definitions
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent, changed, doubled, example, member, system
from tests.operator.mutations import mutations
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    with Sandbox(controllers=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path_factory.mktemp("kube") / "config"))))
        made = KubernetesCluster(client)
        for definition in definitions():
            made.apply(definition, manager="test")
        for namespace in ("shop", "support"):
            made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, manager="test")
        for kind in ("Agent", "MultiAgentSystem"):
            until(lambda kind=kind: _served(made, kind))
        yield made
        client.close()


def _served(cluster: KubernetesCluster, kind: str) -> bool:
    cluster.definitions_changed()
    return cluster.resource("agents.gitsync.dev", "v1alpha1", kind) is not None


@pytest.mark.parametrize("name", ["agent", "multiagentsystem"])
def test_every_field_of_the_examples_is_accepted_and_kept(cluster: KubernetesCluster, name: str) -> None:
    check_object(example(name))
    stored = cluster.apply(example(name), manager="test", dry_run=True)
    assert _missing(example(name)["spec"], stored["spec"], "spec") == []


def _missing(wanted: Any, found: Any, path: str) -> list[str]:
    """Return the paths of members that are absent or another value."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [line for key in wanted for line in _missing(wanted[key], found.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = zip(wanted, found, strict=True)
        return [line for index, pair in enumerate(pairs) for line in _missing(*pair, f"{path}[{index}]")]
    return [] if wanted == found else [path]


def _spec_pairs() -> Iterator[Manifest]:
    """Yield small Agents with two sections of the example each: defaults of the others are not written out."""
    sections = {name: value for name, value in example()["spec"].items() if name not in ("model", "runtime")}
    sections["leaderElection"] = {}
    for first, second in combinations(sections, 2):
        yield agent(**{first: sections[first], second: sections[second]})


def _mutated() -> Iterator[Manifest]:
    for base in (example(), agent(replicas=2, update={"type": "BlueGreen", "blueGreen": {}})):
        for mutation in mutations(base["spec"]):
            yield {**base, "spec": mutation.of(base["spec"])}


@pytest.mark.parametrize("generate", [_spec_pairs, _mutated])
def test_both_decide_alike(cluster: KubernetesCluster, generate: Callable[[], Iterator[Manifest]]) -> None:
    differing = []
    for manifest in generate():
        answers = []
        for check in (check_object, partial(cluster.apply, manager="test", dry_run=True)):
            try:
                check(manifest)
            except (InvalidInput, Rejected) as error:
                answers.append(str(error))
            else:
                answers.append("")
        if bool(answers[0]) != bool(answers[1]):
            differing.append((sorted(manifest["spec"]), answers))
    assert differing == []


def tool(name: str, *headers: str) -> Manifest:
    """Return a tool behind HTTP, with request headers from a Secret."""
    found = [{"name": each, "secretKeyRef": {"name": "keys", "key": "key"}} for each in headers]
    return {"name": name, "type": "HTTP", "http": {"url": "https://a"}} | ({"headersFrom": found} if found else {})


FULL = example()
MEMBERS = (member("a", "b"), member("b"))
DISK = {"name": "data", "mountPath": "/data", "size": "1Gi"}
INVALID = [
    pytest.param(changed(agent(), "spec.runtime.image", "helper"), "spec.runtime.image", id="an image without tag"),
    pytest.param(changed(agent(), "spec.model.provider", "Mine"), "spec.model.provider", id="an unknown provider"),
    pytest.param(
        changed(agent(), "spec.model.provider", "OpenAICompatible"), "spec.model", id="no endpoint of its own service"
    ),
    pytest.param(changed(FULL, "spec.replicas", 3), "spec", id="replicas and autoscaling"),
    pytest.param(changed(FULL, "spec.autoscaling.minReplicas", 0), "spec.autoscaling", id="zero replicas without KEDA"),
    pytest.param(changed(FULL, "spec.autoscaling.minReplicas", 20), "spec.autoscaling", id="more than the maximum"),
    pytest.param(changed(FULL, "spec.tools.0.requireApproval", ["drop"]), "spec.tools[0]", id="approval of nothing"),
    pytest.param(changed(FULL, "spec.tools.1.type", "HTTP"), "spec.tools[1]", id="a tool without its member"),
    pytest.param(
        changed(FULL, "spec.runtime.env.0", {"name": "API_KEY", "value": "x"}),
        "spec.runtime.env[0]",
        id="a secret in plain text",
    ),
    pytest.param(changed(FULL, "spec.update.type", "BlueGreen"), "spec", id="blue-green with a volume per replica"),
    pytest.param(changed(FULL, "spec.model.cache.volume", "nothing"), "spec", id="a cache on an unknown volume"),
    pytest.param(changed(FULL, "spec.memory.session.databaseRef", "nothing"), "spec", id="an unknown database"),
    pytest.param(agent(state={"volumes": [DISK]}), "spec", id="one disk for a rolling update"),
    pytest.param(
        changed(FULL, "spec.lifecycle.validate.0.exec", {"command": ["x"]}), "spec.lifecycle", id="two checks"
    ),
    *(
        pytest.param(changed(FULL, f"{path}.name", name), path, id=f"a name of the operator at {path}")
        for path, name in (
            ("spec.lifecycle.init.0", "agent"),
            ("spec.lifecycle.validate.0", "evaluation"),
            ("spec.runtime.sidecars.0", "model-cache"),
            ("spec.state.volumes.1", "agent-config"),
        )
    ),
    *(
        pytest.param(
            changed(agent(), "spec.tools", [{"name": "a", "type": "HTTP", "http": {"url": url}}]), "spec.tools", id=url
        )
        for url in ("http://a:65536/", "http://a:b/", "http://a:0", "http://b@a/", "http://[::1", "http://a]/")
    ),
    pytest.param(
        changed(FULL, "spec.model.cache.source", "oci://a:99999/x"), "spec.model.cache", id="a cache at no port"
    ),
    pytest.param(agent(budget={"warnPercent": 50}), "spec.budget", id="a budget without a limit"),
    pytest.param(agent(budget={"agent": {}}), "spec.budget.agent", id="a limit of nothing"),
    pytest.param(changed(FULL, "spec.budget.prices", None), "spec.budget", id="money without prices"),
    pytest.param(agent(budget={"agent": {"costPerDay": "much"}}), "spec.budget.agent", id="no number"),
    pytest.param(changed(FULL, "spec.lifecycle.init.0.name", "pii-filter"), "spec", id="a step called as a sidecar"),
    pytest.param(
        agent(tools=[tool("search", "Docs-Key"), tool("search-docs", "key")]), "spec", id="headers of two tools"
    ),
    pytest.param(agent(tools=[tool("search", "X-Key", "x-key")]), "spec.tools[0]", id="a header twice"),
    pytest.param(
        changed(FULL, "spec.state.volumes.1.mountPath", "/models"), "spec.state", id="two volumes at one path"
    ),
    pytest.param(
        changed(FULL, "spec.state.volumes.1.mountPath", "/etc/agent/config"), "spec.state", id="a volume at our path"
    ),
    pytest.param(system(*MEMBERS, entrypoint="c"), "spec", id="an unknown entrypoint"),
    pytest.param(system(member("a", "c")), "spec", id="an unknown dependency"),
    pytest.param(
        system(*MEMBERS, channels=[{"name": "x", "type": "A2A", "from": ["a"], "to": ["c"]}]),
        "spec",
        id="an unknown receiver",
    ),
    pytest.param(
        system(*MEMBERS, channels=[{"name": "x", "type": "Queue", "from": ["a"], "to": ["b"]}]),
        "spec.channels[0]",
        id="a queue without broker",
    ),
    pytest.param(changed(system(*MEMBERS), "spec.agents.0.agentRef", {"name": "x"}), "spec.agents[0]", id="both kinds"),
]


@pytest.mark.parametrize(("manifest", "field"), INVALID)
def test_both_reject_it_and_name_the_field(cluster: KubernetesCluster, manifest: Manifest, field: str) -> None:
    with pytest.raises(InvalidInput) as ours:
        check_object(manifest)
    with pytest.raises(Rejected) as theirs:
        cluster.apply(manifest, manager="test", dry_run=True)
    assert ours.value.location.startswith(_indexed(field))
    assert any(cause.field.startswith(_indexed(field)) for cause in theirs.value.refusal.causes), theirs.value


def _indexed(path: str) -> str:
    """Return a path as the API server writes it: ``a.0.b`` is ``a[0].b``."""
    return re.sub(r"\.(\d+)", r"[\1]", path)


@pytest.mark.parametrize("name", ["agent", "multiagentsystem"])
def test_both_reject_an_item_that_is_there_twice_and_name_it(cluster: KubernetesCluster, name: str) -> None:
    for place, manifest in doubled(name):
        with pytest.raises(InvalidInput, match="another item has the") as reported:
            check_object(manifest)
        assert reported.value.location == place
        # Server-side apply refuses it before the schema does, with the list.
        with pytest.raises(Rejected, match="duplicate entries for key"):
            cluster.apply(manifest, manager="test", dry_run=True)


def test_every_list_of_things_with_a_name_is_one_of_those() -> None:
    places = {re.sub(r"\[\d+\]", "", place) for name in ("agent", "multiagentsystem") for place, _ in doubled(name)}
    assert places == {
        "spec.agents",
        "spec.agents.dependsOn",
        "spec.channels",
        "spec.expose.card.skills",
        "spec.lifecycle.init",
        "spec.lifecycle.validate",
        "spec.runtime.env",
        "spec.runtime.sidecars",
        "spec.state.databases",
        "spec.state.volumes",
        "spec.tools",
        "spec.update.canary.analysis",
    }


def test_a_member_of_a_system_has_no_item_twice() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    template = {"spec": {**agent()["spec"], "runtime": {"image": "helper:1", "env": env}}}
    with pytest.raises(InvalidInput, match="another item has the name A") as reported:
        check_object(system({"name": "a", "template": template}))
    assert reported.value.location.endswith("template.spec.runtime.env[1]")


def test_the_api_server_names_the_list_of_headers(cluster: KubernetesCluster) -> None:
    for tools, field in (
        ([tool("search", "Docs-Key"), tool("search-docs", "key")], "spec.tools"),
        ([tool("search", "X-Key", "x-key")], "spec.tools[0].headersFrom"),
    ):
        with pytest.raises(Rejected) as error:
            cluster.apply(agent(tools=tools), manager="test", dry_run=True)
        assert [cause.field for cause in error.value.refusal.causes] == [field]


def test_both_accept_headers_with_variables_of_their_own(cluster: KubernetesCluster) -> None:
    manifest = agent(tools=[tool("search", "Docs-Key", "Token"), tool("search-docs", "token"), tool("other")])
    check_object(manifest)
    cluster.apply(manifest, manager="test", dry_run=True)


@pytest.mark.parametrize(
    "url", ["http://a:65535", "https://[::1]:8443/v1", "http://10.0.0.1/?q=@", "http://a.b_c.svc:80/x"]
)
def test_both_accept_a_url(cluster: KubernetesCluster, url: str) -> None:
    manifest = changed(agent(), "spec.tools", [{"name": "a", "type": "HTTP", "http": {"url": url}}])
    check_object(manifest)
    cluster.apply(manifest, manager="test", dry_run=True)


def test_an_address_that_no_pattern_excludes_is_rejected_by_the_model() -> None:
    with pytest.raises(InvalidInput, match="does not appear to be an IPv4 or IPv6 address"):
        check_object(changed(agent(), "spec.model.endpoint", "http://[::::]/v1"))


VOLUME = "spec.state.volumes.1"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{VOLUME}.scope", "Shared"),
        (f"{VOLUME}.accessModes", ["ReadWriteOncePod"]),
        (f"{VOLUME}.storageClassName", "fast"),
        (f"{VOLUME}.size", "4Gi"),
    ],
)
def test_a_volume_only_grows(cluster: KubernetesCluster, path: str, value: Any) -> None:
    cluster.apply(FULL, manager="test")
    with pytest.raises(Rejected, match="volume"):
        cluster.apply(changed(FULL, path, value), manager="test", dry_run=True)
    cluster.apply(changed(FULL, f"{VOLUME}.size", "6Gi"), manager="test", dry_run=True)


@pytest.mark.parametrize("name", ["Triage", "9lives", "a.b", "a" * 41])
def test_names_leave_room_for_those_of_children(cluster: KubernetesCluster, name: str) -> None:
    with pytest.raises(Rejected):
        cluster.apply(agent(name), manager="test", dry_run=True)
