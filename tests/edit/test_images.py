"""Image policies: the newest tag, never an older one, nothing that is not a tag."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.edit.images import (
    ImageChoice,
    choose,
    declared_images,
    full_name,
    image_values,
    parse_image,
    reverted_tags,
)
from gitsync.errors import InvalidInput
from gitsync.objects.application import ImagePolicy, parse_application

NAME = "registry.example.com:5000/team/web"


def pod(image: str, kind: str = "Deployment") -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": image}, {"name": "other", "image": "redis:7"}]}
    template = {"spec": spec}
    nested = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    meta = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec if kind == "Pod" else nested}


def chosen(tag: str, tags: list[str], reverted: frozenset[str] = frozenset(), **policy: Any) -> ImageChoice:
    [declared] = declared_images([pod(f"{NAME}:{tag}")], [ImagePolicy(name=NAME, **policy)])
    return choose(declared, tags, reverted)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("web", ("web", "", "")),
        ("web:1", ("web", "1", "")),
        ("host:5000/web", ("host:5000/web", "", "")),
        ("host:5000/web:1@sha256:0", ("host:5000/web", "1", "sha256:0")),
    ],
)
def test_an_image_is_read_as_engines_do(text: str, parts: tuple[str, str, str]) -> None:
    image = parse_image(text)
    assert ((image.name, image.tag, image.digest), str(image)) == (parts, text)


@pytest.mark.parametrize(
    ("policy", "tag", "tags", "newest"),
    [
        ({"semver": ">=1 <2"}, "1.2.0", ["1.2.0", "1.10.0", "1.9.9", "2.0.0", "latest"], "1.10.0"),
        ({"semver": ">=1 <2"}, "v1.2.0", ["v1.3.0", "1.4.0-rc.1"], "v1.3.0"),
        ({"number": "build-*"}, "build-9", ["build-10", "build-2", "build-x", "other-99"], "build-10"),
        ({"alphabetical": "main-*"}, "main-20261124", ["main-20261125", "main-20251231", "zzz"], "main-20261125"),
    ],
)
def test_the_newest_allowed_tag_is_chosen(policy: dict[str, str], tag: str, tags: list[str], newest: str) -> None:
    choice = chosen(tag, tags, **policy)
    assert (choice.newest, choice.problem, choice.is_newer) == (newest, "", True)


@pytest.mark.parametrize("tag", ["1.9.0", "3.0.0"])
def test_a_declared_tag_is_never_replaced_by_an_older_one(tag: str) -> None:
    assert not chosen(tag, ["1.8.0", "1.9.0"], semver=">=1 <2").is_newer


def test_a_tag_without_an_order_stays_with_the_reason() -> None:
    choice = chosen("latest", ["1.8.0"], semver=">=1")
    assert (choice.is_newer, "the declared tag latest has no order" in choice.problem) == (False, True)


@pytest.mark.parametrize(
    "tag",
    [
        "1.9.0\n",
        "1.9.0; rm -rf /",
        "1.9.0 # x",
        "1.9.0: {a: b}",
        "$(id)",
        "1.9.0'",
        "../1.9.0",
        "1.9.0" + "0" * 130,
        "",
    ],
)
def test_what_is_not_a_tag_is_never_chosen(tag: str) -> None:
    assert not chosen("1.0.0", [tag, "1.0.0"], semver=">=1").is_newer
    assert not chosen("b-1", [f"b-{tag}", "b-1"], alphabetical="b-*").newest.endswith((" ", "\n"))
    assert chosen("b-1", [f"b-{tag}", "b-2"], number="b-*").newest == "b-2"


def test_numbers_of_other_scripts_and_sizes_are_none() -> None:
    assert chosen("b-1", ["b-²", "b-٣", "b-" + "9" * 40, "b-2"], number="b-*").newest == "b-2"


def test_a_tag_that_was_reverted_waits_for_a_newer_one() -> None:
    [declared] = declared_images([pod(f"{NAME}:1.0.0")], [ImagePolicy(name=NAME, semver=">=1")])
    message = f"Update images: x\n\n- Deployment web .image: {NAME}:1.0.0 -> {NAME}:1.1.0 (a.yaml:3), by y\n"
    reverted = reverted_tags([message, f"- {NAME}:0.9 -> {NAME}:1.0.0@sha256:1 (a.yaml:3)"], declared)
    assert reverted == {"1.1.0"}
    assert "1.1.0 was reverted" in choose(declared, ["1.1.0"], reverted).problem
    assert choose(declared, ["1.1.0", "1.1.1"], reverted).newest == "1.1.1"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", '.spec.template.spec.containers[name="main"].image'),
        ("CronJob", '.spec.jobTemplate.spec.template.spec.containers[name="main"].image'),
        ("Pod", '.spec.containers[name="main"].image'),
    ],
)
def test_a_value_names_its_field_and_policy(kind: str, path: str) -> None:
    [declared] = declared_images([pod(f"{NAME}:1.0.0", kind)], [ImagePolicy(name=NAME, semver=">=1")])
    [value] = image_values([choose(declared, ["1.1.0"])], {})
    assert (value.path, value.value, value.manager) == (path, f"{NAME}:1.1.0", f"the image policy of {NAME}")


@pytest.mark.parametrize(("image", "pin"), [("1.0.0", True), ("1.0.0@sha256:" + "0" * 64, False)])
def test_a_pinned_image_gets_the_digest_of_its_tag(image: str, pin: bool) -> None:
    [declared] = declared_images([pod(f"{NAME}:{image}")], [ImagePolicy(name=NAME, semver=">=1", pin=pin)])
    choice = choose(declared, ["1.1.0"])
    [value] = image_values([choice], {f"{NAME}:1.1.0": "sha256:" + "a" * 64})
    assert value.value == f"{NAME}:1.1.0@sha256:" + "a" * 64
    with pytest.raises(InvalidInput, match="names no digest"):
        list(image_values([choice], {f"{NAME}:1.1.0": "sha256:x\nkind: Secret"}))


@pytest.mark.parametrize(
    "policy", [{}, {"semver": ">=1", "number": "b-*"}, {"number": "build"}, {"alphabetical": "*-*"}, {"name": ""}]
)
def test_a_policy_has_exactly_one_order(policy: dict[str, str]) -> None:
    spec = {"source": {"repoURL": "https://git.example.com/a"}, "images": [{"name": "web", **policy}]}
    with pytest.raises(InvalidInput, match=r"spec\.images"):
        parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": spec})


def test_a_range_that_is_none_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="not a range"):
        chosen("1.0.0", ["1.1.0"], semver="newest")


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("nginx", "docker.io/library/nginx"),
        ("team/web", "docker.io/team/web"),
        ("docker.io/nginx", "docker.io/library/nginx"),
        ("index.docker.io/team/web", "docker.io/team/web"),
        ("localhost/web", "localhost/web"),
        ("registry:5000/team/web", "registry:5000/team/web"),
        ("ghcr.io/team/web", "ghcr.io/team/web"),
    ],
)
def test_a_short_name_is_read_as_engines_do(short: str, name: str) -> None:
    assert full_name(short) == name
