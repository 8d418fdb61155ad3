"""Applications are read as they are written, and what cannot be read is named."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.application import (
    Application,
    ApplicationSpec,
    Dependency,
    Destination,
    GitSource,
    HealthCheck,
    HelmSettings,
    IgnoreRule,
    MetricQuery,
    RetryBackoff,
    SyncPolicy,
    followed_source,
    parse_application,
    source_urls,
)
from gitsync.objects.charts import ChartOptions
from gitsync.objects.parsing import Spec


def parsed(**post_sync: Any) -> Application:
    manifest = {
        "metadata": {"name": "shop", "namespace": "gitsync"},
        "spec": {"source": {"repoURL": "https://x.example/r"}, "sync": {"postSync": post_sync}},
    }
    return parse_application(manifest)


def query(**members: Any) -> dict[str, Any]:
    return {"name": "error rate", "prometheusQuery": "up", "max": "0.05", **members}


def test_queries_are_limits() -> None:
    app = parsed(queries=[query(), query(name="latency", max="-2", **{"for": "2m"})])
    assert app.sync.limits == (
        MetricQuery(name="error rate", query="up", max="0.05"),
        MetricQuery(name="latency", query="up", max="-2", for_seconds="2m"),
    )
    assert [(limit.max, limit.for_seconds) for limit in app.sync.limits] == [(0.05, 0.0), (-2.0, 120.0)]
    assert parsed().sync.limits == ()


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"name": ""}, "queries[0].name"),
        ({"prometheusQuery": ""}, "queries[0].prometheusQuery"),
        ({"max": "NaN"}, "queries[0].max"),
        ({"max": "1e3"}, "queries[0].max"),
        ({"for": "soon"}, "queries[0].for"),
    ],
)
def test_a_query_that_means_nothing_is_named(members: dict[str, str], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(queries=[query(**members)])
    assert caught.value.location == f"spec.sync.postSync.{where}"


def test_two_queries_of_one_name_cannot_be_told_apart() -> None:
    with pytest.raises(InvalidInput, match=r"^spec\.sync\.postSync\.queries\[1\]: .*another item has the name"):
        parsed(queries=[query(), query()])


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"suspend": "false"}, "spec.suspend"),
        ({"sync": {"automated": "false"}}, "spec.sync.automated"),
        ({"sync": {"interval": None}}, "spec.sync.interval"),
        ({"sync": {"interval": "0s"}}, "spec.sync.interval"),
        ({"sync": {"retry": {"backoff": {"max": 5}}}}, "spec.sync.retry.backoff.max"),
        (
            {"sync": {"windows": [{"kind": "Never", "schedule": "* * * * *", "duration": "1h"}]}},
            "spec.sync.windows[0].kind",
        ),
        ({"destination": {"allowClusterScope": True}}, "spec.destination.allowClusterScope"),
        ({"source": {"repoURL": "x", "decryption": {"provider": "sops"}}}, "spec.source.decryption.secretRef"),
        ({"risk": {"rules": [{"match": {}, "class": "High"}]}}, "spec.risk.rules[0].class"),
        ({"dependsOn": [{}]}, "spec.dependsOn[0].name"),
        ({"reasoner": {"openAI": {"endpoint": "https://a@b/", "model": "m"}}}, "spec.reasoner.openAI.endpoint"),
        ({"source": {}}, "spec.source.repoURL"),
    ],
)
def test_an_invalid_value_is_named_by_its_path(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_application({"metadata": {"name": "shop"}, "spec": {"source": {"repoURL": "https://x"}, **spec}})
    assert caught.value.location == where


def test_a_spec_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^spec: Application gitsync/shop: null is not a mapping"):
        parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}})


def test_null_means_absent_as_at_the_api_server() -> None:
    spec = {"source": {"repoURL": "https://x", "credentials": None, "revision": None}, "sync": None, "risk": None}
    spec |= {"dependsOn": None, "reasoner": {"openAI": None}, "history": None, "destination": None}
    bare = {"source": {"repoURL": "https://x"}}
    assert parse_application({"spec": spec}) == parse_application({"spec": bare})


def test_the_target_hash_is_that_of_earlier_versions() -> None:
    source = {
        "repoURL": "https://git.example/a.git",
        "revision": "prod",
        "path": "overlays/prod",
        "renderer": "Kustomize",
        "credentials": {"secretRef": {"name": "c"}},
        "verify": {"mode": "SignedCommits", "secretRef": {"name": "v"}},
        "decryption": {"provider": "sops", "secretRef": {"name": "d"}},
    }
    destination = {
        "namespace": "shop",
        "serviceAccountName": "dep",
        "allowClusterScoped": True,
        "createNamespace": True,
    }
    full = parse_application({"spec": {"source": source, "destination": destination}})
    bare = parse_application({"metadata": {"namespace": "n"}, "spec": {"source": {"repoURL": "https://x"}}})
    assert (full.target_hash, bare.target_hash) == ("ec757d3c908f", "3e4850456560")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"source": {"repoURL": "https://x", "helm": {"valuesObject": {"a": 1}}}},
            "spec.source.helm.valuesObject: .*; write values",
        ),
        (
            {"source": {"repoURL": "https://x", "helm": {"values": "a: 1"}}},
            r"spec.source.helm.values: .*mapping",
        ),
        (
            {"source": {"repoURL": "https://x", "targetRevision": "main"}},
            "spec.source.targetRevision: .*; write revision",
        ),
        ({"syncPolicy": {"automated": {}}}, "spec.syncPolicy: .*; write sync, with automated"),
        ({"destination": {"server": "https://y"}}, "spec.destination.server: .*; leave it out"),
        ({"sourceRef": {"kind": "GitRepository"}}, "spec.sourceRef: .*; write source.repoURL"),
        ({"prune": True}, "spec.prune: .*; write sync.prune"),
        ({"whatever": True}, "spec.whatever: .*; write one of suspend, source"),
    ],
)
def test_fields_of_argo_cd_and_flux_are_named_as_ours(spec: dict[str, Any], message: str) -> None:
    source = {"source": {"repoURL": "https://x"}}
    with pytest.raises(InvalidInput, match=message):
        parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": {**source, **spec}})


ARGO_CD = {
    "project": "default",
    "source": {"repoURL": "https://x", "targetRevision": "main", "path": "shop"},
    "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
    "syncPolicy": {"automated": {"prune": True}},
}
FLUX = {
    "interval": "10m",
    "path": "./deploy",
    "prune": True,
    "wait": True,
    "targetNamespace": "shop",
    "sourceRef": {"kind": "GitRepository", "name": "shop"},
    "whatever": 1,
}


def test_all_unknown_fields_are_in_one_message() -> None:
    def message(spec: dict[str, Any]) -> str:
        with pytest.raises(InvalidInput) as failed:
            parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": spec})
        return str(failed.value)

    assert message(ARGO_CD) == (
        "spec: Application gitsync/shop: 4 fields are not known: source.targetRevision (write revision),"
        " destination.server (leave it out: a controller syncs the cluster that it runs in),"
        " project (leave it out: what an Application may do is in the operator's policies),"
        " syncPolicy (write sync, with automated, prune and selfHeal as true or false)"
    )
    # its source is missing because Flux has it elsewhere, which is the error to show
    flux = message(FLUX)
    assert flux.startswith("spec: Application gitsync/shop: 7 fields are not known: interval (write sync.interval), ")
    assert flux.endswith("sourceRef (write source.repoURL and source.revision), whatever")
    assert "source is missing" not in flux
    assert "surce (write source), path (write source.path)" in message({"surce": {}, "path": "shop"})


# the members of spec by the definitions of Argo CD 3.1 and Flux 2.6
_FOREIGN = {
    ApplicationSpec: (
        "destination ignoreDifferences info project revisionHistoryLimit source sources syncPolicy"
        " commonMetadata components decryption deletionPolicy dependsOn force healthCheckExprs healthChecks"
        " ignoreMissingComponents images interval kubeConfig namePrefix nameSuffix patches path postBuild prune"
        " retryInterval serviceAccountName sourceRef suspend targetNamespace timeout wait"
        " chart chartRef driftDetection install maxHistory persistentClient postRenderers releaseName rollback"
        " storageNamespace test uninstall upgrade values valuesFrom ref secretRef url verify"
    ),
    GitSource: "chart directory helm kustomize path plugin ref repoURL targetRevision secretRef url verify",
    HelmSettings: (
        "apiVersions fileParameters ignoreMissingValueFiles kubeVersion namespace parameters passCredentials"
        " releaseName skipCrds skipSchemaValidation skipTests valueFiles values valuesObject version"
    ),
    Destination: "name namespace server",
    SyncPolicy: "automated managedNamespaceMetadata retry syncOptions",
    RetryBackoff: "duration factor maxDuration",
    IgnoreRule: "group jqPathExpressions jsonPointers kind managedFieldsManagers name namespace",
    Dependency: "name namespace readyExpr",
    HealthCheck: "apiVersion kind name namespace current failed inProgress",
}


@pytest.mark.parametrize("model", _FOREIGN, ids=lambda model: model.__name__)
def test_every_field_of_argo_cd_and_flux_has_a_counterpart_or_a_hint(model: type[Spec]) -> None:
    ours = {field.alias for field in model.model_fields.values()}
    assert set(_FOREIGN[model].split()) - ours <= set(model.FOREIGN_NAMES)
    assert not set(model.FOREIGN_NAMES) & ours, "what is known needs no hint"


def test_options_of_a_chart_are_those_of_the_spec_and_of_the_application():
    settings = {"valueFiles": ["prod.yaml"], "values": {"size": 2}, "skipCrds": True, "apiVersions": ["a/v1"]}
    app = parse_application(
        {
            "metadata": {"name": "shop", "namespace": "team"},
            "spec": {"source": {"repoURL": "https://x", "helm": settings}, "destination": {"namespace": "prod"}},
        }
    )

    assert app.chart == ChartOptions(
        "shop", "prod", ("prod.yaml",), '{"size": 2}', includes_crds=False, api_versions=("a/v1",)
    )


def test_options_of_a_chart_change_the_target_but_not_that_of_earlier_versions():
    def hash_of(**source):
        spec = {"source": {"repoURL": "https://x", **source}}
        return parse_application({"metadata": {"name": "a", "namespace": "b"}, "spec": spec}).target_hash

    assert hash_of(helm={"releaseName": "r"}) != hash_of()
    assert hash_of(helm=None) == hash_of()


def source_of(**source: Any) -> Application:
    metadata = {"name": "shop", "namespace": "gitsync"}
    return parse_application({"metadata": metadata, "spec": {"source": source}})


def test_the_chart_of_a_repository_is_part_of_its_url() -> None:
    app = source_of(repoURL="https://charts.example.com/stable", chart="web", revision="~1.4")
    assert app.source.repo_url == "helm+https://charts.example.com/stable/web"
    assert app.source.renderer == "Helm"
    # a model that was dumped and read again is the same one
    assert type(app.source).model_validate(app.source.model_dump()) == app.source
    other = source_of(repoURL="https://charts.example.com/stable", chart="db", revision="~1.4")
    assert app.target_hash != other.target_hash


def test_a_chart_may_have_another_renderer() -> None:
    app = source_of(repoURL="oci://ghcr.io/charts", chart="web", revision="1", renderer="Auto")
    assert (app.source.repo_url, app.source.renderer) == ("oci://ghcr.io/charts/web", "Auto")


@pytest.mark.parametrize(
    ("source", "where", "says"),
    [
        ({"chart": "../web"}, "spec.source.chart", "should match pattern"),
        ({"chart": "a/b"}, "spec.source.chart", "should match pattern"),
        ({"chart": 3}, "spec.source.chart", ""),
        ({"chart": "web", "repoURL": "git@git.example:charts"}, "spec.source", "neither an https:// nor an oci:// URL"),
        ({"chart": "web", "repoURL": 3}, "spec.source.repoURL", ""),
    ],
)
def test_a_chart_without_a_helm_repository_is_named(source: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        source_of(**{"repoURL": "https://charts.example.com", **source})
    assert caught.value.location == where
    assert says in str(caught.value)


WEB = {"name": "web", "repoURL": "https://charts.example.com", "chart": "web", "revision": "1.x"}
VALUES = {"name": "values", "repoURL": "https://git.example.com/values.git"}


def group_of(*sources: dict[str, Any]) -> Application:
    return parse_application({"metadata": {"name": "shop", "namespace": "x"}, "spec": {"sources": list(sources)}})


def test_several_sources_are_rendered_in_their_folders() -> None:
    files = ["$values/prod.yaml", "/own.yaml", "more.yaml"]
    app = group_of({**WEB, "helm": {"valueFiles": files}}, VALUES, {**VALUES, "name": "extra", "path": "deploy"})
    assert [render[:3] for render in app.renders] == [("web", "web/.", "Helm"), ("extra", "extra/deploy", "Auto")]
    assert app.renders[0].chart.value_files == ("/values/prod.yaml", "/web/own.yaml", "more.yaml")
    assert app.source.revision == "web=1.x; values=main; extra=main;"


def test_one_url_stands_for_the_same_repositories() -> None:
    apps = [group_of(WEB, VALUES), group_of({**WEB, "revision": "2.x"}, VALUES), group_of(WEB, {**VALUES, "name": "v"})]
    urls = [app.source.repo_url for app in apps]
    assert urls[0] == urls[1] != urls[2]
    assert len({app.target_hash for app in apps}) == 3
    manifest = {"spec": {"sources": [WEB, VALUES]}}
    assert followed_source(manifest) == (apps[0].source.repo_url, apps[0].source.revision)
    assert source_urls(manifest) == {urls[0], "helm+https://charts.example.com/web", VALUES["repoURL"]}


def test_sources_of_a_manifest_are_those_of_one_source() -> None:
    assert followed_source({"spec": {"source": WEB}}) == ("helm+https://charts.example.com/web", "1.x")
    assert followed_source({"spec": {"source": {"repoURL": "https://x"}}}) == ("https://x", "main")
    assert source_urls({"spec": {"source": {"repoURL": "x", "chart": "y"}}}) == {"x"}
    assert source_urls({"spec": {"sources": "x", "source": None}}) == source_urls({}) == frozenset()


def test_all_revisions_are_commits_where_it_is_fixed() -> None:
    pinned = [{**WEB, "revision": "a" * 40}, {**VALUES, "revision": "b" * 40}]
    assert group_of(*pinned).source.is_fixed
    assert not group_of(pinned[0], VALUES).source.is_fixed


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"source": {"repoURL": "https://x"}, "sources": [WEB]}, "both source and sources are set; write source, or"),
        ({"sources": []}, "source is missing; write source, or a list of sources"),
        ({"sources": [WEB, {**VALUES, "name": "web"}]}, r"spec\.sources\[1\].*another item has the name web"),
        ({"sources": [VALUES]}, "no source has anything to render; set the path of one"),
        ({"sources": [{**WEB, "helm": {"valueFiles": ["$other/x"]}}, VALUES]}, r"\$other/x is of a source that is not"),
        ({"sources": [{**WEB, "name": "Web"}]}, r"spec\.sources\[0\]\.name"),
        ({"sources": [{**VALUES, "name": None}]}, r"spec\.sources\[0\]\.name"),
        ({"sources": [{**WEB, "name": f"s{number}"} for number in range(11)]}, r"spec\.sources"),
        ({"sources": [{**VALUES, "chart": "web", "repoURL": "git@x:y"}]}, r"spec\.sources\[0\].*neither an https"),
        ({"sources": {"web": WEB}}, r"spec\.sources"),
    ],
)
def test_sources_that_fit_nothing_are_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_application({"metadata": {"name": "shop", "namespace": "x"}, "spec": spec})
