"""The admission webhook: what it refuses, that nothing else depends on it, and how its certificate is renewed."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gitsync.admission.certificates import LIFETIME, CertificateRotation, KeyPair
from gitsync.cluster.webhook import WebhookCertificates
from gitsync.errors import Conflict, InvalidInput, Rejected, WebhookUnavailable
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent, changed, member, system
from tests.child_process import child_process
from tests.flow.environment import World
from tests.operator.agent_world import config_map

MANIFEST = Path(__file__).resolve().parents[2] / "manifests/gitsync/components/webhook/configuration.yaml"
NAME = "gitsync-webhook"
CYCLE = system(member("a", "b"), member("b", "a"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox(workloads=False) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        yield made
        made.close()


def configure(world: World, port: int) -> None:
    """Apply the shipped configuration, for a webhook on loopback."""
    manifest: Manifest = read_all(MANIFEST.read_text(encoding="utf-8"), MANIFEST.name)[0]
    for hook in manifest["webhooks"]:
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/validate"}
    world.apply(manifest)


@contextmanager
def webhook(world: World, port: int = 0) -> Iterator[int]:
    """Run ``gitsync webhook`` and yield its port."""
    given = ["--host", "127.0.0.1", "--port", str(port), "--name", "127.0.0.1", "--kubeconfig", str(world.kubeconfig)]
    command = [sys.executable, "-m", "gitsync", "webhook", *given]
    with child_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield int(line.rsplit(":", 1)[1].removesuffix("/validate\n"))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_what_a_schema_cannot_express_is_refused_with_its_field(world: World) -> None:
    configure(world, 1)
    with webhook(world) as port:
        configure(world, port)
        with pytest.raises(Rejected, match="members depend on each other: a -> b -> a") as refused:
            world.apply(CYCLE)
        assert [cause.field for cause in refused.value.refusal.causes] == ["spec.agents"]
        wrong = changed(member("a"), "template.spec.runtime.image", "helper")
        with pytest.raises(Rejected) as refused:
            world.apply(system(wrong))
        assert [cause.field for cause in refused.value.refusal.causes] == ["spec.agents[0].template.spec.runtime.image"]
        world.apply(system(member("a", "b"), member("b")))
        world.apply(agent())


def test_only_our_kinds_depend_on_it(world: World) -> None:
    world.apply(agent("before"))
    configure(world, 1)
    with pytest.raises(WebhookUnavailable, match="failed calling webhook"):
        world.apply(agent())
    world.apply(config_map("free", a="b"))
    path = "/apis/agents.gitsync.dev/v1alpha1/namespaces/shop/agents/before"
    world.client.send("DELETE", path, {})


def test_a_change_of_metadata_is_allowed_for_an_object_that_is_older_than_a_rule(world: World) -> None:
    world.apply(CYCLE)
    configure(world, 1)
    with webhook(world) as port:
        configure(world, port)
        world.apply(changed(CYCLE, "metadata.labels", {"team": "a"}))
        with pytest.raises(Rejected):
            world.apply(changed(CYCLE, "spec.description", "new"))


def test_without_its_configuration_it_says_how_to_install_it(world: World) -> None:
    store = WebhookCertificates(world.client, "gitsync", NAME, NAME)
    with pytest.raises(InvalidInput, match="gitsync install --component webhook"):
        store.trust("x")


class Replica:
    """One replica of the webhook: its rotation, and the certificate that its connections get."""

    def __init__(self, world: World) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        store = WebhookCertificates(world.client, "gitsync", NAME, NAME)
        self.rotation = CertificateRotation(store, ["127.0.0.1"], lambda: self.now)

    def served(self) -> str:
        context: Any = self.rotation.context()
        found = ssl.create_default_context()
        found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = found.wrap_bio(incoming, outgoing)
        server = context.wrap_bio(outgoing, incoming, server_side=True)
        for side in (client, server, client):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        binary = client.getpeercert(binary_form=True)
        assert binary is not None
        return ssl.DER_cert_to_PEM_cert(binary)


def stored(world: World) -> KeyPair:
    pair = KeyPair.of_secret(WebhookCertificates(world.client, "gitsync", NAME, NAME).read()[0])
    assert pair is not None
    return pair


def test_a_certificate_is_renewed_and_served_once_it_is_trusted(world: World) -> None:
    configure(world, 1)
    one, other = Replica(world), Replica(world)
    for replica in (one, other):
        replica.rotation.check()
    first = stored(world)
    assert (one.served(), other.served()) == (first.certificate, first.certificate)
    assert x509.load_pem_x509_certificate(first.certificate.encode()).not_valid_after_utc == one.now + LIFETIME

    one.now += LIFETIME / 3 * 2 + timedelta(minutes=1)
    one.rotation.check()
    second = stored(world)
    assert second.certificate != first.certificate
    assert second.previous == first.certificate
    assert one.served() == first.certificate  # trusted by now, and served from the next check on
    one.rotation.check()
    assert one.served() == second.certificate
    other.now = one.now
    other.rotation.check()
    assert other.served() == second.certificate
    hooks = world.client.get(f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}")[
        "webhooks"
    ]
    assert len({hook["clientConfig"]["caBundle"] for hook in hooks}) == 1


def test_two_replicas_that_start_together_agree(world: World) -> None:
    store = WebhookCertificates(world.client, "gitsync", NAME, NAME)
    store.write({"tls.crt": "a", "tls.key": "b"}, "")
    _, version = store.read()
    with pytest.raises(Conflict):
        store.write({"tls.crt": "c", "tls.key": "d"}, "")
    store.write({"tls.crt": "c", "tls.key": "d"}, version)
    with pytest.raises(Conflict):
        store.write({"tls.crt": "e", "tls.key": "f"}, version)
