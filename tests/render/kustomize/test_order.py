from __future__ import annotations

import pytest

from tests.render.factories import refusal, rendered

KINDS = ("Service", "Agent", "ConfigMap", "Namespace", "ValidatingWebhookConfiguration")


def order_of(options: str) -> list[str]:
    """Return the kinds in the order of the output."""
    text = "---\n".join(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n" for kind in KINDS)
    made = rendered({"kustomization.yaml": f"resources: [r.yaml]\n{options}", "r.yaml": text})
    return [manifest["kind"] for manifest in made.manifests]


LEGACY = ["Namespace", "ConfigMap", "Service", "Agent", "ValidatingWebhookConfiguration"]


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ("", LEGACY),
        ("sortOptions: {order: legacy}\n", LEGACY),
        ("sortOptions: {order: fifo}\n", list(KINDS)),
        (
            "sortOptions: {order: legacy, legacySortOptions: {orderFirst: [Service], orderLast: [Agent, ConfigMap]}}\n",
            ["Service", "Namespace", "ValidatingWebhookConfiguration", "Agent", "ConfigMap"],
        ),
    ],
)
def test_the_output_is_ordered(options, kinds):
    assert order_of(options) == kinds


@pytest.mark.parametrize(
    "options", ["sortOptions: {order: x}\n", "sortOptions: {}\n", "sortOptions: {order: fifo, legacySortOptions: {}}\n"]
)
def test_an_order_that_is_not_known_is_refused(options):
    line = refusal(
        {"kustomization.yaml": f"resources: [r.yaml]\n{options}", "r.yaml": "kind: A\nmetadata: {name: a}\n"}
    )

    assert line.startswith("kustomization.yaml:2")
