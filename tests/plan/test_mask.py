"""No value of a Secret leaves the process."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.objects.change import ABSENT, Action, Change, Difference, FieldDifference
from gitsync.objects.ref import ref_of
from gitsync.plan.drift import find_drift
from gitsync.plan.mask import MASK, mask, mask_change, mask_difference, mask_text
from gitsync.plan.normalize import declared
from tests.plan.factories import applied, config, schema_of

CANARY = "CANARY-7f3a9c"
ENCODED = base64.b64encode(CANARY.encode()).decode()
LAST = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"stringData":{{"password":"{CANARY}"}}}}', "note": "x"}


def secret(value=ENCODED, **members):
    metadata = {"name": "s", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": value}, **members}


def leaks(value):
    text = repr(value)
    return CANARY in text or ENCODED in text


def test_all_values_of_a_secret_are_hidden_and_its_keys_are_not():
    shown = mask(secret(stringData={"token": CANARY}))
    assert shown["data"] == {"password": MASK}
    assert shown["stringData"] == {"token": MASK}


def test_what_kubectl_remembers_is_hidden_and_other_annotations_are_not():
    shown = mask({**secret(), "metadata": {"name": "s", "annotations": LAST}})
    assert not leaks(shown)
    assert shown["metadata"]["annotations"]["note"] == "x"


def test_other_kinds_are_shown():
    manifest = config(key=CANARY)
    assert mask(manifest) is manifest
    change = Change(ref_of(manifest), Action.CREATE, desired=manifest)
    assert mask_change(change) is change


@pytest.mark.parametrize(
    ("kind", "desired", "live", "shown"),
    [
        (Difference.CHANGED, ENCODED, "b3RoZXI=", (f"{MASK} (in Git, differs)", f"{MASK} (in the cluster, differs)")),
        (Difference.CHANGED, ENCODED, ENCODED, (MASK, MASK)),
        (Difference.GONE, ENCODED, ABSENT, (f"{MASK} (in Git only)", ABSENT)),
        (Difference.EXTRA, ABSENT, ENCODED, (ABSENT, f"{MASK} (in the cluster only)")),
        (Difference.GONE, {"a": ENCODED}, ABSENT, ({"a": f"{MASK} (in Git only)"}, ABSENT)),
    ],
)
def test_a_difference_says_what_happened_and_not_the_value(kind, desired, live, shown):
    pointer = "/data" if isinstance(desired, dict) else "/data/password"
    result = mask_difference(ref_of(secret()), FieldDifference(".data.password", pointer, kind, desired, live))
    assert (result.desired, result.live) == shown


def test_the_type_of_a_secret_is_shown():
    difference = FieldDifference(".type", "/type", Difference.CHANGED, "a", "b")
    assert mask_difference(ref_of(secret()), difference) is difference


def test_a_whole_step_is_masked_on_both_sides():
    desired, live = declared(secret(stringData={"password": "other-" + CANARY})), applied(secret())
    live["metadata"]["annotations"] = LAST
    drift = find_drift(desired, live, schema_of(desired))
    assert drift.differences
    shown = mask_change(
        Change(ref_of(desired), Action.UPDATE, desired=desired, live=live, differences=drift.differences)
    )
    assert not leaks(shown)
    assert not leaks(mask_change(Change(ref_of(live), Action.PRUNE, live=live)).live)


@pytest.mark.parametrize(
    "text",
    [
        f"illegal base64 data: {CANARY}",
        f"invalid value: {ENCODED}",
        f'cannot parse "{CANARY}" and {ENCODED}',
    ],
)
def test_an_error_of_the_server_is_shown_without_the_values(text):
    assert not leaks(mask_text(text, [secret(), None, config(key="base64")]))


def test_multi_line_values_are_found_where_the_server_escapes_them():
    value = f"{CANARY}\nsecond line"
    plain = secret(base64.b64encode(value.encode()).decode())
    assert "second" not in mask_text(f"bad {value!r}", [plain])


def test_values_whose_base64_is_broken_into_lines_are_found_however_they_are_quoted():
    broken = secret(f"{ENCODED[:8]}\n{ENCODED[8:]}\n")
    assert not leaks(mask_text(f"bad {ENCODED}, that is {CANARY}", [broken]))


def test_short_values_hide_no_ordinary_words():
    assert mask_text("a bad request", [secret("YQ==", stringData={"x": "a"})]) == "a bad request"


@given(st.text(min_size=4, max_size=40))
def test_no_value_survives_in_a_text(value):
    held = secret(base64.b64encode(value.encode()).decode(), stringData={"x": value})
    shown = mask_text(f"start {value} end", [held])
    assert value not in shown.replace(MASK, "") or value in "start  end"


# objects of other kinds that hold values of Secrets


def workload(value, **annotations):
    env = [{"name": "PASSWORD", "value": value}]
    metadata = {"name": "web", "namespace": "shop", "annotations": annotations}
    spec = {"template": {"spec": {"containers": [{"name": "web", "image": "web:1", "env": env}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


MASKED = {"gitsync.dev/masked-fields": "/spec/template/spec/containers/*/env/*/value"}


def test_masked_fields_of_another_kind_are_hidden():
    shown = mask(workload(CANARY, **MASKED))
    assert not leaks(shown)
    assert shown["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"


@pytest.mark.parametrize(("desired", "live"), [(MASKED, {}), ({}, MASKED), (MASKED, MASKED)])
def test_a_step_hides_what_either_side_masks(desired, live):
    at = "/spec/template/spec/containers/0"
    differences = (
        FieldDifference(".env", f"{at}/env/0/value", Difference.CHANGED, CANARY, f"old {CANARY}"),
        FieldDifference(".container", at, Difference.CHANGED, {"image": "web:1", "env": [{"value": CANARY}]}),
        FieldDifference(".image", f"{at}/image", Difference.CHANGED, "web:2", "web:1"),
    )
    step = Change(
        ref_of(workload("")),
        Action.UPDATE,
        desired=workload(CANARY, **desired),
        live=workload(f"old {CANARY}", **live),
        differences=differences,
    )

    shown = mask_change(step)

    assert not leaks(shown)
    assert shown.differences[0].desired == f"{MASK} (in Git, differs)"
    assert shown.differences[1].desired == {"image": "web:1", "env": [{"value": MASK}]}
    assert shown.differences[2] is differences[2]


def test_an_error_of_the_server_quotes_no_masked_field():
    assert not leaks(mask_text(f"invalid value {CANARY!r}", [workload(CANARY, **MASKED)]))
