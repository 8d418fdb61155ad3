"""Manifests that are wrong in themselves, and the operator's own rules."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.validation import ManifestRule, SchemaViolation, check_manifests, check_rules, parse_rules, validate
from gitsync.merge.schema import builtin

CANARY = "%%CANARY-7f3a9c%%"


def config(**metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n", **metadata}}


def secret(data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": data}


@pytest.mark.parametrize(
    "manifest",
    [
        config(),
        config(labels={"a": "b"}, annotations={"a": ""}),
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:x"}},
        secret({"a": "MQ==", "n": None, "b": "", "c": "TGlu\nZXM="}),
        secret(None),
    ],
)
def test_sound_manifests_pass(manifest):
    assert check_manifests([manifest]) == ()


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (config(name="../secrets/x"), "metadata.name is invalid"),
        (config(name=".."), "metadata.name is invalid"),
        (config(name="a%2Fb"), "metadata.name is invalid"),
        (config(name=5), "metadata.name is invalid"),
        (config(namespace="kube-system/secrets"), "metadata.namespace is invalid"),
        (config(namespace=1), "metadata.namespace is invalid"),
        (config(labels={"a": 1}), "metadata.labels[a] must be a string"),
        (config(annotations=["a"]), "metadata.annotations must be a mapping"),
        (config(annotations={"a": "x" * 300_000}), "larger than 262144 bytes"),
        (secret(["a"]), "data must be a mapping"),
        (secret({"password": 5}), "data.password is not base64"),
        (secret({"password": "YQ= ="}), "data.password is not base64"),
        (secret({"password": "YWJj\tYWJj"}), "data.password is not base64"),
    ],
)
def test_unsound_manifests_are_named(manifest, says):
    (line,) = check_manifests([manifest])
    assert says in line


def test_a_secret_that_is_no_base64_is_named_without_its_value():
    (line,) = check_manifests([secret({"password": CANARY})])
    assert line.startswith("Secret n/s: data.password is not base64")
    assert "CANARY" not in line


def test_an_unknown_field_is_found_where_it_is():
    manifest = {**config(), "spec": {"x": 1}}
    schema = builtin().for_kind("", "v1", "ConfigMap")
    assert validate(manifest, schema) == [SchemaViolation(".spec", "field not declared in schema")]
    assert validate(config(), schema) == []


def test_a_wrong_type_in_a_secret_shows_no_value():
    (problem,) = validate(secret({"password": {"hidden": CANARY}}), builtin().for_kind("", "v1", "Secret"))
    assert problem.path == ".data.password"
    assert "CANARY" not in problem.what


DOCUMENT = {
    "apiVersion": "gitsync.dev/v1alpha1",
    "kind": "Policy",
    "metadata": {"name": "pins"},
    "spec": {
        "match": {"kinds": ["Deployment.apps"]},
        "rules": [
            {
                "name": "digest",
                "expression": "object.spec.template.spec.containers.all(c, c.image.contains('@sha256:'))",
                "message": "every image needs a digest",
            },
            {"expression": "has(object.spec.replicas) && object.spec.replicas <= 5"},
        ],
    },
}


def deployment(image="a@sha256:1", replicas=1):
    spec = {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec}


def test_a_rule_names_the_object_and_itself():
    rules = parse_rules(DOCUMENT, "policies/pins.yaml")
    assert check_rules(rules, [deployment(), config()]) == ()
    assert check_rules(rules, [deployment(image="a:1", replicas=9)]) == (
        "Deployment n/d: every image needs a digest (rule pins/digest)",
        "Deployment n/d: has(object.spec.replicas) && object.spec.replicas <= 5 (rule pins/1)",
    )


def test_a_rule_that_fails_to_evaluate_does_not_pass():
    rule = ManifestRule("r", "object.spec.absent > 1", "must be more")
    assert check_rules([rule], [deployment()]) == ("Deployment n/d: must be more (rule r)",)


def test_a_rule_that_is_not_a_truth_does_not_pass():
    assert check_rules([ManifestRule("r", "'yes'", "must be true")], [config()])


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "kind must be Policy"),
        ({**DOCUMENT, "spec": {"rules": "x"}}, "kind must be Policy"),
        ({**DOCUMENT, "spec": {"rules": [{"expression": 1}]}}, r"spec\.rules\[0\]\.expression must be a string"),
        ({**DOCUMENT, "spec": {"rules": [{"expression": "object."}]}}, "policies/x.yaml.*expression"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused(document, says):
    with pytest.raises(InvalidInput, match=says):
        parse_rules(document, "policies/x.yaml")
