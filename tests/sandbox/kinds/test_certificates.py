"""CertificateSigningRequests, with the causes of a real 1.36.2 control plane."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.sandbox.http_client import Client

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PEM = b"-----BEGIN CERTIFICATE REQUEST-----\nYQ==\n-----END CERTIFICATE REQUEST-----\n"
SPEC = {"request": base64.b64encode(PEM).decode(), "signerName": "example.com/x", "usages": ["client auth"]}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"request": "YQ=="}, [("request", "Invalid")]),
        ({"usages": []}, [("usages", "Required")]),
        ({"usages": ["x", "any", "any"]}, [("usages[0]", "NotSupported"), ("usages[2]", "Duplicate")]),
        ({"signerName": ""}, [("signerName", "Required")]),
        ({"signerName": "x"}, [("signerName", "Invalid")]),
        ({"signerName": "x/Y"}, [("signerName", "Invalid"), ("signerName", "Invalid")]),
        ({"signerName": "kubernetes.io/legacy-unknown"}, [("signerName", "Invalid")]),
        ({"expirationSeconds": 0}, [("expirationSeconds", "Invalid")]),
    ],
)
def test_the_spec_of_a_request_is_checked(api: Client, spec: dict[str, Any], found: list[tuple[str, str]]) -> None:
    answer = api.ask("POST", PATH, {"metadata": {"name": "R"}, "spec": {**SPEC, **spec}})
    causes = answer.json["details"]["causes"]
    assert [(one["field"], one["reason"]) for one in causes] == [
        (f"spec.{at}", f"FieldValue{why}") for at, why in found
    ]


def test_the_spec_of_a_request_stays_as_it_was_created(api: Client) -> None:
    made = api.ask("POST", PATH, {"metadata": {"name": "r"}, "spec": SPEC})
    assert made.status == 201
    body = {**made.json, "spec": {**SPEC, "signerName": "example.com/y"}}
    assert api.ask("PUT", f"{PATH}/r", body).json["spec"]["signerName"] == "example.com/x"
