"""What can be taken from another environment or from registries, on the page and in the API; users propose it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from gitsync.edit.adopt import AdoptedValue, Adoption, ClusterValue
from gitsync.edit.images import DeclaredImage, ImageChoice, ImageName
from gitsync.objects.application import ImagePolicy
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.server.visibility import VisibleUpdates
from gitsync.services.updates import FoundUpdate, UpdateKey, UpdateState, UpdateView
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application

HOSTILE = "<script>alert(1)</script>\u202e"
KEY = UpdateKey("gitsync/shop")


def update(new: str = "web:2", **members: Any) -> UpdateView:
    view = application()
    assert view.application is not None
    value = ClusterValue(ObjectRef("apps", "Deployment", "shop", "web"), ".spec.image", new, "staging")
    adoption = Adoption(
        {"web.yaml": new.encode()}, (AdoptedValue(value, "web.yaml:1", "web:1"),), ((value, f"is older {HOSTILE}"),)
    )
    found = FoundUpdate(
        KEY.kind, view.application, "a" * 40, adoption, origin="staging at a", chain=("staging", "shop")
    )
    return UpdateView(KEY, **{"mode": "Manual", "state": UpdateState.READY, "checked": NOW, "update": found, **members})


def opened(site: Open, *views: UpdateView) -> Site:
    made = site([application()])
    made.engine.updates.views = list(views)
    return made


def test_a_promotion_is_shown_and_proposed_by_one_button(site: Open) -> None:
    made = opened(site, update(HOSTILE))
    page = made.get("/updates").text
    assert "staging → shop" in page
    assert "Can be taken" in page
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "Promote shop</button>" in page
    [item] = orjson.loads(made.get("/api/v1/updates").text)["items"]
    assert (item["state"], item["chain"], item["values"][0]["where"]) == ("Ready", ["staging", "shop"], "web.yaml:1")
    fields = {"kind": "promotion", "digest": item["digest"], "by": "Ada", "reason": "it works"}
    answer = made.post("/apps/gitsync/shop/update", fields)
    assert (answer.status, answer.headers["location"]) == (303, "/updates")
    assert made.engine.updates.proposed == [(KEY, item["digest"], "Ada", "it works")]
    link, intent = made.engine.records.audit_records("gitsync/shop")
    assert (intent.outcome, link.outcome) == (Outcome.INTENDED, Outcome.SUCCEEDED)
    assert link.details["branch"] == "gitsync/promote-gitsync/shop"
    assert (link.action, link.approver, link.digest) == ("promote", "Ada", item["digest"])


def test_what_waits_has_its_reason_and_no_button(site: Open) -> None:
    made = opened(site, update(state=UpdateState.WAITING, problem="staging: it is Degraded"))
    page = made.get("/updates").text
    assert "staging: it is Degraded" in page


def test_what_was_proposed_is_not_proposed_again(site: Open) -> None:
    proposed = update(
        state=UpdateState.PROPOSED, branch="gitsync/promote-shop", url="javascript:alert(1)", proposed=NOW, by="gitsync"
    )
    page = opened(site, proposed).get("/updates").text
    assert "by gitsync, on gitsync/promote-shop" in page
    assert "javascript:" not in page
    assert "Promote shop</button>" not in page


def test_a_tag_that_moved_is_on_the_page_and_in_the_api(site: Open) -> None:
    shown = update()
    assert shown.update is not None
    policy = ImagePolicy(name="web", semver=">=1")
    ref = ObjectRef("apps", "Deployment", "shop", "web")
    declared = DeclaredImage(ref, HOSTILE, ".spec.image", ImageName("web", "1"), policy)
    choice = ImageChoice(declared, "1", running="sha256:a", moved="sha256:b")
    made = opened(site, replace(shown, update=replace(shown.update, images=(choice,))))
    page = made.get("/updates").text
    assert "the tag web:1 moved from sha256:a to sha256:b" in page
    assert HOSTILE not in page
    [item] = orjson.loads(made.get("/api/v1/updates").text)["items"]
    [line] = item["moved"]
    assert line.startswith("Deployment shop/web, container ")


def test_a_form_of_another_site_proposes_nothing(site: Open) -> None:
    made = opened(site, update())
    answer = made.post("/apps/gitsync/shop/update", {"kind": "promotion", "digest": "x", "token": "other"})
    assert answer.status == 403
    assert made.post("/apps/gitsync/shop/update", {"kind": "other", "digest": "x"}).status == 422
    assert made.engine.updates.proposed == []


def test_an_update_shows_no_application_that_is_hidden(site: Open) -> None:
    updates = opened(site, update()).engine.updates
    assert VisibleUpdates(updates, lambda key: True).updates() != ()
    # its values are those of the environment before
    assert VisibleUpdates(updates, lambda key: key != "gitsync/staging").updates() == ()


def test_without_any_the_page_says_how_to_follow_some(site: Open) -> None:
    page = opened(site).get("/updates").text
    assert "spec.promotion" in page
