"""The Secrets that an Application names are used where its tenant allows them, and nowhere else."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gitsync.errors import Refused
from gitsync.gate.policy import GrantedUrl, Policy, TenantGrants
from gitsync.objects.application import Application, parse_application
from gitsync.sync.credentials import ApplicationSecrets
from tests.fakes.ports import FakeCluster, FakeReaderPorts

TENANT = Policy(
    name="shop",
    repositories=("https://git.example/*",),
    tenant=TenantGrants(
        repositories=(GrantedUrl("https://git.example/*", ("login",)),),
        servers=(GrantedUrl("https://models.example", ("judge",)),),
        decryption=("age",),
    ),
)
EVIL = "https://evil.example/x"


def application(
    url: str = "https://git.example/x", *, login: str = "login", age: str = "age", judge: str = "judge"
) -> Application:
    source = {
        "repoURL": url,
        "credentials": {"secretRef": {"name": login}},
        "decryption": {"provider": "sops", "secretRef": {"name": age}},
    }
    openai = {"endpoint": "https://models.example/v1", "model": "m", "secretRef": {"name": judge}}
    spec = {"source": source, "reasoner": {"openAI": openai}}
    return parse_application({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})


def secrets(*policies: Policy) -> ApplicationSecrets:
    cluster: Any = FakeCluster()
    for name, members in {
        "login": {"password": "right"},
        "partner": {"password": "of-a-partner"},
        "age": {"a.agekey": "AGE-SECRET-KEY-1"},
        "judge": {"apiKey": "key"},
    }.items():
        data = {key: base64.b64encode(value.encode()).decode() for key, value in members.items()}
        metadata = {"name": name, "namespace": "shop"}
        cluster.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    live: Any = FakeReaderPorts(cluster).live
    return ApplicationSecrets(cluster, live, lambda app: policies)


def test_what_the_tenant_lists_is_read() -> None:
    assert secrets(TENANT).credentials(application()).password == "right"
    assert secrets(TENANT).decryption_keys(application()).is_shared
    assert secrets(TENANT).reasoner_key(application()) == "key"


@pytest.mark.parametrize(
    "app",
    [application(EVIL), application(login="partner"), application(EVIL, login="partner")],
    ids=["another host", "another Secret", "both"],
)
def test_credentials_are_read_for_no_other_host_or_secret(app: Application) -> None:
    with pytest.raises(Refused, match="is not allowed"):
        secrets(TENANT).credentials(app)
    # the tenant of an Application above counts too, and a Policy document opens nothing
    with pytest.raises(Refused, match="by policy shop"):
        secrets(Policy(), TENANT).credentials(app)


def test_a_repository_that_is_not_listed_is_refused_without_secrets() -> None:
    app = parse_application({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"source": {"repoURL": EVIL}}})
    with pytest.raises(Refused, match=r"spec\.source\.repoURL is not allowed by policy shop"):
        secrets(TENANT).credentials(app)


def test_other_keys_are_refused() -> None:
    with pytest.raises(Refused, match="Secret login is not allowed by policy shop"):
        secrets(TENANT).decryption_keys(application(age="login"))
    with pytest.raises(Refused, match=r"Secret login is not allowed for https://models\.example/v1"):
        secrets(TENANT).reasoner_key(application(judge="login"))


def test_without_a_tenant_each_secret_of_the_namespace_counts() -> None:
    assert secrets(Policy()).credentials(application(EVIL, login="partner")).password == "of-a-partner"
    assert not secrets().decryption_keys(application()).is_shared
