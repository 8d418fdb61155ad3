"""The differences of an application: what changed inside, and where in Git it comes from."""

from __future__ import annotations

import re
from dataclasses import replace

from gitsync.objects.change import ABSENT
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ResourceView
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.step_source import BUILD_STEP
from tests.links import prose
from tests.server.conftest import Open, Site
from tests.server.fakes import application, changed, resource

REF = ObjectRef("", "ConfigMap", "shop", "menu")
STEPS = (
    FieldSetter("resource", "base/menu.yaml:7"),
    FieldSetter("PatchTransformer", "overlays/prod/patch.yaml:12"),
    FieldSetter("name reference", BUILD_STEP),
)


def drifted(*differences: object) -> ResourceView:
    item = resource("menu", sync="OutOfSync", differences=tuple(differences))  # type: ignore[arg-type]
    return replace(item, change=replace(item.change, desired={"kind": "ConfigMap"}))


def opened(site: Open, item: ResourceView, repository: str = "https://github.com/acme/shop.git") -> Site:
    found = site([application("shop", [item], spec={"source": {"repoURL": repository}})])
    found.engine.provenance.known = {REF: {"": STEPS[:1], ".data.mode": STEPS}}
    return found


def test_a_field_names_the_line_that_set_it_and_the_steps_before(site: Open) -> None:
    for mode in ("split", "unified"):
        text = opened(site, drifted(changed())).get(f"/apps/gitsync/shop/diff?mode={mode}").text

        link = f"https://github.com/acme/shop/blob/{'c' * 40}/overlays/prod/patch.yaml#L12"
        assert f'set in <a href="{link}" rel="noreferrer">overlays/prod/patch.yaml:12</a>' in text
        assert re.findall(r"<summary>(\d+ steps)", text) == ["3 steps"]
        assert re.findall(r"<li>(\w+ ?\w*)", text) == ["resource ", "PatchTransformer ", "name reference"]
        assert "Declared in <a " in text


def test_a_repository_without_pages_has_no_links(site: Open) -> None:
    text = opened(site, drifted(changed()), "https://git.acme.org/shop.git").get("/apps/gitsync/shop/diff").text

    assert "set in overlays/prod/patch.yaml:12" in prose(text)
    assert "set in <code>overlays/" in text


def test_only_what_git_declares_and_differs_is_traced(site: Open) -> None:
    more = replace(changed(".data.extra"), desired=ABSENT)
    page = opened(site, drifted(changed(), more))
    page.get("/apps/gitsync/shop/diff")

    assert page.engine.provenance.asked == [("gitsync/shop", "c" * 40, {REF: ["", ".data.mode"]})]

    calm = opened(site, resource("menu"))
    calm.get("/apps/gitsync/shop/diff")
    assert calm.engine.provenance.asked == []


def test_a_name_of_a_file_is_only_text(site: Open) -> None:
    page = opened(site, drifted(changed()))
    page.engine.provenance.known = {REF: {".data.mode": (FieldSetter("resource", '"><img src=x>\u202e\udcff.yaml:1'),)}}

    text = page.get("/apps/gitsync/shop/diff").text

    assert "<img" not in text
    assert "\u202e" not in text


def test_a_list_that_is_replaced_as_a_whole_shows_what_changed_inside(site: Open) -> None:
    before, after = [{"ports": [{"port": 80}]}, {"ports": [{"port": 443}]}], [{"ports": [{"port": 80}]}]
    item = drifted(changed(".spec.ingress", before, after), changed(".data.json", '{"a": 1}', '{"a": 2}'))

    for mode in ("split", "unified"):
        text = opened(site, item).get(f"/apps/gitsync/shop/diff?mode={mode}").text

        assert re.findall(r"<em>(.*?)</em><del>- (.*?)</del>", text) == [
            ("[1]", "{&#34;ports&#34;:[{&#34;port&#34;:443}]}"),
            (".a", "1"),
        ]
        assert "<ins>+ 2</ins>" in text


def test_one_object_shows_its_origins_too(site: Open) -> None:
    text = opened(site, drifted(changed())).get("/apps/gitsync/shop/object?ref=/ConfigMap/shop/menu").text

    assert "overlays/prod/patch.yaml:12" in prose(text)
