"""What a change does to each deployed folder."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gitsync.gate.policy import Policy
from gitsync.gate.validation import ManifestRule
from gitsync.objects.application import parse_application
from gitsync.objects.change import Action, Risk
from gitsync.preview.compare import ChangedRoot, Remotes, RootChange, Rules, Sides, changed_roots, preview
from gitsync.preview.roots import Root
from gitsync.render.provenance.trace import place
from tests.preview.factories import compare, compare_joined, deployment, tree

BASE = {
    "base/kustomization.yaml": "resources: [d.yaml]",
    "base/d.yaml": deployment(),
    "dev/kustomization.yaml": "resources: [../base]\nnamePrefix: dev-",
    "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-",
    "other/kustomization.yaml": "resources: [c.yaml]",
    "other/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
}


def test_a_change_of_a_base_reaches_its_overlays_once_together() -> None:
    found = compare(BASE, {**BASE, "base/d.yaml": deployment(replicas=3)})

    assert [[root.path for root in change.roots] for change in found.changes] == [["prod", "dev"]]
    [step] = found.changes[0].steps
    assert (step.action, str(step.ref), [item.path for item in step.differences]) == (
        Action.UPDATE,
        "Deployment default/prod-web",
        [".spec.replicas"],
    )
    setters = found.changes[0].traces[step.ref][".spec.replicas"]
    assert setters[-1].where == "base/d.yaml:5"
    assert [root.path for root in found.covered] == ["dev", "other", "prod"]


def test_overlays_in_which_other_values_change_are_apart_production_first() -> None:
    overlay = "resources: [../base]\nreplicas: [{name: web, count: %d}]\n"
    result = {**BASE, "dev/kustomization.yaml": overlay % 2, "prod/kustomization.yaml": overlay % 3}

    assert [[root.path for root in change.roots] for change in compare(BASE, result).changes] == [["prod"], ["dev"]]


def test_a_change_that_renders_to_the_same_changes_nothing() -> None:
    assert compare(BASE, {**BASE, "base/d.yaml": f"# a comment\n{deployment()}"}).changes == ()


JOINED = {
    "web/d.yaml": deployment(),
    "extra/overlay/kustomization.yaml": "resources: [c.yaml]",
    "extra/overlay/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: x}\n",
    "extra/unused.yaml": "a: 1\n",
}
WEB = {"name": "web", "path": "."}
EXTRA = {"name": "extra", "path": "overlay"}


def test_a_change_in_one_of_several_sources_is_one_plan() -> None:
    changed = {**JOINED, "extra/overlay/c.yaml": JOINED["extra/overlay/c.yaml"].replace("x", "z")}
    found = compare_joined(JOINED, changed, WEB, EXTRA)
    [change] = found.changes
    assert [str(step.ref) for step in change.steps] == ["ConfigMap default/c"]
    assert place(change.traces[change.steps[0].ref][".data.a"]) == "extra/overlay/c.yaml:4"
    assert [root.name for root in found.covered] == ["default/shop (web, extra/overlay)"]
    assert [*change.plans] == ["default/shop"]


def test_a_folder_of_one_of_several_sources_is_deployed_once() -> None:
    changed = {**JOINED, "extra/overlay/c.yaml": JOINED["extra/overlay/c.yaml"].replace("x", "z")}
    own = {path.removeprefix("extra/"): text for path, text in JOINED.items() if path.startswith("extra/")}
    found = compare_joined(JOINED, changed, WEB, EXTRA, own=own)
    assert [root.places for root in found.covered] == ["web, extra/overlay"]


def test_what_no_source_renders_changes_nothing() -> None:
    assert compare_joined(JOINED, {**JOINED, "extra/unused.yaml": "a: 2\n"}, WEB, EXTRA).changes == ()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"extra/overlay/c.yaml": deployment(replicas=2)}, "the sources web and extra both have it"),
        ({"web/d.yaml": None}, "the path web"),
    ],
)
def test_sources_that_do_not_fit_any_more_are_the_problem(changed: dict[str, str | None], problem: str) -> None:
    result = {path: text for path, text in {**JOINED, **changed}.items() if text is not None}
    [change] = compare_joined(JOINED, result, WEB, EXTRA).changes
    assert problem in change.problem
    assert change.steps == ()


def test_another_version_of_a_kind_is_a_change() -> None:
    item = "apiVersion: example.com/v1beta1\nkind: Thing\nmetadata: {name: a}\n"
    base = {"prod/kustomization.yaml": "resources: [a.yaml]", "prod/a.yaml": item}
    [change] = compare(base, {**base, "prod/a.yaml": item.replace("v1beta1", "v1")}).changes
    [difference] = change.steps[0].differences
    assert (difference.path, difference.live, difference.desired) == (
        ".apiVersion",
        "example.com/v1beta1",
        "example.com/v1",
    )


def test_a_new_object_of_a_generator_file_is_traced_to_it() -> None:
    generator = """apiVersion: builtin
