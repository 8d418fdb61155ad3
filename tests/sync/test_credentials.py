"""The Secrets that an Application names are used where its tenant allows them, and nowhere else."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from gitsync.errors import InvalidInput, Refused
from gitsync.gate.policy import GrantedUrl, Policy, TenantGrants
from gitsync.objects.application import Application, parse_application
from gitsync.ports import Capabilities
from gitsync.sync.credentials import ApplicationSecrets
from tests.fakes.ports import FakeCluster, FakeReaderPorts

TENANT = Policy(
    name="shop",
    repositories=("https://git.example/*",),
    tenant=TenantGrants(
        repositories=(GrantedUrl("https://git.example/*", ("login",)),),
        servers=(GrantedUrl("https://models.example", ("judge",)), GrantedUrl("https://vault.example", ("vault",))),
        decryption=("age", "vault", "other-vault"),
    ),
)
ENGINE = json.dumps(
    {
        "auths": {
            "reg.example": {"auth": base64.b64encode(b"puller:of-reg").decode()},
            "https://index.docker.io/v1/": {"username": "puller", "password": "of-hub"},
        }
    }
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
        "vault": {"sops.vault-token": "t", "sops.vault-address": "https://vault.example/", "notes": "not for us"},
        "other-vault": {"sops.vault-token": "t", "sops.vault-address": "https://vault.example https://evil.example"},
        "judge": {"apiKey": "key"},
        "registry": {".dockerconfigjson": ENGINE},
        "broken": {".dockerconfigjson": "[]"},
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


def test_a_tenant_lists_the_addresses_of_vault_with_the_secret() -> None:
    keys = secrets(TENANT).decryption_keys(application(age="vault"))
    assert keys.secrets == ({"sops.vault-token": "t", "sops.vault-address": "https://vault.example/"},)
    assert "https" not in repr(keys), "keys are not in logs"
    # listed for the Secret vault alone
    with pytest.raises(Refused, match=r"Secret other-vault is not allowed for https://vault\.example by policy shop"):
        secrets(TENANT).decryption_keys(application(age="other-vault"))
    assert secrets().decryption_keys(application(age="other-vault")).secrets


def test_a_secret_without_any_key_is_named() -> None:
    with pytest.raises(
        InvalidInput, match=r"shop/login has no member that ends in \.agekey or \.asc, and no credentials"
    ):
        secrets().decryption_keys(application(age="login"))


def test_without_a_tenant_each_secret_of_the_namespace_counts() -> None:
    assert secrets(Policy()).credentials(application(EVIL, login="partner")).password == "of-a-partner"
    assert not secrets().decryption_keys(application()).is_shared


# values of charts


def chart_application(*refs: dict[str, Any], account: str = "deployer") -> Application:
    source = {"repoURL": "https://git.example/x", "helm": {"valuesFrom": list(refs)}}
    spec = {"source": source, "destination": {"serviceAccountName": account}}
    return parse_application({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})


class Values:
    """A namespace with a Secret and a ConfigMap of values, and what reads them."""

    def __init__(self, *policies: Policy) -> None:
        self.cluster = FakeCluster()
        self.now = 0.0
        self.reads = 0
        data = base64.b64encode(b"password: right\n").decode()
        self.put("Secret", "login", {"values.yaml": data})
        self.put("ConfigMap", "sizes", {"values.yaml": "size: 2\n", "prod.yaml": "size: 9\n"})
        port: Any = self.cluster
        live: Any = FakeReaderPorts(self.cluster).live
        self.secrets = ApplicationSecrets(port, live, lambda app: policies, lambda: self.now)

    def put(self, kind: str, name: str, data: dict[str, str]) -> None:
        metadata = {"name": name, "namespace": "shop"}
        self.cluster.put({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data})

    def texts(self, *refs: dict[str, Any], account: str = "deployer") -> list[str]:
        inputs = self.secrets.chart_inputs(chart_application(*refs, account=account))
        return [text for _, text in inputs.values]

    def refuse(self, account: str) -> None:
        """Take the rights of a ServiceAccount away."""
        self.cluster.refused.add(f"system:serviceaccount:shop:{account}")


LOGIN = {"kind": "Secret", "name": "login"}
SIZES = {"kind": "ConfigMap", "name": "sizes"}


def test_values_of_configmaps_and_secrets_are_read_in_order() -> None:
    site = Values()
    assert site.texts(LOGIN, SIZES, {**SIZES, "key": "prod.yaml"}) == ["password: right\n", "size: 2\n", "size: 9\n"]
    assert site.texts({**SIZES, "name": "absent", "optional": True}, {**LOGIN, "key": "x", "optional": True}) == [
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("ref", "line"),
    [
        ({**LOGIN, "name": "absent"}, "Secret shop/absent does not exist; create it, or set optional"),
        ({**SIZES, "name": "absent"}, "ConfigMap shop/absent does not exist; create it, or set optional"),
        ({**SIZES, "key": "absent"}, "ConfigMap shop/sizes has no member absent; correct key"),
        ({**LOGIN, "key": "absent"}, "Secret shop/login has no member absent; correct key"),
    ],
)
def test_values_that_are_not_there_are_one_line(ref: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Values().texts(ref)
    assert str(caught.value) == f"spec.source.helm.valuesFrom: {line}"


def test_values_are_read_with_the_rights_of_the_account() -> None:
    site = Values()
    site.refuse("deployer")
    with pytest.raises(InvalidInput, match="Secret shop/login cannot be read as system:serviceaccount:shop:deployer"):
        site.texts(LOGIN)
    assert site.texts(LOGIN, account="other") == ["password: right\n"]
    # without an account the controller's own rights count, as for its writes
    assert site.texts(LOGIN, account="") == ["password: right\n"]


def test_a_right_that_is_gone_is_noticed() -> None:
    site = Values()
    site.texts(LOGIN)
    site.refuse("deployer")
    assert site.texts(LOGIN) == ["password: right\n"]  # allowed some moments ago
    site.now = 601.0
    with pytest.raises(InvalidInput, match="cannot be read as"):
        site.texts(LOGIN)


def test_a_new_version_is_read_with_a_right_of_its_own() -> None:
    site = Values()
    site.texts(SIZES)
    site.refuse("deployer")
    site.put("ConfigMap", "sizes", {"values.yaml": "size: 3\n"})
    with pytest.raises(InvalidInput, match="cannot be read as"):
        site.texts(SIZES)


def test_an_account_that_the_policy_refuses_reads_nothing() -> None:
    with pytest.raises(Refused, match=r"spec\.destination\.serviceAccountName"):
        Values(Policy(controller_rights=False)).texts(LOGIN, account="")


def test_charts_learn_what_the_cluster_serves() -> None:
    site = Values()
    site.cluster.capable = Capabilities("v1.36.2", ("apps/v1", "apps/v1/Deployment"))
    app = chart_application()
    app = replace(app, chart_inputs=site.secrets.chart_inputs(app))
    assert (app.chart.kube_version, app.chart.api_versions) == ("v1.36.2", ("apps/v1", "apps/v1/Deployment"))


def followed(secret: str) -> Application:
    images = [{"name": "reg.example/team/web", "semver": ">=1"}]
    spec = {"source": {"repoURL": EVIL}, "images": images}
    updates = {"imageUpdates": {"secretRef": {"name": secret}}} if secret else {}
    return parse_application({"metadata": {"name": "web", "namespace": "shop"}, "spec": {**spec, **updates}})


@pytest.mark.parametrize(
    ("secret", "server", "password"),
    [
        ("registry", "reg.example", ("puller", "of-reg")),
        ("registry", "registry-1.docker.io", ("puller", "of-hub")),
        ("registry", "other.example", None),
        ("", "reg.example", None),
        ("login", "reg.example", None),
    ],
)
def test_a_registry_gets_its_own_password(secret: str, server: str, password: tuple[str, str] | None) -> None:
    assert secrets().registry_password(followed(secret), server) == password


def test_a_secret_of_registries_that_is_no_config_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.imageUpdates\.secretRef\.name: .*not the config of a container"):
        secrets().registry_password(followed("broken"), "reg.example")


def test_a_tenant_lists_the_secrets_of_its_registries() -> None:
    with pytest.raises(Refused, match=r"Secret registry is not allowed for oci://reg\.example/team/web"):
        secrets(TENANT).registry_password(followed("registry"), "reg.example")
    grants = TenantGrants(repositories=(GrantedUrl("oci://reg.example/*", ("registry",)),))
    allowed = secrets(Policy(name="shop", tenant=grants))
    assert allowed.registry_password(followed("registry"), "reg.example") == ("puller", "of-reg")