kind: ConfigMapGenerator
metadata: {name: settings}
literals: [a=1]
"""
    base = {"prod/kustomization.yaml": "generators: [generator.yaml]", "prod/generator.yaml": generator}
    added = {**base, "prod/generator.yaml": generator + "---\n" + generator.replace("settings", "more")}
    [change] = compare(base, added).changes
    [(ref, traces)] = change.traces.items()
    assert ref.name.startswith("more-")
    assert place(traces[""]) == "prod/generator.yaml:8"


def test_values_of_secrets_are_said_to_differ_between_the_commits() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\ndata: {a: aGlkZGVu}\n"
    base = {"prod/kustomization.yaml": "resources: [a.yaml]", "prod/a.yaml": secret}
    [change] = compare(base, {**base, "prod/a.yaml": secret.replace("aGlkZGVu", "b3RoZXI=")}).changes
    [difference] = change.steps[0].differences
    assert (difference.live, difference.desired) == ("•••••• (before, differs)", "•••••• (after, differs)")


def test_a_folder_that_appears_or_goes_is_created_or_pruned() -> None:
    without = {path: text for path, text in BASE.items() if not path.startswith("other/")}

    assert [step.action for step in compare(without, BASE).changes[0].steps] == [Action.CREATE]
    assert [step.action for step in compare(BASE, without).changes[0].steps] == [Action.PRUNE]


def test_a_folder_that_cannot_be_built_after_it_is_a_problem_with_its_line() -> None:
    found = compare(BASE, {**BASE, "base/kustomization.yaml": "resources: [d.yaml]\nresourcs: []"})

    assert "base/kustomization.yaml:2" in found.changes[0].problem
    assert found.problems == (found.changes[0].problem,)


def test_a_folder_that_was_broken_before_is_not_compared() -> None:
    broken = {**BASE, "base/kustomization.yaml": "resources: [absent.yaml]"}

    [change] = compare(broken, BASE).changes
    assert "absent.yaml" in change.base_problem
    assert (change.problem, change.steps) == ("", ())


@pytest.mark.parametrize(
    ("kustomization", "wanted"),
    [
        (
            "helmCharts: [{name: web, repo: 'oci://registry.example.com/charts', version: 1.2.0}]",
            "oci://registry.example.com/charts/web",
        ),
        (
            "resources: ['https://bot:secret@git.example.com/shop/base.git//app?ref=v1']",
            "https://git.example.com/shop/base.git//app?ref=v1",
        ),
    ],
)
def test_what_is_in_another_repository_is_named_and_not_read(kustomization: str, wanted: str) -> None:
    [change] = compare(BASE, {**BASE, "other/kustomization.yaml": kustomization}).changes
    assert change.problem == ""
    assert change.base_problem.startswith("other/kustomization.yaml:1: ")
    assert f": a preview does not read {wanted}, which is in another repository" in change.base_problem


def test_what_an_application_may_read_of_other_repositories_is_asked_for() -> None:
    reference = "https://git.example.com/shop/base.git//app?ref=v"
    app = parse_application(
        {"metadata": {"name": "shop", "namespace": "team"}, "spec": {"source": {"repoURL": "x", "path": "shop"}}}
    )
    sides = Sides(
        *(tree({"shop/kustomization.yaml": f"resources: ['{reference}{version}']"}) for version in "12"),
        {"shop/kustomization.yaml"},
    )

    def compared(remotes: Remotes) -> RootChange:
        (change,) = preview(sides, lambda url: False, known=[Root("shop", app)], remotes=remotes).changes
        return change

    assert "a preview does not read" in compared(Remotes()).base_problem
    remotes = Remotes(["team/shop"])
    compared(remotes)
    place = "shop/kustomization.yaml:1"
    assert remotes.needed == {("team/shop", f"{reference}{version}"): place for version in "12"}

    mounts = {
        f"m{version}": tree(
            {"app/kustomization.yaml": "resources: [web.yaml]", "app/web.yaml": deployment(replicas=int(version))}
        )
        for version in "12"
    }
    folders = {f"{reference}{version}": f"m{version}/app" for version in "12"}
    change = compared(Remotes(["team/shop"], {"team/shop": mounts}, {"team/shop": folders}))
    assert [[item.path for item in step.differences] for step in change.steps] == [[".spec.replicas"]]

    key = ("team/shop", f"{reference}2")
    refused = Remotes(
        ["team/shop"], {"team/shop": mounts}, {"team/shop": {f"{reference}1": "m1/app"}}, {key: ("no such tag", True)}
    )
    assert (compared(refused).problem, refused.needed) == ("no such tag", {})


def test_only_folders_below_the_given_paths_are_covered() -> None:
    found = compare(BASE, {**BASE, "base/d.yaml": deployment(replicas=3)}, below=("dev",))

    assert [root.path for root in found.covered] == ["dev"]


APP = """\
apiVersion: gitsync.dev/v1alpha1
kind: Application
metadata: {name: shop, namespace: team}
spec:
  source: {repoURL: "https://git.example.com/shop.git", path: prod}
  destination: {namespace: shop}
  risk: {rules: [{match: {kind: Deployment}, class: Dangerous}]}
"""


def test_rules_and_namespace_of_the_application_count() -> None:
    base = {**BASE, "apps/shop.yaml": APP}
    [change, _] = compare(base, {**base, "base/d.yaml": deployment(replicas=3)}).changes

    assert change.roots[0].name == "team/shop (prod)"
    assert (change.risk, str(change.steps[0].ref)) == (Risk.DANGEROUS, "Deployment shop/prod-web")


def test_policies_and_rules_of_the_operator_reject() -> None:
    base = {**BASE, "apps/shop.yaml": APP}
    policy = Policy(name="shop", namespaces=("other",))
    rule = ManifestRule(
        name="few", kinds=("Deployment",), expression="object.spec.replicas < 3", message="at most two replicas"
    )
    found = compare(base, {**base, "base/d.yaml": deployment(replicas=3)}, Rules((policy,), (rule,)))

    assert found.changes[0].violations == (
        "Deployment shop/prod-web: at most two replicas (rule few)",
        "spec.destination.namespace: shop is not allowed by policy shop",
        "Deployment shop/prod-web: namespace shop is not allowed by policy shop",
    )


@pytest.mark.parametrize(
    ("before", "after", "effects"),
    [
        pytest.param(
            deployment(),
            deployment(replicas=3),
            [
                "Deployment default/web: scales from 1 to 3",
                "requests 100m → 300m CPU",
                "requests 64Mi → 192Mi memory",
            ],
            id="scale",
        ),
        pytest.param(
            deployment(replicas=2),
            deployment(replicas=2, image="web:2"),
            ["Deployment default/web: restarts 2 Pods"],
            id="image",
        ),
        pytest.param(
            deployment(cpu="1"),
            deployment(cpu="many"),
            ["Deployment default/web: restarts 1 Pod", "requests 1 → 0 CPU"],
            id="not a quantity",
        ),
    ],
)
def test_effects_on_pods_and_requests(before: str, after: str, effects: list[str]) -> None:
    base = {"kustomization.yaml": "resources: [d.yaml]", "d.yaml": before}
    [change] = compare(base, {**base, "d.yaml": after}).changes

    assert [effect.text for effect in change.effects] == effects


def test_lost_data_comes_first() -> None:
    claim = (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
        "spec: {resources: {requests: {storage: 5Gi}}}\n"
    )
    base = {"kustomization.yaml": "resources: [d.yaml, p.yaml]", "d.yaml": deployment(), "p.yaml": claim}
    result = {"kustomization.yaml": "resources: [d.yaml]", "d.yaml": deployment(replicas=2)}
    [change] = compare(base, result).changes

    assert (change.effects[0].text, change.effects[0].is_loss) == (
        "PersistentVolumeClaim default/data: the data of 5Gi is deleted",
        True,
    )


def test_a_budget_that_allows_no_eviction_is_named() -> None:
    budget = (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n"
        "spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}\n"
    )
    base = {"kustomization.yaml": "resources: [d.yaml, b.yaml]", "d.yaml": deployment(), "b.yaml": budget}
    [change] = compare(base, {**base, "d.yaml": deployment(image="web:2")}).changes

    assert any("allows no eviction" in effect.text for effect in change.effects)


def changed(base: Mapping[str, str], result: Mapping[str, str]) -> dict[str, ChangedRoot]:
    paths = frozenset(path for path in base.keys() | result.keys() if base.get(path) != result.get(path))
    changes = changed_roots(Sides(tree(dict(base)), tree(dict(result)), paths), lambda url: False)
    return {change.root.path: change for change in changes}


def test_a_folder_that_is_removed_is_a_changed_root() -> None:
    result = {path: text for path, text in BASE.items() if not path.startswith("other/")}
    [(path, change)] = changed(BASE, result).items()
    assert (path, [ref.name for ref in change.old], change.new) == ("other", ["c"], {})


def test_a_root_that_cannot_be_built_hides_no_other_one() -> None:
    changes = changed(BASE, {**BASE, "other/c.yaml": "kind: [", "base/d.yaml": deployment(replicas=3)})
    assert "other/c.yaml:" in changes["other"].problem
    assert [changes[path].problem for path in ("dev", "prod")] == ["", ""]
